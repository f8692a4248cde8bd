// interp/state/namespace.h: tables of names where reading an unknown one is an error that says the
// nearest known one: every module of the standard library, ml.cuda, ml.memory.
#pragma once

#include "lua.hpp"

namespace moonlet {

// Makes the table on top of the stack such a namespace, called `name` in messages. A metatable that
// it has is kept and gets an __index. With `late` a table is popped first: names that are loaded at
// their first use, and the modules they are in.
void make_namespace(lua_State* L, const char* name, bool late = false);

}  // namespace moonlet

// Module moonlet.namespace: a function (name, table, late?) -> table.
int luaopen_moonlet_namespace(lua_State* L);

// interp/binding/program/library_tables.h: what belongs to the standard library and not to a
// script: its modules and classes, which snapshots do not look into.
#pragma once

#include <unordered_set>

#include "lua.hpp"

namespace moonlet::binding {

// The tables of the modules that are loaded now: Lua's own and Moonlet's.
std::unordered_set<const void*> library_modules(lua_State* L);
// Whether the table at a stack index is a class (stdlib/class.lua) with methods of the library
// only.
bool is_library_class(lua_State* L, int index);
// Whether the Lua function at a stack index is code of the library.
bool is_library_function(lua_State* L, int index);
// Whether the table at a stack index is a class.
bool is_class(lua_State* L, int index);

}  // namespace moonlet::binding

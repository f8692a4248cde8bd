// interp/binding/program/used_globals.h: which globals a Lua function names.
#pragma once

#include <string>
#include <vector>

#include "lua.hpp"

namespace moonlet::binding {

struct UsedGlobals {
  bool all = false;  // the table itself is used: any name may be
  std::vector<std::string> names;
};

// The names that the Lua function on top of the stack, and the functions inside it, look up in or
// write to the table in its upvalue `upvalue` (from 1), by its code.
UsedGlobals used_globals(lua_State* L, int upvalue);

}  // namespace moonlet::binding

// interp/modules/numbers.h: module moonlet.numbers.
#pragma once

#include "lua.hpp"

// Module moonlet.numbers: format, tostring and tonumber as Lua's, without regard to the locale; and
// wrap(f), which gives a function that runs f so. The functions cannot yield.
int luaopen_moonlet_numbers(lua_State* L);

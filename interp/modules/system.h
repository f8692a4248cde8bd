// interp/modules/system.h: module moonlet.system: files, terminal and clock for Lua.
#pragma once

#include "lua.hpp"

int luaopen_moonlet_system(lua_State* L);

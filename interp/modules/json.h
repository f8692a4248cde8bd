// interp/modules/json.h: module moonlet.json.
#pragma once

#include "lua.hpp"

// Module moonlet.json: encode(value) -> text, decode(text) -> value, and null, which stands for
// JSON's.
int luaopen_moonlet_json(lua_State* L);

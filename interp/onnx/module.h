// interp/onnx/module.h: module moonlet.onnx_codec: the bytes of ONNX models from tables.
#pragma once

#include "lua.hpp"

// encode(table, checked = true) -> bytes; check(bytes); unavailable() -> nil, or why.
int luaopen_moonlet_onnx_codec(lua_State* L);

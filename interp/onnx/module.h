// interp/onnx/module.h: module moonlet.onnx_codec: the bytes of ONNX models as tables, and back.
#pragma once

#include "lua.hpp"

// decode(bytes) -> table; encode(table) -> bytes; check(bytes); unavailable() -> nil, or why.
int luaopen_moonlet_onnx_codec(lua_State* L);

// interp/embed/path.h: globals of scripts, and what lies below them, by paths such as
// "model.layers".
#pragma once

#include <string_view>

#include "lua.hpp"

namespace moonlet::detail {

// Pushes what stands before the last dot of a path, from the globals on, and the name behind it.
// `op` and the path are for messages.
void push_position(lua_State* L, std::string_view path, const char* op);
// Pushes what a path leads to.
void push_path(lua_State* L, std::string_view path, const char* op);

}  // namespace moonlet::detail

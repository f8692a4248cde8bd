// interp/modules/regex.h: module moonlet.regex: regular expressions over Unicode, by PCRE2.
#pragma once

#include "lua.hpp"

// compile(pattern) -> an expression with spans(text) -> { first byte, last byte, ... } of its
// matches in their order, from 1; unavailable() -> nil, or why there are none.
int luaopen_moonlet_regex(lua_State* L);

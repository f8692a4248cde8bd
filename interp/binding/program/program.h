// interp/binding/program/program.h: module moonlet.programs: captures of functions, and the
// programs made of them, for stdlib/program.lua.
#pragma once

#include "lua.hpp"

// capture(f, inputs, names) -> graph, n results; make(graphs, description) -> program;
// load(path, max_bytes) -> program, notes.
int luaopen_moonlet_programs(lua_State* L);

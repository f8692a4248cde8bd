// interp/binding/random_generator.h: the Lua value of a random generator.
#pragma once

#include "lua.hpp"

#include "tensor/runtime/random_generator.h"

namespace moonlet::binding {

// The generator at a stack index, or null when the value is none. It lives as long as the value.
Generator* test_generator(lua_State* L, int index);
// Pushes a generator of the script's that goes on from where that one is.
void push_generator(lua_State* L, const Generator& generator);

}  // namespace moonlet::binding

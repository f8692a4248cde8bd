// interp/binding/tensor/shape.h: the Lua value of a list of sizes: a table that reads like one,
// from either end, and cannot be changed, so that no script believes that it changed the tensor.
#pragma once

#include <optional>

#include "lua.hpp"
#include "tensor/core/dims.h"

namespace moonlet::binding {

// Makes the metatable of shapes; once for each state.
void register_shapes(lua_State* L);
// Adds the functions of shapes to the module at -2.
void register_shape_functions(lua_State* L);

// Pushes a list of integers that prints as "(3, 4)". A copy of the list, since making a table may
// run finalizers of the script, which may free the tensor that it is of.
void push_shape(lua_State* L, Dims dims);

// The sizes when the value is a shape.
std::optional<Dims> shape_at(lua_State* L, int index);

// Pushes the value at `index`, or for a shape a plain list of its sizes, for what reads tables raw.
void push_plain_list(lua_State* L, int index);

}  // namespace moonlet::binding

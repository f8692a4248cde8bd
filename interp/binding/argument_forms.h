// interp/binding/argument_forms.h: other forms in which scripts may pass the arguments of an op. A
// row names the function that turns such a form into the row's own (`forms = "einsum_lists"`); it
// runs before the arguments are read and leaves alone what it does not know.
#pragma once

#include "lua.hpp"

namespace moonlet::binding {

// `einsum(a, {1, 2}, b, {2, 3}, {1, 3})`: labels from 1 to 52 and "..." instead of an equation.
void einsum_lists(lua_State* L);

// `tensordot(a, b, {dims_a, dims_b})` and the same named `dims`.
void tensordot_pair(lua_State* L);

}  // namespace moonlet::binding

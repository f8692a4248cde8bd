// interp/binding/tensor/complex_number.h: the Lua value of a complex number: a userdata of two
// doubles with arithmetic, which stands wherever a script may give a number.
#pragma once

#include <optional>

#include "interp/binding/tensor/tensor_userdata.h"

namespace moonlet::binding {

void push_complex(lua_State* L, complex128 value);

// The complex number at a stack index; nothing for other values, plain numbers among them.
std::optional<complex128> complex_at(lua_State* L, int index);

// Creates the metatable.
void register_complex(lua_State* L);

}  // namespace moonlet::binding

// interp/binding/tensor/noted.h: tensors that scripts have and others hold too, for who must not
// raise a Lua error.
#pragma once

#include "lua.hpp"
#include "tensor/core/tensor.h"

namespace moonlet::binding {

// Pushes the userdata of a tensor that was noted (note_seen); false, and pushes nothing, for another
// one. Takes 4 places of the stack.
bool push_noted(lua_State* L, const Tensor& tensor);

}  // namespace moonlet::binding

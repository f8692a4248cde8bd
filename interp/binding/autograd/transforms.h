// interp/binding/autograd/transforms.h: the levels of vmap and of forward mode for scripts.
#pragma once

#include "interp/binding/tensor/tensor_userdata.h"

namespace moonlet::binding {

// Adds them to the module at -2.
void register_transforms(lua_State* L);

}  // namespace moonlet::binding

// interp/binding/tensor/tensor_class.h: classes of tensors and storages that a script registers:
// the same userdata under other metatables, so that a library can give tensors other methods.
#pragma once

#include <atomic>

#include "interp/binding/tensor/tensor_userdata.h"

namespace moonlet::binding {

// Whether any interpreter of this process has registered a class; what is asked on hot paths.
extern std::atomic<bool> tensor_classes_exist;

// For the metatable of native tensors on top of the stack: puts that in its place which a result
// of `dtype` has, when the running function's first argument is a tensor of a registered class.
void replace_by_class(lua_State* L, DType dtype);

// Whether the table at a stack index is the metatable of a registered class of storages.
bool is_storage_class(lua_State* L, int index);

}  // namespace moonlet::binding

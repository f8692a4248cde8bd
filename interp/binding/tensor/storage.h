// interp/binding/tensor/storage.h: the Lua value of a storage: one full userdata that holds one
// counted reference, the same one as long as a script holds it.
#pragma once

#include "interp/binding/tensor/tensor_userdata.h"
#include "tensor/core/typed_storage.h"

namespace moonlet::binding {

// The storage's cell at a stack index, or null when the value is no storage. The cell is undefined
// after `s:free()`.
TypedStorage* storage_cell(lua_State* L, int index);
// The storage at a stack index. Throws Error naming `op` when it is none or has been freed.
TypedStorage& check_storage(lua_State* L, int index, const char* op);
// Pushes the userdata of a storage: the one that stands for it in this state already, or a new one.
int push_storage(lua_State* L, TypedStorage storage);

}  // namespace moonlet::binding

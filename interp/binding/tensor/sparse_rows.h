// interp/binding/tensor/sparse_rows.h: the Lua value of a sparse gradient: a userdata that shares
// the rows with the leaf they are the gradient of.
#pragma once

#include <memory>

#include "autograd/sparse_rows.h"
#include "interp/binding/tensor/tensor_userdata.h"

namespace moonlet::binding {

// The rows at a stack index, or null when the value is none.
std::shared_ptr<SharedRows> sparse_rows_at(lua_State* L, int index);
int push_sparse_rows(lua_State* L, std::shared_ptr<SharedRows> rows);
// Stack: the module at -2, which gets the tables of fields and methods for help and the prompt.
void register_sparse_rows(lua_State* L);

}  // namespace moonlet::binding

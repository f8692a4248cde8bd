// interp/binding/native_ops.h: ops that C++ declares at run time (autograd/native_op.h) in scripts.
#pragma once

#include "lua.hpp"
#include "tensor/core/op_info.h"

namespace moonlet::binding {

// Gives the interpreter the functions of an op: of "mylib::snake" those are ml.ops.mylib.snake and
// snake_, of "snake" ml.snake and ml.snake_, and the methods x:snake() and x:snake_(), where the op
// has them; and the fields `snake` and `snake_` of the table at a stack index, or 0 for none.
// Throws where another thing has the name. Nothing, but for that table, where the interpreter has
// them.
void install_native_op(lua_State* L, const OpInfo& op, int module);

}  // namespace moonlet::binding

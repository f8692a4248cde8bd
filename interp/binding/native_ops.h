// interp/binding/native_ops.h: ops that C++ declares at run time (autograd/native/native_op.h) in
// scripts.
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

// Sets the field `declared` of the table on top, which describes an op, to what its declaration
// says beside its row: for help, stubs and tests. Nothing for an op of the table.
void set_declared(lua_State* L, const OpInfo& op);

// Sets ml.ops.stubs, and ml.ops._declared, which gives the names of such ops, in the table on top.
void register_declared_ops(lua_State* L);

// The C function behind all of them.
lua_CFunction native_op_function();

}  // namespace moonlet::binding

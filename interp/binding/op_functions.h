// interp/binding/op_functions.h: the tables in which scripts find ops.
#pragma once

#include "lua.hpp"

namespace moonlet::binding {

// Fields are what is read like one, as x.real.
enum class OpTable { Module, Methods, Fields, Internal };

// Pushes the function of the op that is named at index `key`, from then on a field of the table at
// `index`; false, and pushes nothing, where such a table has no such op.
bool push_op_function(lua_State* L, OpTable table, int index, int key);

// Gives the table at `index` all its ops, for what walks over it.
void add_op_functions(lua_State* L, OpTable table, int index);

// The same of the tables of ml, where that is open.
void add_all_op_functions(lua_State* L);

// The __pairs of ml.
int l_module_pairs(lua_State* L);

// Stack: ml, methods, metatable. Makes what is not late: metamethods, ml.linalg and its like.
// Internal ops are in `ml._internal`, for stdlib/ and the tests.
void register_ops(lua_State* L);

}  // namespace moonlet::binding

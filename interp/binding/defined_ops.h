// interp/binding/defined_ops.h: ops that scripts define (ml.ops.define). They belong to their
// interpreter: it finds them by name, and they end with it.
#pragma once

#include <string_view>
#include <vector>

#include "lua.hpp"
#include "tensor/core/op_info.h"

namespace moonlet::binding {

// The op of that name, or null.
const OpInfo* find_defined(lua_State* L, std::string_view name);
// All of them, in the order in which they were defined.
std::vector<const OpInfo*> defined_ops(lua_State* L);

// Whether the value at a stack index is a function that calls one, which belongs to this state.
bool is_defined_op(lua_State* L, int index);

// Hand-written parts of `ml`; the module at -2.
void register_defined_ops(lua_State* L);

}  // namespace moonlet::binding

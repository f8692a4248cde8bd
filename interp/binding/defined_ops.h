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

// Hand-written parts of `ml`; the module at -2.
void register_defined_ops(lua_State* L);

}  // namespace moonlet::binding

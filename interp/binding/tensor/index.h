// interp/binding/tensor/index.h: all the ways to index a tensor from Lua, to read and to assign.
#pragma once

#include <string_view>

#include "interp/binding/tensor/tensor_userdata.h"

namespace moonlet::binding {

// Whether a string key is an index such as "2:5, :, ..., -1" rather than a misspelt name.
bool is_index_text(std::string_view text);

// x[key] for the key at a stack index: a view for basic forms, a copy for index tensors and masks.
Tensor read_index(lua_State* L, const Tensor& x, int key);
// x[i], which for a tensor of one dimension is one of no dimensions.
Tensor part_at(const Tensor& x, int64_t i);

// x[key] = value.
void assign_index(lua_State* L, const Tensor& x, int key, int value);

// The tensor a Lua value stands for (construct.cpp): numbers, booleans, nested tables, tensors.
// Without `dtype`, what the values call for.
Tensor tensor_from_value(lua_State* L, int value, std::optional<DType> dtype, Device device,
                         const char* op);

}  // namespace moonlet::binding

// interp/binding/bytes.h: the parts of module moonlet.bytes: raw bytes of tensors, and files that
// hold tensors.
#pragma once

#include <string>
#include <string_view>

#include "lua.hpp"
#include "tensor/tensor.h"

namespace moonlet::binding {

// Each adds its functions to the table on top of the stack.
void register_table_files(lua_State* L);
void register_safetensors(lua_State* L);

// The path of a file at a stack index; throws Error naming `op` when it is none, and when scripts of
// this interpreter have no access to files.
std::string path_argument(lua_State* L, int index, const char* op);
// The tensor's elements in row order in host memory, outside the tape.
Tensor host_rows(const Tensor& x);
// Throws Error when a byte of a bool tensor is neither 0 nor 1; other dtypes take any bytes.
void check_bool_bytes(const Tensor& x, const std::string& what);

}  // namespace moonlet::binding

// Module moonlet.bytes: from_bytes, to_bytes, rebind, read_csv, read_idx, read_safetensors,
// write_safetensors.
int luaopen_moonlet_bytes(lua_State* L);

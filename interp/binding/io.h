// interp/binding/io.h: module moonlet.io, and the paths of files that scripts name.
#pragma once

#include <string>

#include "lua.hpp"

namespace moonlet::binding {

// The path of a file at a stack index; throws Error naming `op` when it is none, and where scripts
// have no access to files.
std::string path_argument(lua_State* L, int index, const char* op);

}  // namespace moonlet::binding

// Module moonlet.io, the files of tensors (tensor/io/) for the standard library: read_csv,
// read_csv_table, write_csv, write_csv_table, read_idx, read_safetensors, write_safetensors.
int luaopen_moonlet_io(lua_State* L);

// interp/system.h: files, terminal and clock for Lua (module moonlet.system) and for C++.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lua.hpp"

int luaopen_moonlet_system(lua_State* L);

namespace moonlet {

// Writes `parts` one after the other to `path` so that a reader sees the old file or the whole new
// one: a temporary file in the same folder, fsync, rename. Keeps the mode of a file that exists and
// writes through symbolic links; devices and pipes are written directly. Throws Error
// that names the path and the reason.
void write_file(const std::string& path, const std::vector<std::string_view>& parts);

// The bytes of a file, decompressed when it is gzip. Throws Error that names the path
// and the reason, also for a gzip file that is cut short or damaged.
std::string read_file(const std::string& path);

}  // namespace moonlet

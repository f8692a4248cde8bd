// interp/modules/system.cpp: module moonlet.system, what scripts need from the machine beside
// tensors.
#include "interp/modules/modules.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "interp/state/bundled.h"
#include "interp/state/entry.h"
#include "interp/state/guard.h"
#include "interp/state/state.h"
#include "tensor/core/platform/files.h"
#include "tensor/core/platform/libraries.h"
#include "tensor/core/platform/process.h"
#include "tensor/io/bundle.h"
#include "tensor/io/files.h"

namespace moonlet {
namespace {

int l_isatty(lua_State* L) {
  // What the host takes is shown on no terminal of ours.
  const bool redirected = static_cast<bool>(state_data(L).options.output);
  lua_pushboolean(L,
                  !redirected && platform::is_terminal(static_cast<int>(luaL_checkinteger(L, 1))));
  return 1;
}

// Null when it is not set, or the state does not read the environment.
const char* variable(lua_State* L, const char* name) {
  return state_data(L).options.environment ? platform::variable(name) : nullptr;
}

int environment_size(lua_State* L, const char* name, int otherwise) {
  const char* text = variable(L, name);
  const int value = text != nullptr ? std::atoi(text) : 0;
  return value > 0 ? value : otherwise;
}

// terminal_size() -> columns, rows: of the first standard stream that is a terminal, else from
// COLUMNS and LINES, else 80 x 24.
int l_terminal_size(lua_State* L) {
  int columns = 0;
  int rows = 0;
  for (const int stream : {2, 1, 0}) {
    const std::optional<platform::TerminalSize> size = platform::terminal_size(stream);
    if (!size) continue;
    columns = size->columns;
    rows = size->rows;
    break;
  }
  lua_pushinteger(L, columns > 0 ? columns : environment_size(L, "COLUMNS", 80));
  lua_pushinteger(L, rows > 0 ? rows : environment_size(L, "LINES", 24));
  return 2;
}

// clock() -> seconds of a clock that never goes back, as a float.
int l_clock(lua_State* L) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  lua_pushnumber(L, std::chrono::duration<double>(now).count());
  return 1;
}

std::string_view check_view(lua_State* L, int index) {
  size_t size = 0;
  const char* text = luaL_checklstring(L, index, &size);
  return {text, size};
}

// A path among the arguments of a function that messages call `op`.
std::string check_path(lua_State* L, const char* op, int index = 1) {
  std::string path(check_view(L, index));
  luaL_argcheck(L, path.find('\0') == path.npos, index, "a path holds no zero byte");
  check_files_allowed(op, path);
  return path;
}

// The strings of the list at `index`; the table keeps them alive.
std::vector<std::string_view> check_parts(lua_State* L, int index) {
  if (lua_type(L, index) != LUA_TTABLE) return {check_view(L, index)};
  std::vector<std::string_view> parts;
  const lua_Integer count = static_cast<lua_Integer>(lua_rawlen(L, index));
  for (lua_Integer i = 1; i <= count; ++i) {
    if (lua_rawgeti(L, index, i) != LUA_TSTRING) {
      luaL_error(L, "write_file: part %I is a %s, not a string", i, luaL_typename(L, -1));
    }
    parts.push_back(check_view(L, -1));
    lua_pop(L, 1);
  }
  return parts;
}

// write_file(path, data, caller): data is a string or a list of strings; errors name the caller.
int l_write_file(lua_State* L) {
  const char* op = luaL_optstring(L, 3, "write_file");
  io::write_file(check_path(L, op), check_parts(L, 2), op);
  return 0;
}

// read_file(path, name, max_bytes, weight) -> string; `name` is what messages call the function,
// which makes `weight` bytes of each byte of the file (default 1).
int l_read_file(lua_State* L) {
  const char* op = luaL_optstring(L, 2, "read_file");
  const auto weight = static_cast<uint64_t>(std::max<lua_Integer>(luaL_optinteger(L, 4, 1), 1));
  // The string that the script gets is a copy.
  const std::string data =
      io::read_file(check_path(L, op), op, luaL_optinteger(L, 3, 0), weight + 1);
  lua_pushlstring(L, data.data(), data.size());
  return 1;
}

// What a folder of the bundle has, as `list` names it; nothing where it has no such folder.
std::set<std::string> names_in(const io::Bundle& bundle, const std::string& folder) {
  std::string prefix = folder;
  while (prefix.starts_with("./")) prefix.erase(0, 2);
  while (prefix.ends_with('/')) prefix.pop_back();
  if (prefix == ".") prefix.clear();
  if (!prefix.empty()) prefix += '/';
  std::set<std::string> out;
  for (size_t i = 1; i < bundle.entries().size(); ++i) {
    const std::string& name = bundle.entries()[i].name;
    if (!name.starts_with(prefix)) continue;
    const size_t end = name.find('/', prefix.size());
    const size_t count = end == name.npos ? end : end + 1 - prefix.size();
    out.insert(name.substr(prefix.size(), count));
  }
  return out;
}

const char* name_of(platform::FileKind kind) {
  switch (kind) {
    case platform::FileKind::kRegular: return "file";
    case platform::FileKind::kFolder: return "directory";
    default: return "other";
  }
}

// exists(path) -> "file", "directory", "other" or false
int l_exists(lua_State* L) {
  platform::FileInfo info;
  const std::string path = check_path(L, "exists");
  const std::shared_ptr<const io::Bundle> bundle = bundle_of(state_data(L));
  const char* kind = nullptr;
  if (bundle != nullptr && !names_in(*bundle, path).empty()) kind = "directory";
  if (bundle != nullptr && bundle->find(path) != nullptr) kind = "file";
  if (kind == nullptr && platform::describe(path, info) == 0) kind = name_of(info.kind);
  if (kind == nullptr) {
    lua_pushboolean(L, 0);
  } else {
    lua_pushstring(L, kind);
  }
  return 1;
}

// is_same_file(path, path) -> whether both are there and lead to one file
int l_is_same_file(lua_State* L) {
  const std::string first = check_path(L, "is_same_file", 1);
  lua_pushboolean(L, platform::is_same_file(first, check_path(L, "is_same_file", 2)));
  return 1;
}

// list(path) -> the names in a folder, those of folders with a slash at the end; none where it
// cannot be read
int l_list(lua_State* L) {
  const std::string path = check_path(L, "list");
  lua_newtable(L);
  lua_Integer count = 0;
  if (const std::shared_ptr<const io::Bundle> bundle = bundle_of(state_data(L))) {
    const std::set<std::string> names = names_in(*bundle, path);
    for (const std::string& name : names) {
      lua_pushlstring(L, name.data(), name.size());
      lua_rawseti(L, -2, ++count);
    }
    if (count > 0) return 1;
  }
  for (const std::string& name : platform::names_in(path)) {
    lua_pushlstring(L, name.data(), name.size());
    lua_rawseti(L, -2, ++count);
  }
  return 1;
}

// make_folder(path, caller): makes a folder and those above it; nothing where it is there. Errors
// name the caller.
int l_make_folder(lua_State* L) {
  const char* op = luaL_optstring(L, 2, "make_folder");
  const std::string path = check_path(L, op);
  const std::string reason = platform::make_folders(path);
  if (!reason.empty()) {
    return luaL_error(L, "%s: cannot make the folder '%s': %s", op, path.c_str(), reason.c_str());
  }
  return 0;
}

// split(path) -> the folder, with a separator at its end or empty, and the name in it
int l_split(lua_State* L) {
  const std::string_view path = check_view(L, 1);
  const size_t at = platform::last_separator(path);
  const size_t size = at == path.npos ? 0 : at + 1;
  lua_pushlstring(L, path.data(), size);
  lua_pushlstring(L, path.data() + size, path.size() - size);
  return 2;
}

int l_getenv(lua_State* L) {
  lua_pushstring(L, variable(L, luaL_checkstring(L, 1)));  // pushes nil for null
  return 1;
}

// current_folder() -> where paths that begin with no folder are
int l_current_folder(lua_State* L) {
  lua_pushstring(L, platform::resolved_path(".").c_str());
  return 1;
}

// executable() -> the path of the executable of this process
int l_executable(lua_State* L) {
  lua_pushstring(L, platform::executable_path().c_str());
  return 1;
}

int l_pid(lua_State* L) {
  lua_pushinteger(L, platform::process_id());
  return 1;
}

constexpr luaL_Reg kFunctions[] = {
    {"isatty", guard<l_isatty>},
    {"terminal_size", guard<l_terminal_size>},
    {"clock", guard<l_clock>},
    {"write_file", guard<l_write_file>},
    {"read_file", guard<l_read_file>},
    {"exists", guard<l_exists>},
    {"is_same_file", guard<l_is_same_file>},
    {"list", guard<l_list>},
    {"make_folder", guard<l_make_folder>},
    {"split", guard<l_split>},
    {"current_folder", guard<l_current_folder>},
    {"getenv", guard<l_getenv>},
    {"executable", guard<l_executable>},
    {"pid", guard<l_pid>},
    {nullptr, nullptr},
};

}  // namespace
}  // namespace moonlet

int luaopen_moonlet_system(lua_State* L) {
  luaL_newlib(L, moonlet::kFunctions);
  return 1;
}

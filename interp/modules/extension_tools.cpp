// interp/modules/extension_tools.cpp: module moonlet.extension_tools: what stdlib/ext/ compiles and
// loads extensions with. All of it is refused to scripts that may not run programs.
#include "interp/modules/modules.h"

#include <filesystem>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "interp/modules/open_extension.h"
#include "interp/state/guard.h"
#include "interp/state/state.h"
#include "tensor/core/platform/process.h"
#include "tensor/core/platform/programs.h"
#include "tensor/io/cache_folder.h"
#include "tensor/io/files.h"
#include "tensor/io/sha256.h"
#include "tensor/runtime/plugin_paths.h"

namespace moonlet {
namespace {

// What an extension does is native code: only scripts that have all that it could do may have it.
void check_allowed(lua_State* L, const char* op) {
  const Libraries& given = state_data(L).options.libraries;
  const char* missing = !given.os ? "os" : !given.io ? "io" : !given.package ? "package" : nullptr;
  check(missing == nullptr, op,
        ": this interpreter may not compile and load native code, as it has ", "no library ",
        missing != nullptr ? missing : "");
}

template <lua_CFunction f>
int allowed(lua_State* L) {
  check_allowed(L, "ext");
  return f(L);
}

std::string check_text(lua_State* L, int index) {
  size_t size = 0;
  const char* text = luaL_checklstring(L, index, &size);
  std::string out(text, size);
  luaL_argcheck(L, out.find('\0') == out.npos, index, "expected a text without zero bytes");
  return out;
}

// allowed(caller): an error that names the caller where scripts may not.
int l_allowed(lua_State* L) {
  const char* const op = luaL_checkstring(L, 1);
  check_allowed(L, op);
  check(platform::kNoPrograms == nullptr, op, ": ",
        platform::kNoPrograms != nullptr ? platform::kNoPrograms : "");
  return 0;
}

// --- programs ------------------------------------------------------------------------------------

const char* variable(lua_State* L, const char* name) {
  return state_data(L).options.environment ? platform::variable(name) : nullptr;
}

std::string search_path(lua_State* L) {
  const char* path = variable(L, "PATH");
  return path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin";
}

// find_program(name) -> its path, or nil: beside those of PATH, or where a path with a slash leads.
int l_find_program(lua_State* L) {
  const std::string name = check_text(L, 1);
  if (name.find('/') != name.npos) {
    lua_pushstring(L, platform::is_program(name) ? name.c_str() : nullptr);
    return 1;
  }
  const std::string folders = search_path(L);
  for (size_t begin = 0; begin <= folders.size() && !name.empty();) {
    const size_t end = std::min(folders.find(':', begin), folders.size());
    const std::string path = folders.substr(begin, end - begin) + "/" + name;
    if (end > begin && platform::is_program(path)) {
      lua_pushlstring(L, path.data(), path.size());
      return 1;
    }
    begin = end + 1;
  }
  lua_pushnil(L);
  return 1;
}

bool sets(const std::string& entry, const std::string& name) {
  return entry.size() > name.size() && entry[name.size()] == '=' &&
         entry.compare(0, name.size(), name) == 0;
}

// The variables that a program sees: those of this process, where the interpreter reads them, with
// those of the table at `index` in their stead.
std::vector<std::string> environment_for(lua_State* L, int index) {
  std::vector<std::string> out;
  if (state_data(L).options.environment)
    out = platform::environment();
  else
    out.push_back("PATH=" + search_path(L));
  luaL_checktype(L, index, LUA_TTABLE);
  for (lua_pushnil(L); lua_next(L, index) != 0; lua_pop(L, 1)) {
    const std::string name = check_text(L, -2);
    std::erase_if(out, [&](const std::string& entry) { return sets(entry, name); });
    out.push_back(name + "=" + check_text(L, -1));
  }
  return out;
}

// The function at `index` as the tick of what waits; none for nil.
std::function<void()> tick_of(lua_State* L, int index) {
  if (lua_isnoneornil(L, index)) return {};
  return [L, index] {
    lua_pushvalue(L, index);
    lua_call(L, 0, 0);
  };
}

// run(arguments, variables, tick) -> status, output
int l_run(lua_State* L) {
  platform::Program program;
  luaL_checktype(L, 1, LUA_TTABLE);
  for (lua_Integer i = 1; lua_rawgeti(L, 1, i) != LUA_TNIL; ++i) {
    program.arguments.push_back(check_text(L, -1));
    lua_pop(L, 1);
  }
  lua_settop(L, 3);
  program.environment = environment_for(L, 2);
  program.tick = tick_of(L, 3);
  const platform::ProgramResult result = platform::run_program(program);
  lua_pushinteger(L, result.status);
  lua_pushlstring(L, result.output.data(), result.output.size());
  return 2;
}

// --- locks ---------------------------------------------------------------------------------------

constexpr const char* kLock = "moonlet.extension_tools.lock";

int l_release_lock(lua_State* L) {
  static_cast<platform::FileLock*>(luaL_checkudata(L, 1, kLock))->release();
  return 0;
}

// lock(path, tick) -> what holds the file until it is closed
int l_lock(lua_State* L) {
  const std::string path = check_text(L, 1);
  lua_settop(L, 2);
  void* const memory = lua_newuserdatauv(L, sizeof(platform::FileLock), 0);
  if (luaL_newmetatable(L, kLock) != 0) {
    lua_pushcfunction(L, guard<l_release_lock>);
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, "__gc");
    lua_setfield(L, -2, "__close");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
  }
  new (memory) platform::FileLock(path, tick_of(L, 2));
  lua_setmetatable(L, -2);
  return 1;
}

// --- files ---------------------------------------------------------------------------------------

// stat(path) -> size, time of the last change in nanoseconds; nil where there is no such file
int l_stat(lua_State* L) {
  const std::optional<platform::FileStamp> stamp = platform::file_stamp(check_text(L, 1));
  if (!stamp) return 0;
  lua_pushinteger(L, stamp->size);
  lua_pushinteger(L, stamp->changed);
  return 2;
}

int l_hash(lua_State* L) {
  size_t size = 0;
  const char* text = luaL_checklstring(L, 1, &size);
  lua_pushstring(L, io::to_hex(io::sha256({text, size})).c_str());
  return 1;
}

// read(path, caller) -> the bytes of a file as it is
int l_read(lua_State* L) {
  const io::InputFile file(check_text(L, 1), luaL_checkstring(L, 2));
  std::string bytes(file.size(), '\0');
  file.read(0, bytes.data(), bytes.size());
  lua_pushlstring(L, bytes.data(), bytes.size());
  return 1;
}

// make_folder(path): a folder that is this user's alone to write, with those above it.
int l_make_folder(lua_State* L) {
  namespace fs = std::filesystem;
  const std::string path = check_text(L, 1);
  std::error_code error;
  const bool made = fs::create_directories(path, error);
  check(!error, "cannot make the folder '", path, "': ", error.message());
  if (made) fs::permissions(path, fs::perms::owner_all, error);
  const char* reason = platform::why_not_own(path);
  check(reason == nullptr, "no code is kept in the folder '", path, "': ", reason ? reason : "");
  return 0;
}

// temporary_folder(beginning) -> the path of a new folder, whose name begins so
int l_temporary_folder(lua_State* L) {
  const std::string path = platform::new_folder(check_text(L, 1));
  lua_pushlstring(L, path.data(), path.size());
  return 1;
}

// remove_folder(path): with all that is in it.
int l_remove_folder(lua_State* L) {
  std::error_code ignored;
  std::filesystem::remove_all(check_text(L, 1), ignored);
  return 0;
}

int l_real_path(lua_State* L) {
  std::error_code error;
  const std::string path = std::filesystem::canonical(check_text(L, 1), error).string();
  lua_pushstring(L, error ? nullptr : path.c_str());
  return 1;
}

// absolute(path) -> the same from the root, without looking at the disk
int l_absolute(lua_State* L) {
  const std::string path = std::filesystem::absolute(check_text(L, 1)).lexically_normal().string();
  lua_pushlstring(L, path.data(), path.size());
  return 1;
}

// cache_folder() -> the folder of what is kept; nil where nothing is
int l_cache_folder(lua_State* L) {
  const std::string folder = io::cache_folder();
  lua_pushstring(L, folder.empty() ? nullptr : folder.c_str());
  return 1;
}

// header_folders() -> the folders that the public headers may be in
int l_header_folders(lua_State* L) {
  lua_newtable(L);
  lua_Integer count = 0;
  for (const std::string& each : header_folders()) {
    lua_pushlstring(L, each.data(), each.size());
    lua_rawseti(L, -2, ++count);
  }
  return 1;
}

// --- libraries -----------------------------------------------------------------------------------

// abi() -> what extensions of this Moonlet are compiled for
int l_abi(lua_State* L) {
  lua_pushstring(L, extension_abi());
  return 1;
}

// open(path, caller) -> the module of an extension
int l_open(lua_State* L) {
  const std::string path = check_text(L, 1), caller = check_text(L, 2);
  open_extension(L, path, caller);
  return 1;
}

constexpr luaL_Reg kFunctions[] = {
    {"allowed", guard<l_allowed>},
    {"abi", guard<l_abi>},
    {"absolute", guard<allowed<l_absolute>>},
    {"cache_folder", guard<allowed<l_cache_folder>>},
    {"find_program", guard<allowed<l_find_program>>},
    {"hash", guard<l_hash>},
    {"header_folders", guard<allowed<l_header_folders>>},
    {"lock", guard<allowed<l_lock>>},
    {"make_folder", guard<allowed<l_make_folder>>},
    {"open", guard<allowed<l_open>>},
    {"read", guard<allowed<l_read>>},
    {"real_path", guard<allowed<l_real_path>>},
    {"remove_folder", guard<allowed<l_remove_folder>>},
    {"run", guard<allowed<l_run>>},
    {"stat", guard<allowed<l_stat>>},
    {"temporary_folder", guard<allowed<l_temporary_folder>>},
    {nullptr, nullptr},
};

}  // namespace
}  // namespace moonlet

int luaopen_moonlet_extension_tools(lua_State* L) {
  luaL_newlib(L, moonlet::kFunctions);
  return 1;
}

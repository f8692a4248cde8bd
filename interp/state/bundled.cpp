// interp/state/bundled.cpp: what of an interpreter is read from a bundle.
#include "interp/state/bundled.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "interp/state/guard.h"
#include "interp/state/host_file_system.h"
#include "interp/state/state.h"
#include "tensor/core/error.h"
#include "tensor/io/files.h"

namespace moonlet {

std::unique_ptr<io::FileSystem> files_before(std::shared_ptr<const io::Bundle> bundle,
                                             std::unique_ptr<io::FileSystem> others) {
  if (bundle == nullptr) return others;
  return std::make_unique<io::BundleFiles>(std::move(bundle), std::move(others));
}

std::unique_ptr<io::FileSystem> files_of_host(const HostFiles& host) {
  check((host.size == nullptr) == (host.read == nullptr) &&
            (host.size != nullptr || host.write == nullptr),
        "Interpreter: the option files needs both 'size' and 'read'");
  return host.size ? std::make_unique<HostFileSystem>(host) : nullptr;
}

std::shared_ptr<const io::Bundle> bundle_of(const StateData& data) {
  const auto* files = dynamic_cast<const io::BundleFiles*>(data.files.get());
  return files != nullptr ? files->bundle() : nullptr;
}

const io::BundleEntry* find_bundled_module(const StateData& data, std::string_view name) {
  const auto bundle = bundle_of(data);
  if (bundle == nullptr) return nullptr;
  std::string path(name);
  std::replace(path.begin(), path.end(), '.', '/');
  const io::BundleEntry* entry = bundle->find(path + ".lua");
  return entry != nullptr ? entry : bundle->find(path + "/init.lua");
}

bool is_own_script(const StateData& data, std::string_view path) {
  const auto bundle = bundle_of(data);
  if (bundle == nullptr || bundle != io::own_bundle()) return false;
  const io::BundleEntry* entry = bundle->find(path);
  return entry != nullptr &&
         (entry->kind == io::BundleKind::Main || entry->kind == io::BundleKind::Script);
}

// --- Lua's io ------------------------------------------------------------------------------------

namespace {

int close_file(lua_State* L) {
  auto* stream = static_cast<luaL_Stream*>(luaL_checkudata(L, 1, LUA_FILEHANDLE));
  return luaL_fileresult(L, std::fclose(stream->f) == 0 ? 1 : 0, nullptr);
}

// Whether the call of io.open or io.lines is for a file of the bundle.
bool is_bundled(lua_State* L, const char* mode) {
  if (lua_type(L, 1) != LUA_TSTRING) return false;
  const bool reads = std::strcmp(mode, "r") == 0 || std::strcmp(mode, "rb") == 0;
  return reads && bundle_of(state_data(L))->find(lua_tostring(L, 1)) != nullptr;
}

// Pushes a file of Lua's over a copy in memory.
void push_file(lua_State* L, const char* op) {
  auto* stream = static_cast<luaL_Stream*>(lua_newuserdatauv(L, sizeof(luaL_Stream), 0));
  stream->closef = nullptr;
  luaL_setmetatable(L, LUA_FILEHANDLE);
  io::Descriptor descriptor(io::InputFile(lua_tostring(L, 1), op).release());
  stream->f = ::fdopen(descriptor.get(), "r");
  if (stream->f == nullptr) fail(op, ": '", lua_tostring(L, 1), "': ", std::strerror(errno));
  static_cast<void>(descriptor.release());  // the stream's now
  stream->closef = close_file;
}

int call_original(lua_State* L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

int l_open(lua_State* L) {
  if (!is_bundled(L, luaL_optstring(L, 2, "r"))) return call_original(L);
  push_file(L, "io.open");
  return 1;
}

// As io.lines: the iterator, and the file, which is closed with the loop.
int l_lines(lua_State* L) {
  if (!is_bundled(L, "r")) return call_original(L);
  push_file(L, "io.lines");
  const int file = lua_gettop(L);
  lua_getfield(L, file, "lines");
  lua_pushvalue(L, file);
  for (int i = 2; i < file; ++i) lua_pushvalue(L, i);
  lua_call(L, file - 1, 1);
  lua_pushnil(L);
  lua_pushnil(L);
  lua_pushvalue(L, file);
  return 4;
}

}  // namespace

void open_bundled_files(lua_State* L) {
  if (bundle_of(state_data(L)) == nullptr || !push_library(L, LUA_IOLIBNAME)) return;
  lua_getfield(L, -1, "open");
  lua_pushcclosure(L, guard<l_open>, 1);
  lua_setfield(L, -2, "open");
  lua_getfield(L, -1, "lines");
  lua_pushcclosure(L, guard<l_lines>, 1);
  lua_setfield(L, -2, "lines");
  lua_pop(L, 1);
}

}  // namespace moonlet

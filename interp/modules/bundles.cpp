// interp/modules/bundles.cpp: module moonlet.bundles, bundles as files (tensor/io/bundle.h), for
// `moonlet bundle` (stdlib/bundle.lua).
#include "interp/modules/modules.h"

#include <string>
#include <vector>

#include "interp/state/entry.h"
#include "interp/state/guard.h"
#include "interp/state/state.h"
#include "tensor/core/error.h"
#include "tensor/io/bundle.h"

namespace moonlet {
namespace {

constexpr const char* kOp = "bundle";
constexpr const char* kKinds[] = {"front", "main", "script", "file", "plugin", nullptr};

std::string checked_text(lua_State* L, int index) {
  size_t size = 0;
  const char* text = luaL_checklstring(L, index, &size);
  return {text, size};
}

std::string checked_path(lua_State* L, int index) {
  std::string path = checked_text(L, index);
  check(path.find('\0') == path.npos, kOp, ": a path holds no zero byte");
  check_files_allowed(kOp, path);
  return path;
}

// The field of the table on top of the stack, a string; or nothing.
std::string field(lua_State* L, const char* name, bool is_path = false) {
  std::string out;
  if (lua_getfield(L, -1, name) != LUA_TNIL)
    out = is_path ? checked_path(L, lua_gettop(L)) : checked_text(L, lua_gettop(L));
  lua_pop(L, 1);
  return out;
}

// write(path, executable or "", { { name =, kind =, path = or bytes = }, ... })
int l_write(lua_State* L) {
  const std::string path = checked_path(L, 1), executable = checked_path(L, 2);
  luaL_checktype(L, 3, LUA_TTABLE);
  std::vector<io::BundleInput> inputs;
  const lua_Integer count = luaL_len(L, 3);
  for (lua_Integer i = 1; i <= count; ++i) {
    check(lua_geti(L, 3, i) == LUA_TTABLE, kOp, ": input ", static_cast<int64_t>(i),
          " is no table");
    io::BundleInput& input = inputs.emplace_back();
    lua_getfield(L, -1, "kind");
    input.kind = static_cast<io::BundleKind>(luaL_checkoption(L, lua_gettop(L), "file", kKinds));
    check(input.kind != io::BundleKind::Front, kOp, ": input ", static_cast<int64_t>(i),
          " is of no kind of files");
    lua_pop(L, 1);
    input.name = field(L, "name");
    input.path = field(L, "path", true);
    input.bytes = field(L, "bytes");
    lua_pop(L, 1);
  }
  io::write_bundle(path, executable, inputs, kOp);
  return 0;
}

void set_number(lua_State* L, const char* name, uint64_t value) {
  lua_pushinteger(L, static_cast<lua_Integer>(value));
  lua_setfield(L, -2, name);
}

// list(path) -> { { name =, kind =, at =, bytes = }, ... }, the first being what lies before files
int l_list(lua_State* L) {
  const auto bundle = io::open_bundle(checked_path(L, 1), kOp);
  lua_createtable(L, static_cast<int>(bundle->entries().size()), 0);
  lua_Integer i = 0;
  for (const io::BundleEntry& entry : bundle->entries()) {
    lua_createtable(L, 0, 4);
    lua_pushlstring(L, entry.name.data(), entry.name.size());
    lua_setfield(L, -2, "name");
    lua_pushstring(L, kKinds[static_cast<size_t>(entry.kind)]);
    lua_setfield(L, -2, "kind");
    set_number(L, "at", entry.at);
    set_number(L, "bytes", entry.bytes);
    lua_rawseti(L, -2, ++i);
  }
  return 1;
}

// read(path, name) -> the bytes of a file in it, which were looked at
int l_read(lua_State* L) {
  const auto bundle = io::open_bundle(checked_path(L, 1), kOp);
  const std::string name = checked_text(L, 2);
  const io::BundleEntry* entry = bundle->find(name);
  check(entry != nullptr, bundle->title(), ": there is no '", name, "' in it");
  const std::string bytes = bundle->bytes_of(*entry);
  lua_pushlstring(L, bytes.data(), bytes.size());
  return 1;
}

// check(path): an error where a byte of it is another than it was
int l_check(lua_State* L) {
  const auto bundle = io::open_bundle(checked_path(L, 1), kOp);
  for (const io::BundleEntry& entry : bundle->entries()) bundle->verify(entry);
  return 0;
}

constexpr luaL_Reg kFunctions[] = {{"write", guard<l_write>},
                                   {"list", guard<l_list>},
                                   {"read", guard<l_read>},
                                   {"check", guard<l_check>},
                                   {nullptr, nullptr}};

}  // namespace
}  // namespace moonlet

int luaopen_moonlet_bundles(lua_State* L) {
  luaL_newlib(L, moonlet::kFunctions);
  return 1;
}

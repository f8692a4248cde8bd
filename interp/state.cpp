// interp/state.cpp: makes Lua states and finds the modules that are built into the executable.
#include "interp/state.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

#include <unistd.h>

#include "interp/binding/bytes.h"
#include "interp/coroutine.h"
#include "interp/embedded.h"
#include "interp/guard.h"
#include "interp/json.h"
#include "interp/nearest.h"
#include "interp/numbers.h"
#include "interp/raster.h"
#include "interp/system.h"
#include "moonlet_config.h"
#include "tensor/warning.h"

namespace moonlet {
namespace {

struct PartReader {
  const EmbeddedSource* source;
  size_t next = 0;
};

const char* read_part(lua_State*, void* data, size_t* size) {
  auto& reader = *static_cast<PartReader*>(data);
  if (reader.next == reader.source->count) {
    *size = 0;
    return nullptr;
  }
  *size = reader.source->sizes[reader.next];
  return reader.source->parts[reader.next++];
}

const EmbeddedSource* find_embedded(std::string_view path) {
  for (size_t i = 0; i < kEmbeddedSourceCount; ++i) {
    if (path == kEmbeddedSources[i].name) return &kEmbeddedSources[i];
  }
  return nullptr;
}

// "nn.functional" is nn/functional.lua or, for a module that is a folder, .../init.lua.
void candidate_paths(std::string_view name, std::string out[2]) {
  std::string stem(name);
  for (char& c : stem) {
    if (c == '.') c = '/';
  }
  out[0] = stem + ".lua";
  out[1] = stem + "/init.lua";
}

bool valid_name(std::string_view name) {
  return !name.empty() && name.find('/') == name.npos && name.find("..") == name.npos;
}

// Pushes the chunk and returns true, or returns false when there is no such module. A chunk that
// does not compile is a Lua error.
bool push_stdlib_chunk(lua_State* L, std::string_view name) {
  if (!valid_name(name)) return false;
  std::string paths[2];
  candidate_paths(name, paths);
  const char* folder = std::getenv("MOONLET_STDLIB");
  for (const std::string& path : paths) {
    if (folder == nullptr || *folder == '\0') break;
    const std::string file = std::string(folder) + "/" + path;
    if (access(file.c_str(), R_OK) != 0) continue;
    if (luaL_loadfile(L, file.c_str()) != LUA_OK) lua_error(L);
    return true;
  }
  for (const std::string& path : paths) {
    const EmbeddedSource* source = find_embedded(path);
    if (source == nullptr) continue;
    PartReader reader{source};
    const std::string chunk = "@stdlib/" + path;
    if (lua_load(L, read_part, &reader, chunk.c_str(), "t") != LUA_OK) lua_error(L);
    return true;
  }
  return false;
}

int search_stdlib(lua_State* L) {
  constexpr std::string_view kPrefix = "moonlet.";
  const std::string_view name = luaL_checkstring(L, 1);
  if (name.substr(0, kPrefix.size()) != kPrefix) return 0;
  const std::string_view rest = name.substr(kPrefix.size());
  if (rest == "init" || !push_stdlib_chunk(L, rest)) {
    lua_pushfstring(L, "no module '%s' in moonlet's standard library", name.data());
    return 1;
  }
  lua_pushvalue(L, 1);
  return 2;
}

// Right behind package.preload, so that no file on the script's path hides a built-in module.
void add_searcher(lua_State* L) {
  lua_getglobal(L, LUA_LOADLIBNAME);
  lua_getfield(L, -1, "searchers");
  for (lua_Integer i = luaL_len(L, -1); i >= 2; --i) {
    lua_rawgeti(L, -1, i);
    lua_rawseti(L, -2, i + 1);
  }
  lua_pushcfunction(L, guard<search_stdlib>);
  lua_rawseti(L, -2, 2);
  lua_pop(L, 2);
}

void preload(lua_State* L, const char* name, lua_CFunction open) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, open);
  lua_setfield(L, -2, name);
  lua_pop(L, 1);
}

// debug.setmetatable for all but userdata: methods know a userdata by its metatable, so one that
// gets another's would be read as what it is not.
int set_metatable(lua_State* L) {
  if (lua_type(L, 1) == LUA_TUSERDATA)
    return luaL_error(L, "debug.setmetatable: a userdata keeps its metatable");
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

void protect_metatables(lua_State* L) {
  lua_getglobal(L, LUA_DBLIBNAME);
  lua_getfield(L, -1, "setmetatable");
  lua_pushcclosure(L, guard<set_metatable>, 1);
  lua_setfield(L, -2, "setmetatable");
  lua_pop(L, 1);
}

void show_warning(void* data, const char* message, int to_continue) {
  Warnings& warnings = static_cast<StateData*>(data)->warnings;
  if (!warnings.continued && to_continue == 0 && *message == '@') {
    if (std::strcmp(message, "@on") == 0) warnings.on = true;
    if (std::strcmp(message, "@off") == 0) warnings.on = false;
    warnings.muted = std::strcmp(message, "@off") == 0;
    return;
  }
  if (warnings.on) {
    if (!warnings.continued) std::fputs("Lua warning: ", stderr);
    std::fputs(message, stderr);
    if (to_continue == 0) std::fputc('\n', stderr);
  }
  warnings.continued = to_continue != 0;
}

// A warning of an op, with the script's line, through `lua_warning`, which a host may have set.
bool show_library_warning(const char* key, const std::string& message) {
  StateData* data = innermost_state();
  if (data == nullptr) return false;
  Warnings& warnings = data->warnings;
  if (data->closing || warnings.muted || !warnings.said.insert(key).second) return true;
  lua_State* L = data->running;
  if (lua_checkstack(L, 2) == 0) return true;
  const bool before = warnings.on;
  warnings.on = true;
  push_where(L);
  lua_warning(L, lua_tostring(L, -1), 1);
  lua_warning(L, message.c_str(), 0);
  lua_pop(L, 1);
  warnings.on = before;
  return true;
}

int open_everything(lua_State* L) {
  if (lua_toboolean(L, 1) == 0) {
    lua_pushboolean(L, 1);
    lua_setfield(L, LUA_REGISTRYINDEX, "LUA_NOENV");
  }
  luaL_openlibs(L);
  protect_metatables(L);
  track_coroutines(L);
  preload(L, "moonlet", luaopen_moonlet);
  preload(L, "moonlet.bytes", luaopen_moonlet_bytes);
  preload(L, "moonlet.json", luaopen_moonlet_json);
  preload(L, "moonlet.nearest", luaopen_moonlet_nearest);
  preload(L, "moonlet.numbers", luaopen_moonlet_numbers);
  preload(L, "moonlet.raster", luaopen_moonlet_raster);
  preload(L, "moonlet.system", luaopen_moonlet_system);
  add_searcher(L);
  return 0;
}

// The first interpreter of a process has the default seed, so that a script gives the same numbers
// each time; later ones have others.
uint64_t next_seed() {
  static std::atomic<uint64_t> interpreters{0};
  return derived_seed(kDefaultSeed, interpreters.fetch_add(1));
}

}  // namespace

StateData::StateData() : first_seed(next_seed()), generator(first_seed) {
  main.execution.generator = &generator;
}

void StateCloser::operator()(lua_State* L) const noexcept {
  StateData* data = &state_data(L);
  {
    // Finalizers run under the state of the main thread.
    data->closing = true;
    data->current = &data->main;
    const EntryScope entry(*data);
    lua_close(L);
    data->releases->close();
  }
  delete data;  // the blocks of the state live in it until lua_close has returned them
}

StatePtr new_state(bool environment) {
  auto data = std::make_unique<StateData>();
  lua_State* raw = lua_newstate(BlockAllocator::allocate, &data->blocks);
  if (raw == nullptr) throw std::bad_alloc();
  *static_cast<StateData**>(lua_getextraspace(raw)) = data.get();
  data->main_thread = data->running = raw;
  lua_setwarnf(raw, show_warning, data.release());
  set_warning_handler(show_library_warning);
  StatePtr state(raw);
  lua_gc(raw, LUA_GCSTOP);
  lua_pushcfunction(raw, guard<open_everything>);
  lua_pushboolean(raw, environment ? 1 : 0);
  if (lua_pcall(raw, 1, 0, 0) != LUA_OK) throw std::bad_alloc();
  lua_gc(raw, LUA_GCRESTART);
  // A userdata is small beside the tensor, node and elements it stands for: cycles come sooner than
  // Lua's own, so that dead ones are reused while they are still in the cache.
  lua_gc(raw, LUA_GCINC, 150, 200, 0);
  return state;
}

void load_stdlib(lua_State* L, const char* name) {
  if (!push_stdlib_chunk(L, name)) {
    luaL_error(L, "no module '%s' in moonlet's standard library", name);
  }
}

void set_warnings(lua_State* L, bool on) { lua_warning(L, on ? "@on" : "@off", 0); }

const char* version() noexcept { return MOONLET_VERSION; }

}  // namespace moonlet

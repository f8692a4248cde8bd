// interp/state/state.cpp: makes Lua states and finds the modules that are built into the
// executable.
#include "interp/state/state.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

#include "interp/binding/io.h"
#include "interp/binding/program/program.h"
#include "interp/binding/signature_reader.h"
#include "interp/embed/extension/own_session.h"
#include "interp/modules/modules.h"
#include "interp/state/blame.h"
#include "interp/state/bundled.h"
#include "interp/state/coroutine.h"
#include "interp/state/embedded.h"
#include "interp/state/gc_steps.h"
#include "interp/state/guard.h"
#include "interp/state/libraries.h"
#include "interp/state/lua_check.h"
#include "interp/state/namespace.h"
#include "interp/state/nearest.h"
#include "moonlet_config.h"
#include "tensor/core/platform/files.h"
#include "tensor/core/platform/process.h"
#include "tensor/core/warning.h"
#include "tensor/memory/budget.h"
#include "tensor/runtime/backend.h"
#include "tensor/runtime/stack.h"

namespace moonlet {
namespace {

// "nn.functional" is nn/functional.lua.
std::string path_of(std::string_view name) {
  std::string path(name);
  std::replace(path.begin(), path.end(), '.', '/');
  return path + ".lua";
}

bool valid_name(std::string_view name) {
  return !name.empty() && name.find('/') == name.npos && name.find("..") == name.npos;
}

// Gives the chunk on top of the stack the globals of the standard library.
void set_environment(lua_State* L) {
  if (push_stdlib_environment(L) && lua_setupvalue(L, -2, 1) == nullptr) lua_pop(L, 1);
}

// Pushes the chunk and returns true, or returns false when there is no such module. A chunk that
// does not compile is a Lua error.
bool push_stdlib_chunk(lua_State* L, std::string_view name) {
  if (!valid_name(name)) return false;
  const std::string path = path_of(name);
  const char* folder =
      state_data(L).options.environment ? platform::variable("MOONLET_STDLIB") : nullptr;
  const std::string file = folder == nullptr || *folder == '\0' ? "" : folder + ("/" + path);
  if (!file.empty() && platform::is_readable(file)) {
    if (luaL_loadfilex(L, file.c_str(), "t") != LUA_OK) lua_error(L);
  } else if (const EmbeddedChunk* chunk = find_embedded(path)) {
    std::string unpacked;
    const std::string_view code = code_of(*chunk, unpacked);
    const std::string source = "@stdlib/" + path;
    if (luaL_loadbuffer(L, code.data(), code.size(), source.c_str()) != LUA_OK) lua_error(L);
  } else {
    return false;
  }
  set_environment(L);
  return true;
}

// The values of stdlib modules by their full names. They outlive package.loaded: requiring a module
// again must not make a second set of classes and marks beside those that scripts hold objects of.
constexpr const char* kModules = "moonlet.modules";

// Loader (name, extra) -> value. Upvalue: the chunk.
int open_stdlib(lua_State* L) {
  lua_settop(L, 2);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, kModules);
  lua_pushvalue(L, 1);
  if (lua_rawget(L, 3) != LUA_TNIL) return 1;
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 2);
  lua_call(L, 2, 1);
  lua_pushvalue(L, 1);
  lua_pushvalue(L, -2);
  lua_rawset(L, 3);
  return 1;
}

int search_stdlib(lua_State* L) {
  constexpr std::string_view kPrefix = "moonlet.";
  const std::string_view name = luaL_checkstring(L, 1);
  if (name == "moonlet") {  // also after a script has emptied package.preload
    lua_pushcfunction(L, luaopen_moonlet);
    lua_pushvalue(L, 1);
    return 2;
  }
  if (name.substr(0, kPrefix.size()) != kPrefix) return 0;
  const std::string_view rest = name.substr(kPrefix.size());
  if (rest == "init" || !push_stdlib_chunk(L, rest)) {
    lua_pushfstring(L, "no module '%s' in moonlet's standard library", name.data());
    return 1;
  }
  lua_pushcclosure(L, guard<open_stdlib>, 1);
  lua_pushvalue(L, 1);
  return 2;
}

int open_torch(lua_State* L) {
  lua_settop(L, 0);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "moonlet.torch7");
  lua_call(L, 1, 1);
  return 1;
}

// `torch` is Torch7's, where the script's path has no module of that name.
int search_torch(lua_State* L) {
  if (std::strcmp(luaL_checkstring(L, 1), "torch") == 0) lua_pushcfunction(L, guard<open_torch>);
  return lua_gettop(L) - 1;
}

// Right behind package.preload, so that no file on the script's path hides a built-in module.
void add_searcher(lua_State* L) {
  if (!push_library(L, LUA_LOADLIBNAME) || lua_getfield(L, -1, "searchers") != LUA_TTABLE)
    luaL_error(L, "moonlet needs the library 'package' with its searchers");
  for (lua_Integer i = luaL_len(L, -1); i >= 2; --i) {
    lua_rawgeti(L, -1, i);
    lua_rawseti(L, -2, i + 1);
  }
  lua_pushcfunction(L, guard<search_stdlib>);
  lua_rawseti(L, -2, 2);
  lua_pushcfunction(L, guard<search_torch>);
  lua_rawseti(L, -2, luaL_len(L, -2) + 1);
  lua_pop(L, 2);
}

void preload(lua_State* L, const char* name, lua_CFunction open) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, open);
  lua_setfield(L, -2, name);
  lua_pop(L, 1);
}

void show_warning(void* data, const char* message, int to_continue) {
  auto& state = *static_cast<StateData*>(data);
  Warnings& warnings = state.warnings;
  if (!warnings.continued && to_continue == 0 && *message == '@') {
    if (std::strcmp(message, "@on") == 0) warnings.on = true;
    if (std::strcmp(message, "@off") == 0) warnings.on = false;
    warnings.muted = std::strcmp(message, "@off") == 0;
    return;
  }
  if (warnings.on) {
    if (!warnings.continued) write_output(state, Stream::Error, "Lua warning: ");
    write_output(state, Stream::Error, message);
    if (to_continue == 0) write_output(state, Stream::Error, "\n");
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
  open_libraries(L);
  refuse_c_modules(L);  // while Lua's own searchers are the only ones
  preload(L, "moonlet", luaopen_moonlet);
  install_modules(L);
  restrict_libraries(L);
  return 0;
}

// The first interpreter of a process has the default seed, so that a script gives the same numbers
// each time; later ones have others.
uint64_t next_seed() {
  static std::atomic<uint64_t> interpreters{0};
  return derived_seed(kDefaultSeed, interpreters.fetch_add(1));
}

}  // namespace

bool push_library(lua_State* L, const char* name) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_getfield(L, -1, name);
  lua_remove(L, -2);
  if (lua_istable(L, -1)) return true;
  lua_pop(L, 1);
  return false;
}

void install_modules(lua_State* L) {
  add_searcher(L);
  protect_libraries(L);
  track_coroutines(L);
  catch_in_pcall(L);
  preload(L, "moonlet.bundles", luaopen_moonlet_bundles);
  preload(L, "moonlet.distributed_engine", luaopen_moonlet_distributed_engine);
  preload(L, "moonlet.extension_tools", luaopen_moonlet_extension_tools);
  preload(L, "moonlet.io", luaopen_moonlet_io);
  preload(L, "moonlet.json", luaopen_moonlet_json);
  preload(L, "moonlet.namespace", luaopen_moonlet_namespace);
  preload(L, "moonlet.nearest", luaopen_moonlet_nearest);
  preload(L, "moonlet.numbers", luaopen_moonlet_numbers);
  preload(L, "moonlet.onnx_codec", luaopen_moonlet_onnx_codec);
  preload(L, "moonlet.programs", luaopen_moonlet_programs);
  preload(L, "moonlet.raster", luaopen_moonlet_raster);
  preload(L, "moonlet.regex", luaopen_moonlet_regex);
  preload(L, "moonlet.signature_reader", luaopen_moonlet_signature_reader);
  preload(L, "moonlet.system", luaopen_moonlet_system);
  preload(L, "moonlet.workers", luaopen_moonlet_workers);
}

namespace {
// Those of the thread that makes the interpreter, which is the worker's own where it is one's.
ThreadSettings first_threads(const InterpreterOptions& options, const StateData* owner) {
  ThreadSettings settings = thread_settings();
  if (options.threads != 0) check_thread_count(options.threads, "Interpreter: the option threads");
  if (options.threads != 0 && owner == nullptr) settings.count = options.threads;
  return settings;
}

bool has_limits(const InterpreterOptions& options) {
  return options.lua_bytes > 0 || options.tensor_bytes > 0 || options.instructions > 0 ||
         options.wall_time.count() > 0;
}
}  // namespace

StateData::StateData(InterpreterOptions given, StateData* owner)
    : options(std::move(given)),
      files(files_before(owner != nullptr ? bundle_of(*owner) : io::own_bundle(),
                         files_of_host(options.files))),
      first_seed(owner != nullptr ? owner->first_seed : next_seed()),
      generator(first_seed),
      threads(first_threads(options, owner)) {
  binding.first_seed = first_seed;
  main.execution.generator = &generator;
  main.execution.stop = &stop;
  limits.strict = options.instructions > 0 || options.wall_time.count() > 0;
  if (owner != nullptr && owner->budget != nullptr) {
    budget = owner->budget;
    budget->retain();
  } else if (has_limits(options)) {
    budget = new memory::Budget(options.tensor_bytes > 0 ? options.tensor_bytes : INT64_MAX);
  }
  if (owner != nullptr) {
    limits.left = owner->limits.left;
    blocks.count_with(owner->blocks);
  }
  main.execution.reads_environment = options.environment;
}

StateData::~StateData() {
  const auto end_session = detail::end_own_session.load();
  if (session != nullptr && end_session != nullptr) end_session(session);
  for_each_opened_backend([this](Backend& backend, DeviceType) {
    if (DeferredErrors* errors = backend.deferred_errors()) errors->interpreter_closed(&stop);
  });
  if (budget != nullptr) budget->release();
}

void StateCloser::operator()(lua_State* L) const noexcept {
  StateData* data = &state_data(L);
  {
    // Finalizers run under the state of the main thread.
    data->closing = true;
    data->blocks.set_limit(INT64_MAX, nullptr, nullptr);
    gc::end_steps(L);
    data->current = &data->main;
    const EntryScope entry(*data);
    lua_close(L);
    data->releases->close();
  }
  delete data;  // the blocks of the state live in it until lua_close has returned them
}

StatePtr new_state(InterpreterOptions options, StateData* owner) {
  check_errors_throw();
  auto data = std::make_unique<StateData>(std::move(options), owner);
  lua_State* raw = lua_newstate(BlockAllocator::allocate, &data->blocks);
  if (raw == nullptr) throw std::bad_alloc();
  *static_cast<StateData**>(lua_getextraspace(raw)) = data.get();
  data->main_thread = data->running = raw;
  lua_setwarnf(raw, show_warning, data.release());
  set_warning_handler(show_library_warning);
  StatePtr state(raw);
  lua_gc(raw, LUA_GCSTOP);
  lua_pushcfunction(raw, guard<open_everything>);
  const int status = lua_pcall(raw, 0, 0, 0);
  if (status == LUA_ERRRUN && stack_is_small())
    fail("an interpreter needs a thread with at least 128 KiB of stack");
  if (status != LUA_OK) throw std::bad_alloc();
  lua_gc(raw, LUA_GCRESTART);
  gc::choose(raw, state_data(raw).options.collector, state_data(raw).options.collector_pause);
  // When everything is open: that is not the script's to pay.
  const InterpreterOptions& given = state_data(raw).options;
  set_limits(state_data(raw),
             {given.lua_bytes, given.tensor_bytes, given.instructions, given.wall_time});
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

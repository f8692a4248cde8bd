// interp/state/state.h: one Lua state of Moonlet: its allocator, per-state data, embedded modules.
// Every state of the executable, of the REPL and of an embedding host is made here.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "lua.hpp"

#include "interp/binding/binding_state.h"
#include "interp/embed/call_scope.h"
#include "interp/embed/carried.h"
#include "interp/embed/host_state.h"
#include "interp/embed/lua_api.h"
#include "interp/embed/options.h"
#include "interp/state/alloc.h"
#include "interp/state/entry.h"
#include "interp/state/gc_pacer.h"
#include "interp/state/output.h"
#include "interp/state/run_limits.h"
#include "tensor/io/file_system.h"
#include "tensor/runtime/interrupt.h"
#include "tensor/runtime/random_generator.h"

namespace moonlet {

namespace detail {
struct Session;
}

// Frees what was let go by holders outside Lua (StateData::releases). Offered by interp/binding/.
void release_waiting(lua_State* L);

// How `warn` messages of this state are shown.
struct Warnings {
  bool on = false;     // those of scripts, which lua5.4 does not show either unless asked to
  bool muted = false;  // those of the library, which are shown until `warn "@off"`
  bool continued = false;
  std::set<std::string> said;  // the keys of the library's (tensor/core/warning.h)
};

// What Moonlet keeps for one Lua state (main thread and all its coroutines).
struct StateData {
  // One that works for another state (interp/workers/) has its seed and shares its limits.
  explicit StateData(InterpreterOptions given, StateData* owner = nullptr);
  ~StateData();
  StateData(const StateData&) = delete;
  StateData& operator=(const StateData&) = delete;

  const InterpreterOptions options;

  std::unique_ptr<io::FileSystem> files;  // of its scripts; null: the system's
  RedirectedStreams streams;
  BlockAllocator blocks;
  gc::Pacer pacer;
  BindingState binding;
  Warnings warnings;
  lua_State* main_thread = nullptr;
  lua_State* running = nullptr;  // the coroutine that runs now, for interrupts and hooks
  const uint64_t first_seed;     // of `generator`, the default one of its scripts
  Generator generator;
  // Any thread may request a stop; kernels and the hook of interp/state/interrupt.h meet it.
  StopFlag stop;
  Limits limits;
  memory::Budget* budget = nullptr;  // of what its scripts cause to be made, where it has limits
  ThreadSettings threads;            // of its ops, while it does not run
  CoroutineState main;               // of the main thread
  CoroutineState* current = &main;   // of the coroutine that runs now
  int level = 0;                     // how many calls from C++ code into the interpreter are nested
  int coroutines_ref = 0;            // registry position of the coroutines' states
  int coroutine_metatable_ref = 0;
  bool closing = false;
  detail::Session* session = nullptr;  // of an embedding host, which calls into it
  CarriedExceptions carried;
  // Outlives the state in the hands of those that refer to it.
  std::shared_ptr<ReleaseQueue> releases = std::make_shared<ReleaseQueue>();
};

// The data of the state that `L` belongs to. `L` must come from new_state(), or from a host in
// whose state the module was opened.
inline StateData& state_data(lua_State* L) {
  if (host_states) [[unlikely]]
    return *find_state_data(L);
  return **static_cast<StateData**>(lua_getextraspace(L));
}

struct StateCloser {
  void operator()(lua_State* L) const noexcept;
};

// Owns a Lua state; closes it and then releases its memory.
using StatePtr = std::unique_ptr<lua_State, StateCloser>;

// A fresh state with the standard libraries, incremental collection and Moonlet's modules
// preloaded. Loads no stdlib module. Throws std::bad_alloc when memory is short. `owner` is the
// state that it works for, which lives longer.
StatePtr new_state(InterpreterOptions options, StateData* owner = nullptr);

// Makes `require` find Moonlet's modules, coroutines keep their execution state, and userdata their
// metatables, as far as the libraries these are in are open. Raises a Lua error when `package` is
// not.
void install_modules(lua_State* L);
// Pushes the table of a standard library that is open; false, and pushes nothing, when it is not.
bool push_library(lua_State* L, const char* name);

// Pushes the compiled chunk of a stdlib module ("nn.functional", "init"), not yet run. The folder
// in MOONLET_STDLIB, when set and the state reads the environment, comes before the embedded
// sources. Raises a Lua error when the module does not exist or does not compile.
void load_stdlib(lua_State* L, const char* name);

// Turns the `warn` function of the state on or off (the command line's -W).
void set_warnings(lua_State* L, bool on);

// Moonlet's version, such as "0.1.0".
[[gnu::visibility("default")]] const char* version() noexcept;

}  // namespace moonlet

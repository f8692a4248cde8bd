// interp/state/entry.h: entering an interpreter: its execution state is installed on the thread
// while it runs, each coroutine having its own, and Lua values that other holders let go are
// released.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lua.hpp"

#include "tensor/io/file_system.h"
#include "tensor/memory/budget.h"
#include "tensor/runtime/cudnn_settings.h"
#include "tensor/runtime/execution.h"
#include "tensor/runtime/modes.h"
#include "tensor/runtime/streams.h"
#include "tensor/runtime/threads.h"

namespace moonlet {

struct StateData;
struct CoroutineState;
enum class Anomaly : uint8_t;

// Whether ops are recorded, and whether new storages are those of inference mode.
struct RecordingMode {
  bool grad, inference;
};

// One such mode that a guard of a script has set and that has not ended yet. A coroutine's records
// are a list: each knows the mode that holds again when it ends.
struct ModeRecord {
  CoroutineState* owner;  // null once the coroutine is gone
  ModeRecord* older;
  ModeRecord* newer = nullptr;
  RecordingMode before;
  bool dropped = false;  // its guard was collected; it ends as soon as that is safe
  int level;             // StateData::level when it was made
  std::string where;     // "file:line: "
};

// The execution state of a coroutine (or of the main thread) while it does not run, and the modes
// it has set.
struct CoroutineState {
  explicit CoroutineState(const ExecutionState& state = {}) : execution(state) {}
  ~CoroutineState();
  CoroutineState(const CoroutineState&) = delete;
  CoroutineState& operator=(const CoroutineState&) = delete;

  ExecutionState execution;
  DeviceState devices;   // tensor/runtime/streams.h
  CudnnSettings cudnn;   // tensor/runtime/cudnn_settings.h
  Anomaly anomaly{};     // autograd/anomaly.h
  SuspendedModes modes;  // what it has put on the stack of modes
  ModeRecord* newest = nullptr;
  bool has_dropped = false;
};

// Sets the mode of the running coroutine; `level` as in StateData. In inference mode nothing is
// recorded.
ModeRecord* begin_mode(StateData& data, RecordingMode mode, std::string where);
// Goes back to the mode before it and deletes the record. When a newer one is still active, that
// one takes over what to go back to.
void end_mode(StateData& data, ModeRecord* record);
// Forgets the record and leaves the mode alone; deletes it.
void forget_mode(ModeRecord* record);
// The guard was collected while its mode was active: ends it now or, when C++ code that relies on
// the mode is running, later; warns with the line that made it.
void drop_mode(lua_State* L, ModeRecord* record);

// What may be let go by any thread but freed only by the one that runs the interpreter.
class ReleaseQueue {
 public:
  // A position of the registry (luaL_ref), or the id of a hook. Nothing after the state was closed,
  // nor when there is no memory to note it.
  void release_reference(int reference) noexcept;
  void release_hook(int64_t id) noexcept;
  struct Batch {
    std::vector<int> references;
    std::vector<int64_t> hooks;
  };
  // Empties the queue.
  Batch take();
  bool has_waiting() const noexcept { return has_waiting_.load(std::memory_order_relaxed); }
  void close();
  bool is_open();

 private:
  template <class T>
  void add(std::vector<T> Batch::*list, T item) noexcept;

  std::mutex mutex_;
  bool open_ = true;
  Batch waiting_;
  std::atomic<bool> has_waiting_{false};  // read without the lock
};

// The interpreter with that queue, when it has been entered on this thread and not left; else null.
StateData* entered_state(const ReleaseQueue& releases) noexcept;
// Whether it is the one entered last.
bool is_innermost(const StateData& data) noexcept;
// The interpreter entered last on this thread and not left, or null.
StateData* innermost_state() noexcept;

// Throws Error that names the path when the interpreter that runs on this thread has no library io:
// its scripts read and write no files. Code without an interpreter may.
void check_files_allowed(const char* op, const std::string& path);

// Stops what runs in the interpreters that this thread has entered, where that is requested. For
// signal handlers.
void stop_entered() noexcept;

// Enters an interpreter for a C++ scope, on whatever thread. Inside a call from the same
// interpreter (a host function that calls back) the state stays what the script has made it; inside
// another interpreter's call that one's state is put aside.
class EntryScope {
 public:
  explicit EntryScope(StateData& data);
  ~EntryScope();
  EntryScope(const EntryScope&) = delete;
  EntryScope& operator=(const EntryScope&) = delete;
  // The kernel's id of this thread.
  int thread_id() const noexcept { return thread_.id; }

 private:
  // What belongs to a thread. Looked up once: entering is done for each call of a host.
  struct Thread {
    EntryScope* innermost;
    int id;          // of the kernel's
    int generation;  // of the process that has it (tensor/runtime/forked.h); -1 before the first
                     // entry
  };
  static Thread& this_thread() noexcept;

  friend StateData* entered_state(const ReleaseQueue& releases) noexcept;
  friend bool is_innermost(const StateData& data) noexcept;
  friend StateData* innermost_state() noexcept;
  friend void check_files_allowed(const char* op, const std::string& path);
  friend void stop_entered() noexcept;
  StateData& data_;
  Thread& thread_;
  ExecutionState& execution_;
  memory::Account& account_;
  EntryScope* outer_;
  ExecutionState before_;
  DeviceState devices_before_;
  CudnnSettings cudnn_before_;
  Anomaly anomaly_before_;
  ThreadSettings threads_before_;
  ModeEntry*
      passed_before_;  // tensor/runtime/passed_modes.h: no business of another interpreter's ops
  io::FileSystem* files_before_ = nullptr;
  memory::Budget* budget_before_;
  int64_t* debt_before_;
};

// The coroutine that runs, for interrupts and for hooks.
class RunningScope {
 public:
  RunningScope(lua_State* L, lua_State* co);
  ~RunningScope();
  RunningScope(const RunningScope&) = delete;
  RunningScope& operator=(const RunningScope&) = delete;

 private:
  StateData& data_;
  lua_State* before_;
};

// Held while a script runs backward, which may call hooks: they run in coroutine `L`.
class BackwardScope {
 public:
  explicit BackwardScope(lua_State* L);

 private:
  EntryScope entry_;
  RunningScope running_;
};

// Resumes `co` under its own execution state, at first that of the running coroutine; the rest as
// lua_resume.
int resume_coroutine(lua_State* L, lua_State* co, int arguments, int* results);

// While alive, `co` is the running coroutine with its execution state. Needs 4 stack slots of L;
// may raise a memory error.
class CoroutineScope {
 public:
  CoroutineScope(lua_State* L, lua_State* co);
  ~CoroutineScope();
  CoroutineScope(const CoroutineScope&) = delete;
  CoroutineScope& operator=(const CoroutineScope&) = delete;

 private:
  RunningScope running_;
  StateData& data_;
  CoroutineState* resumer_;
  std::optional<ResumedModes> modes_;
};

// Makes the table of the coroutines' states.
void prepare_coroutine_states(lua_State* L);

}  // namespace moonlet

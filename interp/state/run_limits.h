// interp/state/run_limits.h: what may end a run of an embedded interpreter although its script goes
// on: limits, interrupts of the host, and the end of the interpreter. Each is a request to stop
// that lasts (StateData::stop): the script may catch the error, but its next step fails again,
// until the host has it.
#pragma once

#include <atomic>
#include <cstdint>

#include "lua.hpp"

#include "interp/embed/options.h"

namespace moonlet {

struct StateData;

enum class StopCause : uint8_t {
  None,
  Interrupted,
  Instructions,
  WallTime,
  LuaMemory,
  TensorMemory,
  Closed
};

// What bounds the runs of one state.
struct Limits {
  RunLimits given;
  std::atomic<int64_t> own_left{0};
  // What is left of the run: the interpreter's own count, or that of the one it works for.
  std::atomic<int64_t>* left = &own_left;
  bool bound_runs() const noexcept { return given.instructions > 0 || given.wall_time.count() > 0; }
  // Whether scripts are kept from code that no hook of Lua reaches, finalizers and hooks of their
  // own, since it would pass the limits: from the start, or never.
  bool strict = false;
};

// Requests a stop of what runs. For the thread that runs the interpreter; others use
// request_stop_from_outside.
void request_stop(StateData& data, StopCause cause) noexcept;

// The same from any thread: kernels and coroutines that are resumed see the request, and thread
// `thread` (a kernel id), which runs the interpreter, is sent SIGURG, whose handler sets the hook
// that stops Lua code. The handler calls the one that was there before, and does nothing else for
// signals of other origin.
void request_stop_from_outside(StateData& data, StopCause cause, int thread) noexcept;

// Lets that signal come to this thread, on which a run begins; threads of servers often block all.
// Returns whether it was blocked, which block_wake_signal makes it again. (The other way to reach
// Lua code that calls nothing is a hook that counts instructions: it costs two thirds of the speed
// of calls and a third of that of loops.)
bool unblock_wake_signal() noexcept;
void block_wake_signal() noexcept;

// The cause of the present request.
StopCause requested_stop(StateData& data) noexcept;
// What messages say of a cause.
const char* reason_of(StopCause cause) noexcept;
// Ends the request, and gives the main thread its usual hook again.
void end_stop_request(StateData& data) noexcept;

// The id of this thread, from the kernel.
int thread_id() noexcept;

// From the next run on. Throws Error for a negative one, and for one of tensors where they were not
// counted from the start.
void set_limits(StateData& data, const RunLimits& limits);

// A run begins: its instructions are counted from here.
void begin_counting(StateData& data) noexcept;
// Another coroutine goes on, which may run some instructions before the hook counts them.
void charge_switch(StateData& data) noexcept;
// Sets the hook that `L` has while nothing is requested: it counts instructions, or there is none.
void set_usual_hook(lua_State* L) noexcept;

}  // namespace moonlet

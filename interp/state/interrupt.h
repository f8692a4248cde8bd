// interp/state/interrupt.h: how Lua code meets a request to stop (StateData::stop), and Ctrl-C in
// the executable.
#pragma once

#include "lua.hpp"
#include "tensor/core/platform/threads.h"

namespace moonlet {

struct StateData;

// Makes coroutine `L` fail with the reason of the request before its next instruction; does nothing
// when the request has been met by then. For the thread that runs the interpreter and for signal
// handlers on it.
void stop_at_next_instruction(lua_State* L) noexcept;

// The same for what runs now, after a request. RunningScope passes it on to the coroutines that go
// on next.
void stop_soon(StateData& data) noexcept;

// On a thread with a small stack: gives `L` the hook that looks at each call whether the stack is
// at its end. Lua itself allows 200 calls from C to Lua, whatever their frames take, which is up to
// 600 KiB. Leaves other hooks alone. Returns whether the stack is small.
bool watch_small_stack(lua_State* L) noexcept;

// Whether `L` has no hook but the one that limits and small stacks need: neither a script's nor
// that of a request to stop.
bool has_usual_hook(lua_State* L) noexcept;

// Raises the error of a request to stop where there is one: for C functions that run long without
// Lua code.
[[gnu::cold]] void raise_stop(lua_State* L);

// While alive, Ctrl-C raises the Lua error "interrupted!" in whatever `L` runs, coroutines and long
// ops included. A second one cannot be caught: it ends what `L` runs. One that comes while an
// earlier one has had no effect ends the process with code 130; at a prompt, when that one is a
// second old. One at a time, on the main thread.
class InterruptScope {
 public:
  explicit InterruptScope(lua_State* L) noexcept;
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
  ~InterruptScope();

 private:
  platform::InterruptAction before_;
};

// From here to the end of the process Ctrl-C does not end it while nothing runs: for a prompt. What
// InterruptScope finds pressed since the last line was read stops what it runs.
void keep_prompt_alive() noexcept;

// While alive, Ctrl-C ends a read that waits.
class PromptReadScope {
 public:
  PromptReadScope() noexcept;
  PromptReadScope(const PromptReadScope&) = delete;
  PromptReadScope& operator=(const PromptReadScope&) = delete;
  ~PromptReadScope();
  // Whether Ctrl-C was pressed meanwhile.
  bool interrupted() const noexcept;
};

// The process ends: `L` of the present InterruptScope is about to be closed.
void leave_interrupts() noexcept;

}  // namespace moonlet

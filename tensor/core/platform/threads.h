// tensor/core/platform/threads.h: threads, the stop of one by another, and Ctrl-C.
#pragma once

#include <cstddef>
#include <cstdint>

namespace moonlet::platform {

// The stack of this thread, without its guard pages; a size of 0 where it is unknown.
struct StackRange {
  uintptr_t lowest = 0;
  size_t size = 0;
};
StackRange stack_of_this_thread() noexcept;
// The stack of a new thread.
size_t default_stack_size() noexcept;

// The system's number of this thread.
int thread_id() noexcept;

// Around each fork(), in the process that calls it and in the new one. Nothing where there is no
// fork().
void at_fork(void (*before)(), void (*in_child)()) noexcept;

// Calls `f` with the code of the process when it exits, after what was registered later. Nothing
// where a process takes its threads with it when it exits.
void at_exit(void (*f)(int code)) noexcept;

// --- signals -------------------------------------------------------------------------------------

// Keeps signal handlers off a thread: blocks all signals but those that report a fault of the
// thread itself, and where `but_wake` that of wake_thread. What arrives meanwhile is delivered at
// the end, or to another thread.
class SignalMask {
 public:
  explicit SignalMask(bool but_wake) noexcept;
  SignalMask(const SignalMask&) = delete;
  SignalMask& operator=(const SignalMask&) = delete;
  ~SignalMask();

 private:
  alignas(16) unsigned char before_[128];
};

// Lets a thread see to what another one asks of it: calls `there` on it, in a signal handler; or,
// where threads have no signals, `here(context)` on the calling one, while that thread stands
// still.
void wake_thread(int thread, void (*there)() noexcept, void (*here)(void*) noexcept,
                 void* context) noexcept;
// Lets wake_thread reach this thread, or no longer. Returns whether it was blocked before.
bool unblock_wake() noexcept;
void block_wake() noexcept;

// What Ctrl-C did before. Restored on the thread that keeps it.
class InterruptAction {
 public:
  InterruptAction() noexcept;
  // Calls `handler` when Ctrl-C is pressed: on this thread in a signal handler, or on another one
  // while this one stands still. Calls of the system that wait on this thread end, unless
  // `restart`.
  void set(void (*handler)() noexcept, bool restart) noexcept;
  void restore() const noexcept;

 private:
  alignas(16) unsigned char before_[192];
};

// The end of the process, at once, with a message for its user.
[[noreturn]] void leave(const char* message, size_t size, int code) noexcept;

}  // namespace moonlet::platform

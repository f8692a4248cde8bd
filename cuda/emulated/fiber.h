// cuda/emulated/fiber.h: stacks that the threads of a block run on, and the switch between them:
// a few instructions on x86-64 and AArch64, ucontext elsewhere. Known to AddressSanitizer.
#pragma once

#include <cstddef>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ucontext.h>
#define MOONLET_FIBER_UCONTEXT 1
#endif

namespace moonlet::emulated {

/// A stack with the position where its execution stopped. One without a mapping stands for the OS
/// thread's own stack. Fibers never move between OS threads.
struct Fiber {
  void* mapping = nullptr;
  std::size_t mapping_bytes = 0;
  const void* stack_bottom = nullptr;
  std::size_t stack_bytes = 0;
  std::size_t inset = 0;  // bytes left free at the top
  void* fake_stack = nullptr;
#ifdef MOONLET_FIBER_UCONTEXT
  ucontext_t saved{};
#else
  void* stack_pointer = nullptr;
#endif

  Fiber() = default;
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber();
};

/// Maps a stack with a guard page below it; false when the system gives no memory.
bool map_stack(Fiber& fiber);

/// Makes the next switch to `fiber` start `entry` on an empty stack; what ran there is dropped.
/// `entry` begins with fiber_arrived() and never returns.
void reset(Fiber& fiber, void (*entry)());

/// Stops `from`, which runs, and goes on with `to`; returns when something switches back.
void switch_fiber(Fiber& from, Fiber& to);

/// The second half of a switch, on the side that goes on.
void fiber_arrived(Fiber& self);

}  // namespace moonlet::emulated

// tensor/runtime/stack.h: how much of the thread's C stack is left, for code that scripts can make
// recurse without Lua counting the calls, or with frames too large for the 200 that it allows.
#pragma once

#include <cstddef>
#include <cstdint>

namespace moonlet {

namespace detail {

// The stack of a thread: its lowest address, and how much above it recursion leaves alone.
struct StackBounds {
  uintptr_t lowest;
  size_t reserve;  // 0 where the bounds are unknown
  size_t size;
  bool measured;
};
extern constinit thread_local StackBounds stack_bounds;

// Once for each thread.
[[gnu::cold]] void measure_stack() noexcept;
[[noreturn, gnu::cold]] void throw_stack_overflow(const char* op);

}  // namespace detail

// What is left for kernels, libraries and the way of an exception where recursion ends; of stacks
// below 2 MiB it is a quarter, at least 24 KiB.
inline constexpr size_t kStackReserve = size_t{512} << 10;

// The size of this thread's stack, 0 when it is unknown.
inline size_t stack_size() noexcept {
  if (!detail::stack_bounds.measured) [[unlikely]]
    detail::measure_stack();
  return detail::stack_bounds.size;
}

// Whether 200 calls from C to Lua, which is what Lua allows, may take more than this thread has.
inline bool stack_is_small() noexcept {
  constexpr size_t kSmall = size_t{768} << 10;
  const size_t size = stack_size();
  return size != 0 && size < kSmall;
}

// Whether only the reserve is left. A load and a compare; false on stacks that are not the thread's
// own, such as those of fibers.
inline bool stack_is_short() noexcept {
  const detail::StackBounds& bounds = detail::stack_bounds;
  if (!bounds.measured) [[unlikely]]
    detail::measure_stack();
  return reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) - bounds.lowest < bounds.reserve;
}

// Throws Error "OP: stack overflow" when only the reserve is left. For each function that calls
// what may call it again: hooks, modes, functions of scripts and hosts, lists in lists.
inline void check_stack(const char* op) {
  if (stack_is_short()) [[unlikely]]
    detail::throw_stack_overflow(op);
}

}  // namespace moonlet

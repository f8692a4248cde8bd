// tensor/runtime/stack.cpp: asks the system where the stack of a thread ends.
#include "tensor/runtime/stack.h"

#include <algorithm>

#include "tensor/core/error.h"
#include "tensor/core/platform/threads.h"

namespace moonlet::detail {

namespace {
// What an error takes on its way up, with its traceback.
constexpr size_t kLeast = size_t{24} << 10;
}  // namespace

constinit thread_local StackBounds stack_bounds{0, 0, 0, false};

void measure_stack() noexcept {
  stack_bounds.measured = true;
  const platform::StackRange range = platform::stack_of_this_thread();
  if (range.size == 0) return;
  stack_bounds.lowest = range.lowest;
  stack_bounds.size = range.size;
  stack_bounds.reserve =
      std::clamp(range.size / 4, std::min(kLeast, range.size / 2), kStackReserve);
}

void throw_stack_overflow(const char* op) { fail(op, ": stack overflow"); }

}  // namespace moonlet::detail

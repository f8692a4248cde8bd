// tensor/runtime/stack.cpp: asks the system where the stack of a thread ends.
#include "tensor/runtime/stack.h"

#include <algorithm>

#include <pthread.h>

#include "tensor/core/error.h"

namespace moonlet::detail {

namespace {
// What an error takes on its way up, with its traceback.
constexpr size_t kLeast = size_t{24} << 10;
}  // namespace

constinit thread_local StackBounds stack_bounds{0, 0, 0, false};

void measure_stack() noexcept {
  stack_bounds.measured = true;
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
  void* lowest = nullptr;
  size_t size = 0, guard = 0;
  if (pthread_attr_getstack(&attributes, &lowest, &size) == 0 &&
      pthread_attr_getguardsize(&attributes, &guard) == 0 && guard < size / 2) {
    // Whether the guard's pages are part of it depends on libc's version.
    stack_bounds.lowest = reinterpret_cast<uintptr_t>(lowest) + guard;
    stack_bounds.size = size - guard;
    stack_bounds.reserve =
        std::clamp(stack_bounds.size / 4, std::min(kLeast, stack_bounds.size / 2), kStackReserve);
  }
  pthread_attr_destroy(&attributes);
}

void throw_stack_overflow(const char* op) { fail(op, ": stack overflow"); }

}  // namespace moonlet::detail

// tensor/runtime/forked.cpp: brings OpenMP and the kernels of devices through fork().
#include "tensor/runtime/forked.h"

#include <omp.h>

#include "tensor/core/dispatch.h"
#include "tensor/core/platform/threads.h"
#include "tensor/runtime/backend.h"

namespace moonlet {

constinit int forks = 0;

namespace {

// The child has none of the threads that wait for this one's next loop, and would wait for them for
// ever: they end here, and both processes start others when they need them. LLVM's OpenMP sees to
// that itself. Inside a parallel region nothing happens.
void before_fork() {
#if !defined(__clang__)
  omp_pause_resource_all(omp_pause_hard);
#endif
}

void in_child() {
  ++forks;
  for_each_opened_backend([](Backend&, DeviceType type) { register_kernels(type, nullptr); });
}

[[gnu::constructor]] void watch_forks() { platform::at_fork(before_fork, in_child); }

}  // namespace

}  // namespace moonlet

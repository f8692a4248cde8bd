// tensor/runtime/interrupt.cpp: how a kernel that was asked to stop leaves.
#include "tensor/runtime/interrupt.h"

#include <omp.h>

namespace moonlet {

constinit StopFlag never_stopped;

void throw_interrupted() {
  const char* reason = omp_in_parallel() ? nullptr : execution.stop->take();
  throw Interrupted(reason != nullptr ? reason : "interrupted!");
}

}  // namespace moonlet

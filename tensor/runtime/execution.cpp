// tensor/runtime/execution.cpp: the execution state of each thread.
#include "tensor/runtime/execution.h"

namespace moonlet {

constinit thread_local ExecutionState execution;
constinit std::atomic<int> below_tape{0};

}  // namespace moonlet

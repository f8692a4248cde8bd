// tensor/runtime/execution.cpp: the execution state of each thread.
#include "tensor/runtime/execution.h"

namespace moonlet {

constinit thread_local ExecutionState execution;

}  // namespace moonlet

// tensor/program/jit/loop_trace.h: from a loop to the nodes of its elements.
#pragma once

#include "tensor/program/fusion/loop.h"
#include "tensor/program/jit/body.h"

namespace moonlet::program::jit {

// False where an op is not in the table, or a dtype is not traced.
bool trace_loop(const Loop& loop, Target target, Body& body);

// Whether the kernels were compiled so that products and sums become one step.
bool kernels_contract();

}  // namespace moonlet::program::jit

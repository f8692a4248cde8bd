// tensor/program/jit/compile.h: machine code for loops: one function per loop, which computes all
// ops of an element in registers with the steps of the ops' own functors, so with the same bits.
#pragma once

#include "tensor/program/fusion/executor.h"
#include "tensor/program/jit/op_table.h"

namespace moonlet::program {

// Null where there is none: a build without AsmJit, an x86-64 processor without AVX2 or one that is
// not to use it (MOONLET_MAX_SIMD), memory that may not be executable, an op or an operand that has
// no instructions. Compiled code is shared by the loops that have the same, and goes with the last
// one.
std::unique_ptr<const LoopExecutor> compile_jit(const Loop& loop);

namespace jit {

// Of the processor and MOONLET_MAX_SIMD. False where there is none.
bool best_target(Target& target);
// For tests: for an instruction set that the processor has besides the best.
std::unique_ptr<const LoopExecutor> compile_for(const Loop& loop, Target target);
// Functions that are alive, and how many were compiled.
struct Statistics {
  int64_t alive = 0, compiled = 0, bytes = 0;
};
Statistics statistics();

}  // namespace jit

}  // namespace moonlet::program

// tensor/program/jit/without.cpp: in the place of the compiler where AsmJit was not found, or the
// processor is another one.
#include "tensor/program/jit/compile.h"

namespace moonlet::program {

std::unique_ptr<const LoopExecutor> compile_jit(const Loop&) { return nullptr; }

namespace jit {

bool best_target(Target&) { return false; }
std::unique_ptr<const LoopExecutor> compile_for(const Loop&, Target) { return nullptr; }
Statistics statistics() { return {}; }

}  // namespace jit

}  // namespace moonlet::program

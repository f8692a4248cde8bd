// tensor/cpu/optim/optim.h: the loops of the optimisers' steps, which Highway compiles once for
// each instruction set.
#pragma once

#include "tensor/optim_steps.h"

namespace moonlet::cpu {

// Moves elements [0, count): `arrays` are the parameter, the gradient and the states, of which
// those that the step does not use are null.
template <class T, class Step>
void step_loop(const Step& step, T* const* arrays, int64_t count);

}  // namespace moonlet::cpu

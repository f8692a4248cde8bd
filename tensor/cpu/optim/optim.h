// tensor/cpu/optim/optim.h: the loops of the optimisers' steps, which Highway compiles once for
// each instruction set, and a number that a tensor holds.
#pragma once

#include "tensor/optim_steps.h"

namespace moonlet::cpu {

// Moves elements [0, count): `arrays` are the parameter, the gradient and the states, of which
// those that the step does not use are null.
template <class T, class Step>
void step_loop(const Step& step, T* const* arrays, int64_t count);

// An element of a floating tensor.
inline double number_in(const Tensor& x, int64_t at = 0) {
  double out = 0;
  visit<dtypes::floating>(x.dtype(),
                          [&]<class T>() { out = static_cast<double>(x.elements<T>()[at]); });
  return out;
}

}  // namespace moonlet::cpu

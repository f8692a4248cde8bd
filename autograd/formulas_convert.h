// autograd/formulas_convert.h: dtypes that derivatives compute in.
#pragma once

#include "tensor/operand.h"

namespace moonlet::formulas {

// 16-bit floats as float32, anything else itself: what is made of several ops starts from it, so
// that it is rounded once.
Tensor widened(const Tensor& x);

}  // namespace moonlet::formulas

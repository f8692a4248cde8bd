// autograd/formulas/complex.h: the longer derivatives of the parts of complex numbers.
#pragma once

#include "tensor/core/operand.h"

namespace moonlet::formulas {

// The angle of a complex number turns across it; that of a real one has no gradient.
Tensor angle_grad_x(const Tensor& g, const Tensor& x);

}  // namespace moonlet::formulas

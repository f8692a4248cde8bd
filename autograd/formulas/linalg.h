// autograd/formulas/linalg.h: the longer derivatives of products.
#pragma once

#include "tensor/tensor.h"

namespace moonlet::formulas {

// x's conjugate; x itself when it is real, without a copy.
Tensor conjugate(const Tensor& x);
// linear's weight gradient (out, in) from g (..., out) and x (..., in).
Tensor linear_grad_weight(const Tensor& g, const Tensor& x);

}  // namespace moonlet::formulas

// autograd/formulas/scan.h: the derivatives of running products and of logcumsumexp.
#pragma once

#include "tensor/core/tensor.h"

namespace moonlet::formulas {

// Quadratic in the size of dim when x holds a 0, linear otherwise.
Tensor cumprod_grad_x(const Tensor& g, const Tensor& x, const Tensor& y, int64_t dim);
// From the result y, in logarithms, which do not overflow.
Tensor logcumsumexp_grad_x(const Tensor& g, const Tensor& x, const Tensor& y, int64_t dim);

}  // namespace moonlet::formulas

// autograd/formulas/scan.h: the derivative of running products.
#pragma once

#include "tensor/tensor.h"

namespace moonlet::formulas {

// Quadratic in the size of dim when x holds a 0, linear otherwise.
Tensor cumprod_grad_x(const Tensor& g, const Tensor& x, int64_t dim);

}  // namespace moonlet::formulas

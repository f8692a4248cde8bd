// autograd/formulas/math.h: the longer derivatives of mathematical functions.
#pragma once

#include <tuple>

#include "tensor/core/tensor.h"

namespace moonlet::formulas {

// The derivatives of atan2_grad_x(grad, x, other) by x and other, times g; 0 where both are 0, as
// the first ones.
std::tuple<Tensor, Tensor> atan2_grad_x_grads(const Tensor& g, const Tensor& x,
                                              const Tensor& other);

}  // namespace moonlet::formulas

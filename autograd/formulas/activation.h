// autograd/formulas/activation.h: the longer derivatives of activations.
#pragma once

#include "tensor/operand.h"

namespace moonlet::formulas {

Tensor gelu_tanh_grad_x(const Tensor& g, const Tensor& x);
// The derivative of silu_grad_x(grad, x) by x.
Tensor silu_grad_x_grad_x(const Tensor& g, const Tensor& grad, const Tensor& x);
Tensor mish_grad_x(const Tensor& g, const Tensor& x);

}  // namespace moonlet::formulas

// autograd/formulas/activation.h: the longer derivatives of activations.
#pragma once

#include "tensor/operand.h"

namespace moonlet::formulas {

Tensor gelu_tanh_grad(const Tensor& g, const Tensor& x);
// The derivative of silu_backward(grad, x) by x.
Tensor silu_double_grad(const Tensor& g, const Tensor& grad, const Tensor& x);
Tensor mish_grad(const Tensor& g, const Tensor& x);

}  // namespace moonlet::formulas

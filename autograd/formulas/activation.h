// autograd/formulas/activation.h: the longer derivatives of activations.
#pragma once

#include "tensor/core/operand.h"

namespace moonlet::formulas {

// The derivatives of silu_grad_x(grad, x) and its like by x.
Tensor silu_grad_x_grad_x(const Tensor& g, const Tensor& grad, const Tensor& x);
Tensor gelu_erf_grad_x_grad_x(const Tensor& g, const Tensor& grad, const Tensor& x);
Tensor gelu_tanh_grad_x_grad_x(const Tensor& g, const Tensor& grad, const Tensor& x);
Tensor mish_grad_x_grad_x(const Tensor& g, const Tensor& grad, const Tensor& x);
Tensor softplus_grad_x_grad_x(const Tensor& g, const Tensor& grad, const Tensor& x,
                              const Scalar& beta, const Scalar& threshold);

}  // namespace moonlet::formulas

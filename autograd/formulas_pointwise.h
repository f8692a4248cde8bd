// autograd/formulas_pointwise.h: the derivatives of pointwise ops that are too long for their row.
#pragma once

#include "tensor/operand.h"

namespace moonlet::formulas {

// 16-bit floats as float32, anything else itself: what is made of several ops starts from it, so
// that it is rounded once.
Tensor widened(const Tensor& x);
// d/dx x^p = p x^(p - 1), and 0 where p is 0.
Tensor pow_grad_base(const Tensor& g, const Operand& x, const Operand& power);
// d/dp x^p = x^p log x, and 0 where x is 0 and p is not negative.
Tensor pow_grad_exponent(const Tensor& g, const Operand& x, const Operand& power, const Tensor& y);
// The sign of a real number has no slope; that of a complex one turns with it.
Tensor sgn_grad(const Tensor& g, const Tensor& x);
// The angle of a complex number turns across it; that of a real one has no slope.
Tensor angle_grad(const Tensor& g, const Tensor& x);
Tensor gelu_tanh_grad(const Tensor& g, const Tensor& x);
// The derivative of silu_backward(grad, x) by x.
Tensor silu_double_grad(const Tensor& g, const Tensor& grad, const Tensor& x);
Tensor mish_grad(const Tensor& g, const Tensor& x);

}  // namespace moonlet::formulas

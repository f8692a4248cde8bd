// autograd/formulas/arithmetic.h: the longer derivatives of arithmetic.
#pragma once

#include "tensor/core/operand.h"

namespace moonlet::formulas {

// d/dx x^p = p x^(p - 1), and 0 where p is 0.
Tensor pow_grad_x(const Tensor& g, const Operand& x, const Operand& exponent);
// d/dp x^p = x^p log x, and 0 where x is 0 and p is not negative.
Tensor pow_grad_exponent(const Tensor& g, const Operand& x, const Operand& exponent,
                         const Tensor& y);
// What lerp leaves of its first end.
Tensor lerp_grad_x(const Tensor& g, const Operand& weight);
// The sign of a real number has no gradient; that of a complex one turns with it.
Tensor sgn_grad_x(const Tensor& g, const Tensor& x);

}  // namespace moonlet::formulas

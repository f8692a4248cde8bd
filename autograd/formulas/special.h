// autograd/formulas/special.h: the longer derivatives of special functions.
#pragma once

#include <string_view>

#include "tensor/core/operand.h"

namespace moonlet::formulas {

// Throws: there is no formula for the derivative of the op by this argument.
[[noreturn]] Tensor not_differentiable(std::string_view op, std::string_view argument);

// The density of the gamma distribution: other^(x - 1) exp(-other) / gamma(x).
Tensor igamma_grad_other(const Tensor& g, const Tensor& x, const Tensor& other);
// -x zeta(x + 1, other)
Tensor special_zeta_grad_other(const Tensor& g, const Operand& x, const Operand& other);
// log(other), and 0 where x is 0 and the logarithm is minus infinity or none.
Tensor xlogy_grad_x(const Tensor& g, const Operand& x, const Operand& other);
Tensor xlogy_grad_other(const Tensor& g, const Operand& x, const Operand& other);
Tensor special_xlog1py_grad_other(const Tensor& g, const Operand& x, const Operand& other);
Tensor special_xlog1py_grad_x(const Tensor& g, const Operand& x, const Operand& other);
// (cos(pi x) - sinc(x)) / x, and 0 at 0.
Tensor sinc_grad_x(const Tensor& g, const Tensor& x, const Tensor& y);
// i0(x) - i1(x) / x, the same of i0e and i1e less the exponential's part, j0(x) - j1(x) / x; each
// 1/2 at 0.
Tensor special_i1_grad_x(const Tensor& g, const Tensor& x, const Tensor& y);
Tensor special_i1e_grad_x(const Tensor& g, const Tensor& x, const Tensor& y);
Tensor special_bessel_j1_grad_x(const Tensor& g, const Tensor& x, const Tensor& y);

}  // namespace moonlet::formulas

// autograd/formulas/special.cpp: the longer derivatives of special functions.
#include "autograd/formulas/special.h"

#include "autograd/uses_formulas_special.h"

namespace moonlet::formulas {

Tensor not_differentiable(std::string_view op, std::string_view argument) {
  fail(op, ": has no derivative by ", argument, "; detach it");
}

Tensor igamma_grad_other(const Tensor& g, const Tensor& x, const Tensor& other) {
  return mul(g, exp(sub(sub(xlogy(sub(x, 1.0), other), other), lgamma(x))));
}

Tensor special_zeta_grad_other(const Tensor& g, const Operand& x, const Operand& other) {
  if (!x.is_tensor()) {
    const double order = x.scalar().to_double();
    return mul(g, mul(special_zeta(order + 1, other), -order));
  }
  return neg(mul(g, mul(x, special_zeta(add(x, 1.0), other))));
}

// `slope`, and 0 where x is 0 and `other` is at most `lowest`, whose logarithm is infinite.
static Tensor log_slope(const Operand& x, const Operand& other, double lowest,
                        const Tensor& slope) {
  if (!other.is_tensor()) {
    const bool finite = !(other.scalar().to_double() <= lowest);
    return finite ? slope : where(eq(x, 0), 0.0, slope);
  }
  return where(logical_and(eq(x, 0), le(other, lowest)), 0.0, slope);
}

Tensor xlogy_grad_x(const Tensor& g, const Operand& x, const Operand& other) {
  return log_slope(x, other, 0.0, xlogy(g, other));
}

Tensor special_xlog1py_grad_x(const Tensor& g, const Operand& x, const Operand& other) {
  return log_slope(x, other, -1.0, special_xlog1py(g, other));
}

// slope(divisor) for x other than 0, at which the divisor is 1 and the result `at_zero`.
template <class F>
static Tensor except_zero(const Tensor& g, const Tensor& x, double at_zero, F&& slope) {
  const Tensor zero = eq(x, 0);
  return mul(g, moonlet::conj(where(zero, at_zero, slope(where(zero, 1.0, x)))));
}

Tensor sinc_grad_x(const Tensor& g, const Tensor& x, const Tensor& y) {
  return except_zero(g, x, 0.0, [&](const Tensor& z) {
    return div(sub(cos(mul(x, 3.14159265358979323846)), y), z);
  });
}

Tensor special_i1_grad_x(const Tensor& g, const Tensor& x, const Tensor& y) {
  return except_zero(g, x, 0.5, [&](const Tensor& z) { return sub(i0(x), div(y, z)); });
}

Tensor special_i1e_grad_x(const Tensor& g, const Tensor& x, const Tensor& y) {
  return except_zero(g, x, 0.5, [&](const Tensor& z) {
    return sub(special_i0e(x), mul(y, add(sgn(x), reciprocal(z))));
  });
}

Tensor special_bessel_j1_grad_x(const Tensor& g, const Tensor& x, const Tensor& y) {
  return except_zero(g, x, 0.5,
                     [&](const Tensor& z) { return sub(special_bessel_j0(x), div(y, z)); });
}

}  // namespace moonlet::formulas

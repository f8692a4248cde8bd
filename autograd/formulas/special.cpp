// autograd/formulas/special.cpp: the longer derivatives of special functions.
#include "autograd/formulas.h"

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

// gradient(other), and 0 where x is 0 and `other` is at most `lowest`, whose logarithm is infinite.
template <class F>
static Tensor log_gradient(const Operand& x, const Operand& other, double lowest, F&& gradient) {
  if (!other.is_tensor()) {
    const bool finite = !(other.scalar().to_double() <= lowest);
    return finite ? gradient(other) : where(eq(x, 0), 0.0, gradient(other));
  }
  const Tensor none = logical_and(eq(x, 0), le(other, lowest));
  return where(none, 0.0, gradient(where(none, 1.0, other)));
}

Tensor xlogy_grad_x(const Tensor& g, const Operand& x, const Operand& other) {
  return log_gradient(x, other, 0.0, [&](const Operand& safe) { return xlogy(g, safe); });
}

Tensor special_xlog1py_grad_x(const Tensor& g, const Operand& x, const Operand& other) {
  return log_gradient(x, other, -1.0,
                      [&](const Operand& safe) { return special_xlog1py(g, safe); });
}

// The same of `other`, x divided by `other - lowest`: there it has no derivatives either.
static Tensor log_gradient_of_other(const Tensor& g, const Operand& x, const Operand& other,
                                    double lowest) {
  const Tensor from = lowest == 0 ? other.tensor() : sub(other, lowest);
  if (!x.is_tensor()) return div(mul(g, x), from);
  const Tensor none = logical_and(eq(x, 0), le(from, 0)), divisor = where(none, 1.0, from);
  return where(none, 0.0, div(mul(g, x), divisor));
}

Tensor xlogy_grad_other(const Tensor& g, const Operand& x, const Operand& other) {
  return log_gradient_of_other(g, x, other, 0.0);
}

Tensor special_xlog1py_grad_other(const Tensor& g, const Operand& x, const Operand& other) {
  return log_gradient_of_other(g, x, other, -1.0);
}

// gradient(divisor) for x other than 0, at which the divisor is 1 and the result `at_zero`.
template <class F>
static Tensor except_zero(const Tensor& g, const Tensor& x, double at_zero, F&& gradient) {
  const Tensor zero = eq(x, 0);
  return mul(g, moonlet::conj(where(zero, at_zero, gradient(where(zero, 1.0, x)))));
}

// With t = pi x, cos(t) / x - sin(t) / (t x); around 0, where that cancels, the first terms of
// pi (-t / 3 + t^3 / 30 - t^5 / 840 + t^7 / 45360 - ...), which have its derivatives too.
Tensor sinc_grad_x(const Tensor& g, const Tensor& x, const Tensor& y) {
  constexpr double kPi = 3.14159265358979323846;
  const Tensor close = lt(abs(x), 0.1), t = mul(x, kPi), t2 = square(where(close, t, 0.0));
  Tensor series = mul(t2, -1.0 / 3991680);
  for (const double factor : {1.0 / 45360, -1.0 / 840, 1.0 / 30})
    series = mul(add(series, factor), t2);
  const Tensor around = mul(mul(t, add(series, -1.0 / 3)), kPi);
  const Tensor beside = div(sub(cos(t), y), where(close, 1.0, x));
  return mul(g, moonlet::conj(where(close, around, beside)));
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

// autograd/formulas_pointwise.cpp: the longer derivatives of pointwise ops, in public ops.
#include "autograd/formulas_pointwise.h"

#include "autograd/formulas.h"
#include "autograd/ops_activation.h"
#include "autograd/ops_compare.h"
#include "autograd/ops_convert.h"
#include "autograd/ops_create.h"
#include "autograd/ops_pointwise.h"

namespace moonlet::formulas {

Operand conj(const Operand& x) {
  if (!x.is_tensor())
    return Operand(x.scalar().is_complex() ? Scalar(std::conj(x.scalar().to_complex()))
                                           : x.scalar());
  return is_complex(x.tensor().dtype()) ? Operand(moonlet::conj(x.tensor())) : x;
}

Tensor widened(const Tensor& x) {
  if (!x.defined() || !is_floating(x.dtype()) || size_of(x.dtype()) > 2) return x;
  return to(x, DType::Float32);
}

Tensor pow_grad_base(const Tensor& g, const Operand& x, const Operand& power) {
  if (!power.is_tensor()) {
    const Scalar& p = power.scalar();
    if (!p.to_bool()) return zeros_like(g);
    if (p.is_complex()) {
      const Scalar less(p.to_complex() - 1.0);
      return mul(g, moonlet::conj(mul(pow(x, less), p)));
    }
    const Scalar less = p.is_int() ? Scalar(p.to_int() - 1) : Scalar(p.to_double() - 1);
    return mul(g, moonlet::conj(mul(pow(x, less), p)));
  }
  const Tensor slope = mul(power, pow(x, sub(power, 1)));
  return where(eq(power, 0), 0.0, mul(g, moonlet::conj(slope)));
}

Tensor pow_grad_exponent(const Tensor& g, const Operand& x, const Operand& power, const Tensor& y) {
  if (!x.is_tensor()) {
    const Scalar& base = x.scalar();
    if (base.is_complex())
      return mul(g, moonlet::conj(mul(y, Scalar(std::log(base.to_complex())))));
    if (!base.to_bool()) return where(ge(power, 0), 0.0, mul(g, mul(y, std::log(0.0))));
    return mul(g, mul(y, std::log(base.to_double())));
  }
  if (is_complex(y.dtype())) return mul(g, moonlet::conj(mul(y, log(x.tensor()))));
  const Tensor flat = logical_and(eq(x, 0), mul(ge(power, 0), ones_like(y)));
  return where(flat, 0.0, mul(g, mul(y, log(x.tensor()))));
}

Tensor sgn_grad(const Tensor& g, const Tensor& x) {
  if (!is_complex(x.dtype())) return zeros_like(g);
  // (g - s Re(conj(s) g)) / |x| with s = sgn(x); 0 at 0.
  const Tensor s = sgn(x), size = abs(x);
  const Tensor across = sub(g, mul(s, real(mul(moonlet::conj(s), g))));
  return where(eq(size, 0), 0.0, div(across, where(eq(size, 0), 1.0, size)));
}

Tensor angle_grad(const Tensor& g, const Tensor& x) {
  if (!is_complex(x.dtype())) return zeros_like(x);
  // g i / conj(x); 0 at 0, where the angle has no derivative.
  const Tensor zero = eq(x, 0), safe = where(zero, 1.0, x);
  return where(zero, 0.0, div(mul(g, Scalar(complex128(0, 1))), moonlet::conj(safe)));
}

Tensor gelu_tanh_grad(const Tensor& g, const Tensor& given) {
  const Tensor x = widened(given);
  constexpr double k = 0.7978845608028654, c = 0.044715;
  const Tensor x2 = square(x);
  const Tensor t = tanh(mul(mul(x, add(mul(x2, c), 1.0)), k));
  const Tensor inner = mul(add(mul(x2, 3 * c), 1.0), k);
  const Tensor slope = add(add(t, 1.0), mul(mul(x, sub(1.0, square(t))), inner));
  return mul(g, mul(slope, 0.5));
}

Tensor silu_double_grad(const Tensor& g, const Tensor& grad, const Tensor& given) {
  const Tensor x = widened(given);
  const Tensor s = sigmoid(x);
  const Tensor bend = add(mul(x, sub(1.0, mul(s, 2.0))), 2.0);
  return mul(mul(widened(g), grad), mul(mul(s, sub(1.0, s)), bend));
}

Tensor mish_grad(const Tensor& g, const Tensor& given) {
  const Tensor x = widened(given);
  const Tensor t = tanh(softplus(x, 1.0, 20.0));
  const Tensor slope = mul(mul(x, sigmoid(x)), sub(1.0, square(t)));
  return mul(g, add(t, slope));
}

}  // namespace moonlet::formulas

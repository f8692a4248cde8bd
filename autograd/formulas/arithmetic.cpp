// autograd/formulas/arithmetic.cpp: the longer derivatives of arithmetic.
#include "autograd/formulas.h"

#include "autograd/formulas/common.h"
#include "autograd/tape.h"
#include "autograd/uses_formulas_arithmetic.h"

namespace moonlet::formulas {

Tensor pow_grad_x(const Tensor& g, const Operand& x, const Operand& exponent) {
  if (!exponent.is_tensor()) {
    const Scalar& p = exponent.scalar();
    if (!p.to_bool()) return zeros_like(g);
    if (p.is_complex()) {
      const Scalar less(p.to_complex() - 1.0);
      return mul(g, moonlet::conj(mul(pow(x, less), p)));
    }
    // The most common exponent, without a pass that raises to 1.
    if (p.to_double() == 2 && x.is_tensor()) return mul(g, moonlet::conj(mul(x.tensor(), p)));
    const Scalar less = p.is_int() ? Scalar(p.to_int() - 1) : Scalar(p.to_double() - 1);
    return mul(g, moonlet::conj(mul(pow(x, less), p)));
  }
  // At 0 the gradients 0 x^-1 and 1 x^0 are those of constants.
  const Tensor edge =
      logical_and(logical_or(eq(x, 0), ne(x, x)), logical_or(eq(exponent, 0), eq(exponent, 1)));
  const Tensor gradient = mul(exponent, pow(where(edge, 1, x), add(exponent, -1)));
  return mul(g, moonlet::conj(where(edge, detach(exponent.tensor()), gradient)));
}

Tensor pow_grad_exponent(const Tensor& g, const Operand& x, const Operand& exponent,
                         const Tensor& y) {
  if (!x.is_tensor()) {
    const Scalar& base = x.scalar();
    if (base.is_complex())
      return mul(g, moonlet::conj(mul(y, Scalar(std::log(base.to_complex())))));
    if (!base.to_bool()) {
      const Tensor flat = ge(exponent, 0);
      return where(flat, 0.0, mul(g, mul(where(flat, 0.0, y), std::log(0.0))));
    }
    return mul(g, mul(y, std::log(base.to_double())));
  }
  if (is_complex(y.dtype())) return mul(g, moonlet::conj(mul(y, log(x.tensor()))));
  const Tensor flat = logical_and(eq(x, 0), ge(exponent, 0));
  // The logarithm of what is 0 is kept out of derivatives in turn.
  return where(flat, 0.0, mul(g, mul(y, log(where(flat, 1, x)))));
}

Tensor lerp_grad_x(const Tensor& g, const Operand& weight) {
  const Operand w = conj(weight);
  if (w.is_tensor()) return sub(g, mul(g, w));
  const Scalar& number = w.scalar();
  return mul(g, number.is_complex() ? Scalar(1.0 - number.to_complex())
                                    : Scalar(1.0 - number.to_double()));
}

Tensor sgn_grad_x(const Tensor& g, const Tensor& x) {
  if (!is_complex(x.dtype())) return zero_grad(g);
  // (g - s Re(conj(s) g)) / |x| with s = sgn(x); 0 at 0.
  const Tensor s = sgn(x), size = abs(x);
  const Tensor across = sub(g, mul(s, real(mul(moonlet::conj(s), g))));
  return where(eq(size, 0), 0.0, div(across, where(eq(size, 0), 1.0, size)));
}

}  // namespace moonlet::formulas

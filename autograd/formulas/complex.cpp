// autograd/formulas/complex.cpp: the longer derivatives of the parts of complex numbers.
#include "autograd/formulas.h"
#include "autograd/uses_formulas_complex.h"

namespace moonlet::formulas {

Tensor angle_grad_x(const Tensor& g, const Tensor& x) {
  if (!is_complex(x.dtype())) return zeros_like(x);
  // g i / conj(x); 0 at 0, where the angle has no derivative.
  const Tensor zero = eq(x, 0), safe = where(zero, 1.0, x);
  return where(zero, 0.0, div(mul(g, Scalar(complex128(0, 1))), moonlet::conj(safe)));
}

}  // namespace moonlet::formulas

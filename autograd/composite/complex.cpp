// autograd/composite/complex.cpp: the parts of complex numbers, made of other ops.
#include "autograd/uses_composite_complex.h"

namespace moonlet {

Tensor conj_composite(const Tensor& x) { return is_complex(x.dtype()) ? conj_physical(x) : x; }

Tensor real_composite(const Tensor& x) {
  return is_complex(x.dtype()) ? select(view_as_real(x), x.dim(), 0) : x;
}

Tensor imag_composite(const Tensor& x) {
  check(is_complex(x.dtype()), "imag: dtype ", x.dtype(), " has no imaginary parts");
  return select(view_as_real(x), x.dim(), 1);
}

Tensor complex_composite(const Tensor& real, const Tensor& imag) {
  check(real.dtype() == imag.dtype(), "complex: the real parts have dtype ", real.dtype(),
        " and the imaginary ones ", imag.dtype(), "; they must be the same");
  check(real.dtype() == DType::Float32 || real.dtype() == DType::Float64, "complex: dtype ",
        real.dtype(), " has no complex dtype of its parts; float32 and float64 have");
  return join_parts(real, imag);
}

Scalar complex_number_composite(double real, double imag) { return complex128(real, imag); }

Tensor polar_composite(const Tensor& abs, const Tensor& angle) {
  return complex(mul(abs, cos(angle)), mul(abs, sin(angle)));
}

}  // namespace moonlet

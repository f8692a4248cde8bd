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

}  // namespace moonlet

// autograd/composite/math.cpp: angles in degrees, and the neighbours of floating point numbers.
#include <cmath>

#include "autograd/uses_composite_math.h"

namespace moonlet {

Tensor deg2rad_composite(const Tensor& x) { return mul(x, 3.14159265358979323846 / 180); }
Tensor rad2deg_composite(const Tensor& x) { return mul(x, 180 / 3.14159265358979323846); }

Tensor nextafter_composite(const Tensor& x, const Tensor& other) {
  const Operand a(x), b(other);
  const DType dtype = result_type(a, b);
  check(contains(dtypes::floating, dtype), "nextafter: dtype ", dtype,
        " is not supported; it takes ", names(dtypes::floating));
  if (!is_reduced_floating(dtype)) return nextafter_wide(x, other);
  return nextafter_by(x, other, int64_t{mantissa_bits(dtype)}, smallest_subnormal(dtype));
}

}  // namespace moonlet

// autograd/composite/math.cpp: angles in degrees, and the neighbours of floating point numbers.
#include <cmath>

#include "autograd/uses_composite_math.h"

namespace moonlet {

Tensor deg2rad_composite(const Tensor& x) { return mul(x, 3.14159265358979323846 / 180); }
Tensor rad2deg_composite(const Tensor& x) { return mul(x, 180 / 3.14159265358979323846); }

Tensor nextafter_composite(const Tensor& x, const Tensor& other) {
  const Operand a(x), b(other);
  // The digits behind the leading one, and the smallest positive number.
  switch (const DType dtype = result_type(a, b)) {
    case DType::Float16: return nextafter_by(x, other, 10, std::ldexp(1.0, -24));
    case DType::BFloat16: return nextafter_by(x, other, 7, std::ldexp(1.0, -133));
    case DType::Float32:
    case DType::Float64: return nextafter_wide(x, other);
    default: fail("nextafter: dtype ", dtype, " is not supported; it takes floating ones");
  }
}

}  // namespace moonlet

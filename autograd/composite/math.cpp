// autograd/composite/math.cpp: angles in degrees, and the neighbours of floating point numbers.
#include <cmath>
#include <limits>

#include "autograd/uses_composite_math.h"

namespace moonlet {

Tensor deg2rad_composite(const Tensor& x) { return mul(x, 3.14159265358979323846 / 180); }
Tensor rad2deg_composite(const Tensor& x) { return mul(x, 180 / 3.14159265358979323846); }

namespace {

// The digits of a format behind the leading one, and its smallest positive number.
struct Format {
  int digits;
  double smallest;
};

template <class T>
constexpr Format format_of() {
  return {std::numeric_limits<T>::digits - 1, std::numeric_limits<T>::denorm_min()};
}

Format format_of(DType dtype) {
  switch (dtype) {
    case DType::Float16: return {10, std::ldexp(1.0, -24)};
    case DType::BFloat16: return {7, std::ldexp(1.0, -133)};
    case DType::Float32: return format_of<float>();
    case DType::Float64: return format_of<double>();
    default: fail("nextafter: dtype ", dtype, " is not supported; it takes floating ones");
  }
}

}  // namespace

Tensor nextafter_composite(const Tensor& x, const Tensor& other) {
  const Operand a(x), b(other);
  const Format format = format_of(result_type(a, b));
  return nextafter_by(x, other, format.digits, format.smallest);
}

}  // namespace moonlet

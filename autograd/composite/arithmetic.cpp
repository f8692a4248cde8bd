// autograd/composite/arithmetic.cpp: arithmetic made of other ops.
#include <cmath>
#include <limits>

#include "autograd/uses_composite_arithmetic.h"

namespace moonlet {

Tensor div_mode_composite(const Operand& x, const Operand& other, std::string_view rounding_mode) {
  if (rounding_mode == "floor") return floor_divide(x, other);
  if (rounding_mode == "trunc") return trunc_divide(x, other);
  fail("div: rounding_mode is '", rounding_mode, "'; it can be \"floor\" or \"trunc\"");
}

Tensor rsub_composite(const Operand& x, const Operand& other, Scalar alpha) {
  if (alpha.kind() == Scalar::Kind::Int && alpha.to_int() == 1) return sub(other, x);
  return sub_scaled(other, x, alpha);
}

Tensor positive_composite(const Tensor& x) {
  check(x.dtype() != DType::Bool, "positive: dtype bool has no sign");
  return x;
}

namespace {

bool is_complex_operand(const Operand& x) {
  return x.is_tensor() ? is_complex(x.tensor().dtype()) : x.scalar().is_complex();
}

Operand converted(const Operand& x, DType dtype) {
  return x.is_tensor() ? Operand(to(x.tensor(), dtype)) : x;
}

}  // namespace

Tensor float_power_composite(const Operand& x, const Operand& exponent) {
  const bool complex = is_complex_operand(x) || is_complex_operand(exponent);
  const DType dtype = complex ? DType::Complex128 : DType::Float64;
  return pow(converted(x, dtype), converted(exponent, dtype));
}

// Whole exponents leave a float its dtype, though the power may be too large for it.
Tensor ldexp_composite(const Tensor& x, const Operand& other) {
  if (!other.is_tensor()) {
    const Scalar& n = other.scalar();
    return mul(x,
               n.is_complex() ? Scalar(std::pow(2.0, n.to_complex())) : std::exp2(n.to_double()));
  }
  if (!is_floating(x.dtype()) || !is_integral(other.tensor().dtype()))
    return mul(x, pow(2.0, other));
  const DType wide = compute_dtype(x.dtype());
  return to(mul(to(x, wide), pow(2.0, to(other.tensor(), wide))), x.dtype());
}

std::tuple<Tensor, Tensor> frexp_composite(const Tensor& x) {
  return {frexp_mantissa(x), to(frexp_exponent(x), DType::Int32)};
}

Tensor round_decimals_composite(const Tensor& x, int64_t decimals) {
  check(is_floating(x.dtype()), "round: dtype ", x.dtype(),
        " has no decimals; it takes floating ones");
  if (decimals == 0) return round(x);
  const double unit = std::pow(10.0, std::abs(static_cast<double>(decimals)));
  return decimals > 0 ? round_to_parts(x, unit) : round_to_multiples(x, unit);
}

// Extremes and limits.

Tensor max_pair_composite(const Tensor& x, const Tensor& other) { return maximum(x, other); }
Tensor min_pair_composite(const Tensor& x, const Tensor& other) { return minimum(x, other); }

Tensor clamp_composite(const Tensor& x, std::optional<Scalar> min, std::optional<Scalar> max) {
  check(min || max, "clamp: at least one of min and max is expected");
  if (!max) return clamp_min(x, *min);
  if (!min) return clamp_max(x, *max);
  return clamp_between(x, *min, *max);
}

Tensor clamp_min_tensor_composite(const Tensor& x, const Tensor& min) { return maximum(x, min); }
Tensor clamp_max_tensor_composite(const Tensor& x, const Tensor& max) { return minimum(x, max); }

Tensor clamp_tensor_composite(const Tensor& x, const Tensor& min, const Tensor& max) {
  check(min.defined() || max.defined(), "clamp: at least one of min and max is expected");
  if (!max.defined()) return maximum(x, min);
  if (!min.defined()) return minimum(x, max);
  return clamp_within(x, min, max);
}

Tensor nan_to_num_composite(const Tensor& x, double nan, std::optional<double> posinf,
                            std::optional<double> neginf) {
  if (is_complex(x.dtype()))
    return view_as_complex(nan_to_num(view_as_real(x), nan, posinf, neginf));
  if (!is_floating(x.dtype())) return clone(x);
  const double most = largest(x.dtype());
  return replace_nonfinite(x, nan, posinf.value_or(most), neginf.value_or(-most));
}

Tensor dist_composite(const Tensor& x, const Tensor& other, double p) {
  return norm(sub(x, other), p);
}

}  // namespace moonlet

// autograd/composite/arithmetic.cpp: arithmetic made of other ops.
#include "autograd/uses_composite_arithmetic.h"

namespace moonlet {

Tensor div_mode_composite(const Operand& x, const Operand& other, std::string_view rounding_mode) {
  if (rounding_mode == "floor") return floor_divide(x, other);
  if (rounding_mode == "trunc") return trunc_divide(x, other);
  fail("div: rounding_mode is '", rounding_mode, "'; it can be \"floor\" or \"trunc\"");
}

Tensor clamp_composite(const Tensor& x, std::optional<Scalar> min, std::optional<Scalar> max) {
  check(min || max, "clamp: at least one of min and max is wanted");
  if (!max) return clamp_min(x, *min);
  if (!min) return clamp_max(x, *max);
  return clamp_max(clamp_min(x, *min), *max);
}

}  // namespace moonlet

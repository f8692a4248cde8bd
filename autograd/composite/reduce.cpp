// autograd/composite/reduce.cpp: reductions made of other ops.
#include "autograd/uses_composite_reduce.h"

namespace moonlet {

Tensor max_composite(const Tensor& x) { return amax(x); }
Tensor min_composite(const Tensor& x) { return amin(x); }

Tensor std_composite(const Tensor& x, const Dims& dim, int64_t correction, bool keepdim) {
  // The variance of a half has the square of its range.
  if (is_reduced_floating(x.dtype()))
    return to(std(to(x, compute_dtype(x.dtype()), std::nullopt), dim, correction, keepdim),
              x.dtype(), std::nullopt);
  const Tensor variance = var(x, dim, correction, keepdim);
  if (!x.requires_grad()) return sqrt(variance);
  // The slope of the root at zero is infinite; the deviation of equal elements has gradient zero.
  const Tensor flat = eq(variance, 0.0);
  return masked_fill(sqrt(masked_fill(variance, flat, 1.0)), flat, 0.0);
}

}  // namespace moonlet

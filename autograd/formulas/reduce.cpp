// autograd/formulas/reduce.cpp: the longer derivatives of reductions.
#include "autograd/formulas/reduce.h"
#include "autograd/formulas/common.h"
#include "autograd/host_value.h"
#include "autograd/tape.h"
#include "autograd/uses_formulas_reduce.h"

#include <cmath>
#include <limits>

namespace moonlet::formulas {

static double reduced_count(const Dims& sizes, const Dims& dims) {
  double count = 1;
  for (int64_t d : dims) count *= static_cast<double>(sizes[static_cast<int>(d)]);
  return count;
}

Tensor mean_grad_x(const Tensor& g, const Dims& sizes, const Dims& dims, bool keepdim) {
  const Tensor each = div(restore_dims(g, sizes, dims, keepdim), reduced_count(sizes, dims));
  return expand(each, sizes);
}

Tensor prod_grad_x(const Tensor& g, const Tensor& x, const Tensor& y, std::optional<int64_t> dim,
                   bool keepdim) {
  if (x.dim() == 0) return g;
  if (x.numel() == 0) return zeros_like(x);
  const Dims dims = dim ? Dims{wrapped(*dim, x.dim())} : all_dims(x.dim());
  const Tensor outer = restore_dims(g, x.sizes(), dims, keepdim);
  // Whether there is a zero, a device is not asked.
  if (has_values(x) && x.device().is_cpu() && host_value<bool>(all(x))) {
    const Tensor whole = restore_dims(y, x.sizes(), dims, keepdim);
    if (is_complex(x.dtype())) return mul(outer, conj(div(whole, x)));
    return div(mul(outer, whole), x);
  }
  if (dim) return mul(outer, conj(product_of_others(x, static_cast<int>(dims[0]))));
  const Tensor others = product_of_others(reshape(x, Dims{x.numel()}), 0);
  return mul(outer, conj(reshape(others, x.sizes())));
}

// Whether what rounding takes off the mean does not count beside the deviation. A device is not
// asked.
static bool is_mean_enough(const Tensor& mean, const Tensor& deviation) {
  if (!has_values(mean) || !mean.device().is_cpu() || is_complex(mean.dtype())) return false;
  constexpr double kFew = 64;
  return host_value<bool>(all(ge(mul(deviation, kFew), abs(mean))));
}

// 2 scale (x - mean), where the mean may be large beside x's distances from it.
static Tensor twice_from_mean(const Tensor& scale, const Tensor& x, const Tensor& deviation,
                              const Dims& dims) {
  const Tensor centre = mean(x, dims, true);
  if (is_complex(x.dtype())) {
    const Tensor distance = sub(x, centre);
    return mul(mul(scale, 2.0), sub(distance, mean(distance, dims, true)));
  }
  const Tensor out = mse_loss_each_grad_x(scale, x, centre);
  if (is_mean_enough(centre, deviation)) return out;
  return sub(out, mul(mul(scale, 2.0), mean(sub(x, centre), dims, true)));
}

Tensor var_grad_x(const Tensor& g, const Tensor& x, const Dims& dims, double correction,
                  bool keepdim) {
  const double count = std::fmax(reduced_count(x.sizes(), dims) - correction, 0);
  const Tensor outer = restore_dims(widened(g), x.sizes(), dims, keepdim);
  // That of the squared distances from the mean; along the mean itself their sum is level.
  const Tensor deviation = [&] {
    const NoGrad no_grad;
    return std(widened(x), dims, 0, true);
  }();
  return to(twice_from_mean(div(outer, count), widened(x), deviation, dims), x.dtype());
}

Tensor std_grad_x(const Tensor& g, const Tensor& x, const Tensor& y, const Dims& dims,
                  double correction, bool keepdim) {
  const double count = std::fmax(reduced_count(x.sizes(), dims) - correction, 0);
  const Tensor outer = restore_dims(widened(g), x.sizes(), dims, keepdim);
  const Tensor deviation = restore_dims(widened(y), x.sizes(), dims, keepdim);
  const Tensor flat = eq(deviation, 0.0);
  const Tensor scale =
      div(div(masked_fill(outer, flat, 0.0), 2 * count), masked_fill(deviation, flat, 1.0));
  return to(twice_from_mean(scale, widened(x), deviation, dims), x.dtype());
}

// x / |x|, 0 where x is 0.
static Tensor direction(const Tensor& x) {
  if (!is_complex(x.dtype())) return sign(x);
  const Tensor magnitude = abs(x);
  return div(x, masked_fill(magnitude, eq(magnitude, 0.0), 1.0));
}

Tensor norm_grad_x(const Tensor& g, const Tensor& given, const Tensor& y, double p,
                   const Dims& dims, bool keepdim) {
  const DType computed = is_complex(given.dtype()) ? complex_of(y.dtype()) : y.dtype();
  const Tensor x = given.dtype() == computed ? given : to(given, computed, std::nullopt);
  const Tensor outer = restore_dims(g, x.sizes(), dims, keepdim);
  if (p == 0) return zeros_like(x);
  if (p == 1) return mul(outer, direction(x));
  if (std::isinf(p)) {
    const Tensor sizes = abs(x);
    const Tensor best = p > 0 ? amax(sizes, dims, true) : amin(sizes, dims, true);
    return mul(direction(x), extreme_grad_x(outer, sizes, best, dims, true));
  }
  const Tensor whole = restore_dims(y, x.sizes(), dims, keepdim);
  const Tensor flat = eq(whole, 0.0), safe = masked_fill(whole, flat, 1.0);
  // Where the norm is 0 no higher derivative passes either.
  if (p == 2) return mul(outer, masked_fill(div(x, safe), flat, 0.0));
  // Powers of the ratio, which is near 1 where it counts, and of more digits than 16-bit floats
  // have.
  const Tensor none = eq(x, 0.0), magnitude = abs(masked_fill(widened(x), none, 1.0));
  const Tensor ratio = masked_fill(div(magnitude, widened(safe)), flat, 1.0);
  const Tensor powers = mul(direction(widened(x)), pow(ratio, p - 1));
  const Tensor reached = masked_fill(widened(outer), flat, 0.0);
  return to(mul(reached, masked_fill(powers, none, 0.0)), x.dtype());
}

Tensor logsumexp_grad_x(const Tensor& g, const Tensor& x, const Tensor& y, const Dims& dims,
                        bool keepdim) {
  const Tensor outer = restore_dims(g, x.sizes(), dims, keepdim);
  const Tensor whole = restore_dims(y, x.sizes(), dims, keepdim);
  if (is_complex(x.dtype())) return mul(outer, conj(exp(sub(x, whole))));
  constexpr double kNothing = -std::numeric_limits<double>::infinity();
  const Tensor shift = masked_fill(whole, eq(whole, kNothing), 0.0);
  if (!has_values(whole) || !whole.device().is_cpu()) return scaled_exp(outer, x, shift);
  // Rounding y changes all shares by the same factor, which counts where y is large.
  constexpr double kLarge = 64;
  if (!host_value<bool>(any(gt(abs(shift), kLarge)))) return scaled_exp(outer, x, shift);
  const Tensor total = sum(scaled_exp(ones_like(outer), x, shift), dims, true);
  const Tensor safe = masked_fill(total, logical_not(gt(total, 0.0)), 1.0);
  return scaled_exp(div(outer, safe), x, shift);
}

}  // namespace moonlet::formulas

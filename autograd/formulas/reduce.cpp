// autograd/formulas/reduce.cpp: the longer derivatives of reductions.
#include "autograd/formulas/reduce.h"
#include "autograd/formulas/common.h"
#include "autograd/host_value.h"
#include "autograd/uses_formulas_reduce.h"

#include <cmath>

namespace moonlet::formulas {

static double reduced_count(const Dims& sizes, const Dims& dims) {
  double count = 1;
  for (int64_t d : wrap_dims(dims, sizes.size(), "reduce")) {
    count *= static_cast<double>(sizes[static_cast<int>(d)]);
  }
  return sizes.empty() ? 1 : count;
}

Tensor mean_grad_x(const Tensor& g, const Dims& sizes, const Dims& dims, bool keepdim) {
  const Tensor each = div(restore_dims(g, sizes, dims, keepdim), reduced_count(sizes, dims));
  return expand(each, sizes);
}

// The product of the elements before each one along dim.
static Tensor product_before(const Tensor& x, int64_t dim) {
  const int64_t n = x.size(static_cast<int>(dim));
  Dims first = x.sizes();
  first[static_cast<int>(dim)] = 1;
  const Tensor one = ones(first, options_of(x));
  return cumprod(cat({one, narrow(x, dim, 0, n - 1)}, dim), dim);
}

// For each element the product of the others, along dim.
static Tensor product_of_others(const Tensor& x, int dim) {
  const Tensor before = product_before(x, dim);
  return mul(before, flip(product_before(flip(x, Dims{dim}), dim), Dims{dim}));
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

Tensor var_grad_x(const Tensor& g, const Tensor& x, const Dims& dims, double correction,
                  bool keepdim) {
  const double count = std::fmax(reduced_count(x.sizes(), dims) - correction, 0);
  const Tensor outer = restore_dims(g, x.sizes(), dims, keepdim), centre = mean(x, dims, true);
  if (is_complex(x.dtype())) return mul(mul(outer, 2.0 / count), sub(x, centre));
  // That of the squared distances from the mean; along the mean itself their sum is level.
  return mse_loss_each_grad_x(div(outer, count), x, centre);
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
  const Tensor safe = masked_fill(whole, eq(whole, 0.0), 1.0);
  if (p == 2) return mul(outer, div(x, safe));
  const Tensor magnitude = abs(masked_fill(x, eq(x, 0.0), 1.0));
  return mul(outer, div(mul(x, pow(magnitude, p - 2)), pow(safe, p - 1)));
}

Tensor logsumexp_grad_x(const Tensor& g, const Tensor& x, const Tensor& y, const Dims& dims,
                        bool keepdim) {
  const Tensor outer = restore_dims(g, x.sizes(), dims, keepdim);
  const Tensor whole = restore_dims(y, x.sizes(), dims, keepdim);
  if (is_complex(x.dtype())) return mul(outer, conj(exp(sub(x, whole))));
  const Tensor finite = masked_fill(whole, isinf(whole), 0.0);
  return scaled_exp(outer, x, finite);
}

}  // namespace moonlet::formulas

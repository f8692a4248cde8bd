// autograd/formulas/reduce.cpp: the longer derivatives of reductions.
#include "autograd/formulas/reduce.h"
#include "autograd/uses_formulas_reduce.h"

#include <cmath>

#include "tensor/shapes/reduce.h"

namespace moonlet::formulas {

Tensor restore_dims(const Tensor& g, const Dims& sizes, const Dims& dims, bool keepdim) {
  if (keepdim || sizes.empty()) return g;
  return reshape(g, shapes::reduced_sizes(sizes, dims, true, "restore_dims"));
}

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

Tensor prod_grad_x(const Tensor& g, const Tensor& x, std::optional<int64_t> dim, bool keepdim) {
  if (x.dim() == 0) return mul(g, ones_like(x));
  if (x.numel() == 0) return zeros_like(x);
  if (!dim) {
    return reshape(prod_grad_x(reshape(g, Dims{1}), reshape(x, Dims{x.numel()}), 0, true),
                   x.sizes());
  }
  const int d = wrapped(*dim, x.dim());
  const Tensor before = product_before(x, d);
  const Tensor after = flip(product_before(flip(x, Dims{d}), d), Dims{d});
  return mul(restore_dims(g, x.sizes(), Dims{d}, keepdim), mul(before, after));
}

Tensor extreme_grad_x(const Tensor& g, const Tensor& x, const Tensor& y, const Dims& dims,
                      bool keepdim) {
  const Tensor best = restore_dims(y, x.sizes(), dims, keepdim);
  const Tensor chosen = to(eq(x, best), g.dtype());
  const Tensor share = div(restore_dims(g, x.sizes(), dims, keepdim), sum(chosen, dims, true));
  return mul(chosen, share);
}

Tensor selected_grad_x(const Tensor& g, const Tensor& indices, const Dims& sizes, int64_t dim,
                       bool keepdim) {
  const Options options{g.dtype(), g.device()};
  const Dims dims = sizes.empty() ? Dims{} : Dims{dim};
  return scatter_add(zeros(sizes, options), dim, restore_dims(indices, sizes, dims, keepdim),
                     restore_dims(g, sizes, dims, keepdim));
}

Tensor var_grad_x(const Tensor& g, const Tensor& x, const Dims& dims, int64_t correction,
                  bool keepdim) {
  const double count = reduced_count(x.sizes(), dims) - static_cast<double>(correction);
  const Tensor each = mul(restore_dims(g, x.sizes(), dims, keepdim), 2.0 / std::fmax(count, 0));
  return mul(each, sub(x, mean(x, dims, true)));
}

Tensor norm_grad_x(const Tensor& g, const Tensor& x, const Tensor& y, double p, const Dims& dims,
                   bool keepdim) {
  const Tensor outer = restore_dims(g, x.sizes(), dims, keepdim);
  const Tensor whole = restore_dims(y, x.sizes(), dims, keepdim);
  if (p == 0) return zeros_like(x);
  if (p == 1) return mul(outer, sign(x));
  if (std::isinf(p)) {
    return mul(sign(x), extreme_grad_x(outer, abs(x), whole, dims, true));
  }
  const Tensor safe = masked_fill(whole, eq(whole, 0.0), 1.0);
  if (p == 2) return mul(outer, div(x, safe));
  const Tensor magnitude = masked_fill(abs(x), eq(x, 0.0), 1.0);
  return mul(outer, div(mul(x, pow(magnitude, p - 2)), pow(safe, p - 1)));
}

Tensor logsumexp_grad_x(const Tensor& g, const Tensor& x, const Tensor& y, const Dims& dims,
                        bool keepdim) {
  const Tensor whole = restore_dims(y, x.sizes(), dims, keepdim);
  const Tensor finite = masked_fill(whole, isinf(whole), 0.0);
  return mul(restore_dims(g, x.sizes(), dims, keepdim), exp(sub(x, finite)));
}

}  // namespace moonlet::formulas

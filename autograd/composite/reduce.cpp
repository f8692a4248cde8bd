// autograd/composite/reduce.cpp: reductions made of other ops.
#include "autograd/formulas/common.h"
#include "autograd/uses_composite_reduce.h"

#include "tensor/core/operand.h"

namespace moonlet {

using formulas::widened;

Tensor max_composite(const Tensor& x) { return amax(x); }
Tensor min_composite(const Tensor& x) { return amin(x); }

// Variances and standard deviations.

std::tuple<Tensor, Tensor> var_mean_composite(const Tensor& x, const Dims& dim, double correction,
                                              bool keepdim) {
  return {var(x, dim, correction, keepdim), mean(x, dim, keepdim)};
}

std::tuple<Tensor, Tensor> std_mean_composite(const Tensor& x, const Dims& dim, double correction,
                                              bool keepdim) {
  return {std(x, dim, correction, keepdim), mean(x, dim, keepdim)};
}

static double correction_of(bool unbiased) { return unbiased ? 1 : 0; }

Tensor var_unbiased_composite(const Tensor& x, const Dims& dim, bool unbiased, bool keepdim) {
  return var(x, dim, correction_of(unbiased), keepdim);
}
Tensor std_unbiased_composite(const Tensor& x, const Dims& dim, bool unbiased, bool keepdim) {
  return std(x, dim, correction_of(unbiased), keepdim);
}
std::tuple<Tensor, Tensor> var_mean_unbiased_composite(const Tensor& x, const Dims& dim,
                                                       bool unbiased, bool keepdim) {
  return var_mean(x, dim, correction_of(unbiased), keepdim);
}
std::tuple<Tensor, Tensor> std_mean_unbiased_composite(const Tensor& x, const Dims& dim,
                                                       bool unbiased, bool keepdim) {
  return std_mean(x, dim, correction_of(unbiased), keepdim);
}
Tensor var_all_composite(const Tensor& x, bool unbiased) {
  return var(x, {}, correction_of(unbiased));
}
Tensor std_all_composite(const Tensor& x, bool unbiased) {
  return std(x, {}, correction_of(unbiased));
}
std::tuple<Tensor, Tensor> var_mean_all_composite(const Tensor& x, bool unbiased) {
  return var_mean(x, {}, correction_of(unbiased));
}
std::tuple<Tensor, Tensor> std_mean_all_composite(const Tensor& x, bool unbiased) {
  return std_mean(x, {}, correction_of(unbiased));
}

// Norms.

Tensor norm_named_composite(const Tensor& x, std::string_view p, const Dims& dim, bool keepdim,
                            std::optional<DType> dtype) {
  if (p == "fro") return norm(x, 2, dim, keepdim, dtype);
  check(p == "nuc", "norm: p is \"", p, "\"; a number, \"fro\" or \"nuc\" is expected");
  const Dims dims = dim.empty() && x.dim() == 2 ? Dims{0, 1} : dim;
  check(dims.size() == 2, "norm: \"nuc\" is of matrices: two dims are expected, got ", dims,
        " of shape ", x.sizes());
  return linalg_matrix_norm(x, p, dims, keepdim, dtype);
}

Tensor renorm_composite(const Tensor& x, double p, int64_t dim, double maxnorm) {
  check(x.dim() > 1, "renorm: x has shape ", x.sizes(), ", at least two dimensions are expected");
  check(p > 0, "renorm: p is ", p, ", a positive number is expected");
  check(maxnorm >= 0, "renorm: maxnorm is ", maxnorm, ", 0 or more is expected");
  const int d = wrap_dim(dim, x.dim(), "renorm");
  Dims others;
  for (int i = 0; i < x.dim(); ++i)
    if (i != d) others.push_back(i);
  const bool is_half = is_reduced_floating(x.dtype());
  const Tensor length =
      norm(x, p, others, true, is_half ? std::optional(DType::Float32) : std::nullopt);
  const Tensor factor =
      where(gt(length, maxnorm), mul(reciprocal(add(length, 1e-7)), maxnorm), 1.0);
  return to(mul(x, factor), x.dtype(), std::nullopt);
}

// Sums.

Tensor nanmean_composite(const Tensor& x, const Dims& dim, bool keepdim,
                         std::optional<DType> dtype) {
  check(is_floating(x.dtype()), "nanmean: x has dtype ", x.dtype(), ", a floating one is expected");
  const Tensor count = sum(logical_not(isnan(x)), dim, keepdim);
  const Tensor total = nansum(widened(x), dim, keepdim, dtype);
  return to(div(total, count), dtype.value_or(x.dtype()), std::nullopt);
}

Tensor sum_to_size_composite(const Tensor& x, const Dims& size) {
  check(can_expand(size, x.sizes()), "sum_to_size: a tensor of shape ", size,
        " does not broadcast to shape ", x.sizes());
  const int extra = x.dim() - size.size();
  Dims dims;
  for (int d = 0; d < x.dim(); ++d)
    if (d < extra || (size[d - extra] == 1 && x.size(d) != 1)) dims.push_back(d);
  return dims.empty() ? x : reshape(sum(x, dims, true), size);
}

}  // namespace moonlet

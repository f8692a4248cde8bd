// autograd/formulas/scan.cpp: the derivatives of running products and of logcumsumexp.
#include "autograd/formulas.h"

#include <limits>

#include "autograd/host_value.h"
#include "autograd/uses_formulas_scan.h"

namespace moonlet::formulas {

// For each element, the sum over later results of g times the product without that element. x is
// the conjugate of what was multiplied.
static Tensor cumprod_grad_x_zeros(const Tensor& g, const Tensor& x, int64_t dim) {
  const int64_t n = x.size(static_cast<int>(dim));
  std::vector<Tensor> parts;
  for (int64_t k = 0; k < n; ++k) {
    Dims one_sizes = x.sizes();
    one_sizes[static_cast<int>(dim)] = 1;
    std::vector<Tensor> others = {narrow(x, dim, 0, k), ones(one_sizes, options_of(x)),
                                  narrow(x, dim, k + 1, n - k - 1)};
    const Tensor product = cumprod(cat(others, dim), dim);
    parts.push_back(
        sum(mul(narrow(g, dim, k, n - k), narrow(product, dim, k, n - k)), Dims{dim}, true));
  }
  return cat(parts, dim);
}

Tensor cumprod_grad_x(const Tensor& g, const Tensor& given, const Tensor& y, int64_t given_dim) {
  if (given.dim() == 0 || given.numel() == 0) return g;
  const Tensor x = moonlet::conj(given);
  const int dim = wrapped(given_dim, x.dim());
  if (!has_values(x) || !host_value<bool>(all(x))) return cumprod_grad_x_zeros(g, x, dim);
  const Tensor products = flip(mul(g, moonlet::conj(y)), Dims{dim});
  return div(flip(cumsum(products, dim), Dims{dim}), x);
}

// The sums of e^z over each element and those after it, as logarithms.
static Tensor logsumexp_from(const Tensor& z, int64_t dim) {
  return flip(logcumsumexp(flip(z, Dims{dim}), dim), Dims{dim});
}

// The gradient's part from where g is positive: e^(x_j) times the sum of g_i e^(-y_i) over i >= j.
static Tensor logcumsumexp_positive_grad_x(const Tensor& g, const Tensor& x, const Tensor& y,
                                           int64_t dim) {
  constexpr double kNothing = -std::numeric_limits<double>::infinity();
  const Tensor absent = logical_or(le(g, 0.0), eq(y, kNothing));
  const Tensor ratio = sub(log(masked_fill(g, absent, 1.0)), masked_fill(y, absent, 0.0));
  return exp(add(logsumexp_from(masked_fill(ratio, absent, kNothing), dim), x));
}

Tensor logcumsumexp_grad_x(const Tensor& g, const Tensor& x, const Tensor& y, int64_t dim) {
  if (x.dim() == 0 || x.numel() == 0) return g;
  if (is_complex(x.dtype())) {
    const Tensor ratio = sub(log(moonlet::conj(g)), y);
    return moonlet::conj(exp(add(logsumexp_from(ratio, dim), x)));
  }
  return sub(logcumsumexp_positive_grad_x(g, x, y, dim),
             logcumsumexp_positive_grad_x(neg(g), x, y, dim));
}

}  // namespace moonlet::formulas

// autograd/formulas/scan.cpp: the derivative of running products.
#include "autograd/formulas/scan.h"
#include "autograd/host_value.h"
#include "autograd/uses_formulas_scan.h"

namespace moonlet::formulas {

// For each element, the sum over later results of g times the product without that element.
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

Tensor cumprod_grad_x(const Tensor& g, const Tensor& x, int64_t given_dim) {
  if (x.dim() == 0 || x.numel() == 0) return g;
  const int dim = wrapped(given_dim, x.dim());
  if (host_value<bool>(any(eq(x, 0.0)))) return cumprod_grad_x_zeros(g, x, dim);
  const Tensor products = flip(mul(g, cumprod(x, dim)), Dims{dim});
  return div(flip(cumsum(products, dim), Dims{dim}), x);
}

}  // namespace moonlet::formulas

// autograd/formulas/fft.cpp: the derivatives of Fourier transforms between real and complex
// numbers. Each is the other one, but that sums which stand for two count twice.
#include "autograd/formulas.h"

#include "autograd/uses_formulas_fft.h"

namespace moonlet::formulas {

// x, whose dim holds the first n / 2 + 1 of n sums, with those that stand for two times `factor`:
// all but the first, and of an even n the last.
static Tensor with_pairs_times(const Tensor& x, int dim, int64_t n, double factor) {
  const int64_t sums = n / 2 + 1;
  Dims sizes = Dims::filled(x.dim(), 1);
  sizes[dim] = sums;
  Tensor factors = full(sizes, factor, {real_of(x.dtype()), x.device()});
  Tensor first = narrow(factors, dim, 0, 1), last = narrow(factors, dim, sums - 1, 1);
  fill_(first, 1.0);
  if (n % 2 == 0) fill_(last, 1.0);
  return mul(x, factors);
}

Tensor fft_r2c_grad_x(const Tensor& g, const Dims& sizes, int64_t given_dim, double scale) {
  const int dim = wrapped(given_dim, sizes.size());
  const int64_t n = sizes[dim];
  return fft_c2r(with_pairs_times(g, dim, n, 0.5), dim, n, scale);
}

Tensor fft_c2r_grad_x(const Tensor& g, int64_t given_dim, double scale) {
  const int dim = wrapped(given_dim, g.dim());
  return with_pairs_times(fft_r2c(g, dim, scale), dim, g.size(dim), 2.0);
}

}  // namespace moonlet::formulas

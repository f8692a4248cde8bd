// tensor/shapes/fft.cpp: argument checks and result shapes of Fourier transforms.
#include "tensor/shapes/result.h"
#include "tensor/shapes_fft.h"

namespace moonlet::shapes {

namespace {

// Lengths for which the arithmetic of plans stays within int64.
constexpr int64_t kMostPoints = int64_t{1} << 40;

void check_points(const char* op, int64_t n) {
  check(n >= 1, op, ": ", n, " points; 1 or more expected");
  check(n <= kMostPoints, op, ": ", n, " points are more than ", kMostPoints);
}

void check_rank(const char* op, const Tensor& x) {
  check(x.dim() > 0, op, ": shape () has no dim to transform");
}

}  // namespace

Result fft_c2c(const Tensor& x, const Dims& dims, bool, double) {
  check_rank("fft_c2c", x);
  check(!dims.empty(), "fft_c2c: one dim or more expected");
  for (const int64_t d : dims) check_points("fft_c2c", x.size(wrapped(d, x.dim())));
  return like(x);
}

Result fft_r2c(const Tensor& x, int64_t dim, double) {
  const char* op = "fft_r2c";
  check_rank(op, x);
  check(!is_reduced_floating(x.dtype()), op, ": dtype ", x.dtype(),
        "; float32 or float64 expected");
  const int d = wrapped(dim, x.dim());
  check_points(op, x.size(d));
  Dims sizes = x.sizes();
  sizes[d] = sizes[d] / 2 + 1;
  return {sizes, {complex_of(x.dtype()), x.device()}};
}

Result fft_c2r(const Tensor& x, int64_t dim, int64_t n, double) {
  const char* op = "fft_c2r";
  check_rank(op, x);
  const int d = wrapped(dim, x.dim());
  check_points(op, n);
  check(x.size(d) == n / 2 + 1, op, ": ", n, " points are made of ", n / 2 + 1, " sums, got ",
        x.size(d));
  Dims sizes = x.sizes();
  sizes[d] = n;
  return {sizes, {real_of(x.dtype()), x.device()}};
}

}  // namespace moonlet::shapes

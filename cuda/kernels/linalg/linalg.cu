// cuda/kernels/linalg/linalg.cu: the product ops.
#include <algorithm>

#include "cuda/kernels/gemm.h"
#include "tensor/core/views.h"
#include "tensor/kernels_copy.h"
#include "tensor/kernels_linalg.h"
#include "tensor/raw_arithmetic.h"

namespace moonlet::cuda {

namespace {

Matrix column(const Tensor& v) { return {v.raw(), v.size(0), 1, v.stride(0), 1}; }
Matrix row(const Tensor& v) { return transposed(column(v)); }

// y = input, broadcast, unless beta is 0 and it is not to be read.
void start_from(const Tensor& input, const Scalar& beta, Tensor& y) {
  if (beta.to_complex() != complex128(0)) copy(y, input);
}

}  // namespace

void mm(const Tensor& a, const Tensor& b, Tensor& y) {
  const Call call(y, "mm");
  gemm(call, y.dtype(), 1, 1, matrix_of(a), matrix_of(b), 0, matrix_of(y));
}

void bmm(const Tensor& a, const Tensor& b, Tensor& y) {
  const Call call(y, "bmm");
  gemm(call, y.dtype(), y.size(0), 1, matrix_of(a), matrix_of(b), 0, matrix_of(y));
}

void addmm(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha,
           Tensor& y) {
  const Call call(y, "addmm");
  const bool plain = beta.to_complex() == complex128(1) && alpha.to_complex() == complex128(1);
  if (plain && y.is_contiguous() &&
      gemm_bias(call, y.dtype(), matrix_of(a), matrix_of(b), input, matrix_of(y)))
    return;
  start_from(input, beta, y);
  gemm(call, y.dtype(), 1, alpha, matrix_of(a), matrix_of(b), beta, matrix_of(y));
}

void baddbmm(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha,
             Tensor& y) {
  const Call call(y, "baddbmm");
  start_from(input, beta, y);
  gemm(call, y.dtype(), y.size(0), alpha, matrix_of(a), matrix_of(b), beta, matrix_of(y));
}

void mv(const Tensor& a, const Tensor& x, Tensor& y) {
  const Call call(y, "mv");
  gemm(call, y.dtype(), 1, 1, matrix_of(a), column(x), 0, column(y));
}

void dot(const Tensor& a, const Tensor& b, Tensor& y) {
  const Call call(y, "dot");
  gemm(call, y.dtype(), 1, 1, row(a), column(b), 0, {y.raw(), 1, 1, 1, 1});
}

void outer(const Tensor& a, const Tensor& b, Tensor& y) {
  if (a.dtype() != b.dtype() || y.dtype() == DType::Bool) {
    raw::mul_out(y, views::unsqueeze(a, 1), b);
    return;
  }
  const Call call(y, "outer");
  gemm(call, y.dtype(), 1, 1, column(a), row(b), 0, matrix_of(y));
}

void linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y) {
  const Call call(y, "linear");
  const int64_t in = weight.size(1), out = weight.size(0);
  if (y.numel() == 0) return;
  const Tensor source = x.dim() == 2 ? x : contiguous(x);
  const int64_t rows = y.numel() / out;
  const Matrix left =
      x.dim() == 2 ? matrix_of(x) : Matrix{source.raw(), rows, in, std::max<int64_t>(in, 1), 1};
  const Matrix right = transposed(matrix_of(weight)), to{y.raw(), rows, out, out, 1};
  if (bias.defined()) {
    if (gemm_bias(call, y.dtype(), left, right, bias, to)) return;
    start_from(bias, 1, y);
  }
  gemm(call, y.dtype(), 1, 1, left, right, bias.defined() ? 1 : 0, to);
}

void linalg_cross(const Tensor& x, const Tensor& other, int64_t dim, Tensor& y) {
  const auto part = [&](const Tensor& t, int k) { return views::select(t, dim, k % 3); };
  for (int k = 0; k < 3; ++k) {
    Tensor to = part(y, k);
    raw::mul_out(to, part(x, k + 1), part(other, k + 2));
    raw::addcmul_(to, part(x, k + 2), part(other, k + 1), -1);
  }
}

}  // namespace moonlet::cuda

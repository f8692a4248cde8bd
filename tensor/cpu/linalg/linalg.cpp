// tensor/cpu/linalg/linalg.cpp: the CPU kernels of the product ops.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "tensor/core/views.h"
#include "tensor/cpu/common/contiguous.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/gemm/gemm.h"
#include "tensor/cpu/gemm/gemm_onednn.h"
#include "tensor/cpu/gemm/gemm_simd.h"
#include "tensor/cpu/gemm/gemm_small.h"
#include "tensor/raw_arithmetic.h"

namespace moonlet::cpu {
namespace {

Matrix batch_entry(const Tensor& t, int64_t i) {
  Matrix m = matrix_of(t);
  m.data += i * t.stride(0) * static_cast<int64_t>(size_of(t.dtype()));
  return m;
}
Matrices batch_from(const Tensor& t, int64_t i) { return {batch_entry(t, i), t.stride(0)}; }

Matrix column(const Tensor& v) { return {v.raw(), v.size(0), 1, v.stride(0), 1}; }
Matrix row(const Tensor& v) { return transposed(column(v)); }

// Small products share the threads by batch entry, large ones within each product.
void batched(const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha, Tensor& y) {
  if (y.dtype() == DType::BFloat16 &&
      onednn_bmm_bfloat16(alpha.to_double(), a, b, beta.to_double(), y))
    return;
  const int64_t batch = y.size(0);
  const double work = double(y.size(1)) * double(y.size(2)) * double(a.size(2));
  const auto range = [&](int64_t begin, int64_t end) {
    if (work > 0 && small_products(y.dtype(), end - begin, alpha, batch_from(a, begin),
                                   batch_from(b, begin), beta, batch_from(y, begin)))
      return;
    for (int64_t i = begin; i < end; ++i)
      gemm(y.dtype(), alpha, batch_entry(a, i), batch_entry(b, i), beta, batch_entry(y, i));
  };
  if (work < 256.0 * 256.0 * 256.0)
    parallel_for(batch, grain_for(static_cast<int64_t>(work)), range);
  else
    run_blocks(0, batch, 1, range);
}

// y = input, broadcast, unless beta is 0 and it is not to be read.
void start_from(const Tensor& input, const Scalar& beta, Tensor& y) {
  if (beta.to_complex() == complex128(0)) return;
  Tensor wide = alias(input, y.sizes(),
                      broadcast_strides(input.sizes(), input.strides(), y.sizes()), input.offset());
  copy_into(y, wide);
}

// With alpha 0 the factors are not read, not even NaN: BLAS says so, but OpenBLAS's kernels for
// small matrices do otherwise. f gets factors of no depth then; false where alpha is another
// number.
template <class F>
bool without_factors(const Tensor& a, const Tensor& b, const Scalar& alpha, F&& f) {
  if (alpha.to_complex() != complex128(0) || a.size(-1) == 0) return false;
  f(views::slice(a, a.dim() - 1, 0, 0, 1), views::slice(b, b.dim() - 2, 0, 0, 1));
  return true;
}

}  // namespace

void mm(const Tensor& a, const Tensor& b, Tensor& y) {
  gemm(y.dtype(), 1, matrix_of(a), matrix_of(b), 0, matrix_of(y));
}

void bmm(const Tensor& a, const Tensor& b, Tensor& y) { batched(a, b, 0, 1, y); }

void addmm(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha,
           Tensor& y) {
  start_from(input, beta, y);
  const auto product = [&](const Tensor& left, const Tensor& right) {
    gemm(y.dtype(), alpha, matrix_of(left), matrix_of(right), beta, matrix_of(y));
  };
  if (!without_factors(a, b, alpha, product)) product(a, b);
}

void baddbmm(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha,
             Tensor& y) {
  start_from(input, beta, y);
  const auto product = [&](const Tensor& left, const Tensor& right) {
    batched(left, right, beta, alpha, y);
  };
  if (!without_factors(a, b, alpha, product)) product(a, b);
}

void mv(const Tensor& a, const Tensor& x, Tensor& y) {
  gemm(y.dtype(), 1, matrix_of(a), column(x), 0, column(y));
}

namespace {

// The dot product of n elements by blocks, whose sums are added in their order whatever the number
// of threads.
template <class T>
T dot_by_blocks(const T* a, const T* b, int64_t n) {
  constexpr int64_t kBlock = thresholds::linalg::kDotBlock;
  std::vector<T> sums(static_cast<size_t>((n + kBlock - 1) / kBlock));
  parallel_for(std::ssize(sums), grain_for(kBlock), [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const int64_t at = k * kBlock;
      sums[static_cast<size_t>(k)] = vector_dot(a + at, b + at, std::min(kBlock, n - at));
    }
  });
  return static_cast<T>(std::accumulate(sums.begin(), sums.end(), 0.0));
}

}  // namespace

void dot(const Tensor& a, const Tensor& b, Tensor& y) {
  constexpr DTypeSet kBlocks = bit(DType::Float32) | bit(DType::Float64);
  const int64_t n = a.size(0);
  if ((kBlocks & bit(y.dtype())) != 0 && a.stride(0) == 1 && b.stride(0) == 1 && n > 0)
    return visit<kBlocks>(y.dtype(), [&]<class T>() {
      *y.elements<T>() = dot_by_blocks(a.elements<T>(), b.elements<T>(), n);
    });
  gemm(y.dtype(), 1, row(a), column(b), 0, {y.raw(), 1, 1, 1, 1});
}

void outer(const Tensor& a, const Tensor& b, Tensor& y) {
  raw::mul_out(y, views::unsqueeze(a, 1), b);
}

namespace {

// The rows of a contiguous result as the bias. What a copy would move as one piece is copied here,
// since the plan of the copy takes longer.
void start_rows(const Tensor& bias, int64_t rows, Tensor& y) {
  const auto bytes = static_cast<size_t>(bias.numel()) * size_of(y.dtype());
  if (static_cast<size_t>(rows) * bytes > thresholds::pointwise::kPieceBytes ||
      !bias.is_contiguous() || bias.dtype() != y.dtype() || bytes == 0)
    return start_from(bias, 1, y);
  char* to = y.raw();
  for (int64_t row = 0; row < rows; ++row, to += bytes) std::memcpy(to, bias.raw(), bytes);
}

}  // namespace

void linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y) {
  const int64_t in = weight.size(1), out = weight.size(0);
  with_contiguous(y, [&](Tensor& whole) {
    const bool flat = x.dim() == 2;
    const Tensor source = flat ? x : contiguous(x);
    const int64_t rows = out == 0 ? 0 : whole.numel() / out;
    const Matrix left =
        flat ? matrix_of(source) : Matrix{source.raw(), rows, in, std::max<int64_t>(in, 1), 1};
    const Matrix result{whole.raw(), rows, out, std::max<int64_t>(out, 1), 1};
    if (bias.defined()) start_rows(bias, rows, whole);
    gemm(y.dtype(), 1, left, transposed(matrix_of(weight)), bias.defined() ? 1 : 0, result);
  });
}

}  // namespace moonlet::cpu

// tensor/cpu/linalg.cpp: the CPU kernels of the product ops.
#include "tensor/cpu/contiguous.h"
#include "tensor/cpu/gemm.h"
#include "tensor/cpu/gemm_onednn.h"
#include "tensor/cpu/parallel.h"

namespace moonlet::cpu {
namespace {

Matrix batch_entry(const Tensor& t, int64_t i) {
  Matrix m = matrix_of(t);
  m.data += i * t.stride(0) * static_cast<int64_t>(size_of(t.dtype()));
  return m;
}

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

// y[i] = factor * x[i]; integers wrap around.
template <class T>
void multiply_run(T factor, const T* x, int64_t n, T* y) {
  if constexpr (std::is_integral_v<T>)
    for (int64_t i = 0; i < n; ++i)
      y[i] = static_cast<T>(static_cast<uint64_t>(factor) * static_cast<uint64_t>(x[i]));
  else
    for (int64_t i = 0; i < n; ++i)
      y[i] = static_cast<T>(compute_t<T>(factor) * compute_t<T>(x[i]));
}

}  // namespace

void mm(const Tensor& a, const Tensor& b, Tensor& y) {
  gemm(y.dtype(), 1, matrix_of(a), matrix_of(b), 0, matrix_of(y));
}

void bmm(const Tensor& a, const Tensor& b, Tensor& y) { batched(a, b, 0, 1, y); }

void addmm(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha,
           Tensor& y) {
  start_from(input, beta, y);
  gemm(y.dtype(), alpha, matrix_of(a), matrix_of(b), beta, matrix_of(y));
}

void baddbmm(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha,
             Tensor& y) {
  start_from(input, beta, y);
  batched(a, b, beta, alpha, y);
}

void mv(const Tensor& a, const Tensor& x, Tensor& y) {
  gemm(y.dtype(), 1, matrix_of(a), column(x), 0, column(y));
}

void dot(const Tensor& a, const Tensor& b, Tensor& y) {
  gemm(y.dtype(), 1, row(a), column(b), 0, {y.raw(), 1, 1, 1, 1});
}

void outer(const Tensor& a, const Tensor& b, Tensor& y) {
  if (is_complex(y.dtype())) return gemm(y.dtype(), 1, column(a), row(b), 0, matrix_of(y));
  const Tensor across = contiguous(b);
  with_contiguous(y, [&](Tensor& whole) {
    visit<dtypes::real>(y.dtype(), [&]<class T>() {
      const T* factors = a.elements<T>();
      const int64_t cols = whole.size(1), step = a.stride(0);
      parallel_for(whole.size(0), grain_for(cols), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          serial_for(cols, 1, [&](int64_t first, int64_t last) {
            multiply_run(factors[i * step], across.elements<T>() + first, last - first,
                         whole.elements<T>() + i * cols + first);
          });
      });
    });
  });
}

void linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y) {
  const int64_t in = weight.size(1), out = weight.size(0);
  with_contiguous(y, [&](Tensor& whole) {
    const bool flat = x.dim() == 2;
    const Tensor source = flat ? x : contiguous(x);
    const int64_t rows = out == 0 ? 0 : whole.numel() / out;
    const Matrix left =
        flat ? matrix_of(source) : Matrix{source.raw(), rows, in, std::max<int64_t>(in, 1), 1};
    const Matrix result{whole.raw(), rows, out, std::max<int64_t>(out, 1), 1};
    if (bias.defined()) start_from(bias, 1, whole);
    gemm(y.dtype(), 1, left, transposed(matrix_of(weight)), bias.defined() ? 1 : 0, result);
  });
}

}  // namespace moonlet::cpu

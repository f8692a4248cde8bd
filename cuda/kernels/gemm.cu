// cuda/kernels/gemm.cu: products by cuBLAS, which is column-major: it computes the transposed
// product. Those with a few vectors go to linalg/gemm_skinny.cu; integers, and sizes beyond what
// cuBLAS counts, through a plain kernel.
#include "cuda/kernels/gemm.h"

#include <algorithm>

#include "cuda/kernels/common/geometry.cuh"
#include "tensor/runtime/float32_precision.h"

namespace moonlet::cuda {

namespace {

// One thread an element.
template <class C>
__global__ void product_kernel(int64_t batch, DType dtype, C alpha, Matrix a, Matrix b, C beta,
                               Matrix c) {
  const Array left{a.data, dtype}, right{b.data, dtype}, out{c.data, dtype};
  const bool keep = beta != C(0);
  for (MOONLET_EACH(e, batch * c.rows * c.cols)) {
    const int64_t col = e % c.cols, row = e / c.cols % c.rows, n = e / c.cols / c.rows;
    C sum = C(0);
    for (int64_t k = 0; k < a.cols; ++k)
      sum += left.get<C>(n * a.step + row * a.row_stride + k * a.col_stride) *
             right.get<C>(n * b.step + k * b.row_stride + col * b.col_stride);
    const int64_t at = n * c.step + row * c.row_stride + col * c.col_stride;
    out.set<C>(at, keep ? alpha * sum + beta * out.get<C>(at) : alpha * sum);
  }
}

constexpr int64_t kMaxInt = INT32_MAX;

// Whether cuBLAS can read m column by column (a leading dimension of col_stride).
bool columns_fit(const Matrix& m) {
  return (m.row_stride == 1 || m.rows == 1) &&
         (m.cols == 1 || m.col_stride >= std::max<int64_t>(1, m.rows)) && m.col_stride <= kMaxInt;
}

int leading(int64_t stride, int64_t count, int64_t least) {
  return static_cast<int>(std::max<int64_t>({count == 1 ? 1 : stride, least, 1}));
}

BlasOperand packed(const Call& call, DType dtype, int64_t batch, const Matrix& m) {
  BlasOperand out;
  out.copy = row_major(call, dtype, batch, m);
  out.matrix = matrix_of(out.copy);
  if (m.step == 0) out.matrix.step = 0;
  out.op = CUBLAS_OP_T;
  out.leading = leading(out.matrix.row_stride, m.rows, m.cols);
  return out;
}

}  // namespace

Tensor row_major(const Call& call, DType dtype, int64_t batch, const Matrix& m) {
  const int64_t count = m.step == 0 ? 1 : batch;
  Tensor out = call.scratch({count, m.rows, m.cols}, dtype);
  const int64_t extent =
      (count - 1) * m.step + (m.rows - 1) * m.row_stride + (m.cols - 1) * m.col_stride + 1;
  Storage* storage =
      Storage::foreign(m.data, static_cast<size_t>(extent) * size_of(dtype), call.device(), {});
  const Tensor from =
      view_of(*storage, out.sizes(), {m.step, m.row_stride, m.col_stride}, 0, dtype);
  storage->release();
  copy_back(out, from);
  return out;
}

cudaDataType blas_type(DType t) {
  switch (t) {
    case DType::Float16: return CUDA_R_16F;
    case DType::BFloat16: return CUDA_R_16BF;
    case DType::Float64: return CUDA_R_64F;
    case DType::Complex64: return CUDA_C_32F;
    case DType::Complex128: return CUDA_C_64F;
    case DType::Float32: return CUDA_R_32F;
    default: fail("matmul: cuBLAS has no type for ", name(t));
  }
}

cublasComputeType_t blas_compute_type(DType t) {
  if (t == DType::Float64 || t == DType::Complex128) return CUBLAS_COMPUTE_64F;
  const bool single = t == DType::Float32 || t == DType::Complex64;
  if (single && float32_precision() != Float32Precision::Highest)
    return CUBLAS_COMPUTE_32F_FAST_TF32;
  return CUBLAS_COMPUTE_32F;
}

BlasOperand blas_operand(const Call& call, DType dtype, int64_t batch, const Matrix& m) {
  if (columns_fit(m)) return {m, CUBLAS_OP_N, leading(m.col_stride, m.cols, m.rows), {}};
  if (columns_fit(transposed(m)))
    return {m, CUBLAS_OP_T, leading(m.row_stride, m.rows, m.cols), {}};
  return packed(call, dtype, batch, m);
}

namespace {

// c's columns lie side by side.
template <class C>
void blas_gemm(const Call& call, DType dtype, int64_t batch, C alpha, const Matrix& a,
               const Matrix& b, C beta, const Matrix& c) {
  const BlasOperand left = blas_operand(call, dtype, batch, a),
                    right = blas_operand(call, dtype, batch, b);
  const cudaDataType type = blas_type(dtype);
  const int m = static_cast<int>(c.rows), n = static_cast<int>(c.cols),
            k = static_cast<int>(a.cols), ldc = leading(c.col_stride, c.cols, c.rows);
  ensure(cublasGemmStridedBatchedEx(call.blas(), left.op, right.op, m, n, k, &alpha,
                                    left.matrix.data, type, left.leading, left.matrix.step,
                                    right.matrix.data, type, right.leading, right.matrix.step,
                                    &beta, c.data, type, ldc, c.step, static_cast<int>(batch),
                                    blas_compute_type(dtype), CUBLAS_GEMM_DEFAULT),
         call.op());
}

}  // namespace

Matrix matrix_of(const Tensor& t) {
  return {t.raw(),      t.size(-2),   t.size(-1),
          t.stride(-2), t.stride(-1), t.dim() > 2 ? t.stride(0) : 0};
}

Matrix transposed(const Matrix& m) {
  return {m.data, m.cols, m.rows, m.col_stride, m.row_stride, m.step};
}

void gemm(const Call& call, DType dtype, int64_t batch, const Scalar& alpha, const Matrix& a,
          const Matrix& b, const Scalar& beta, const Matrix& c) {
  if (batch == 0 || c.rows == 0 || c.cols == 0) return;
  if (gemm_skinny(call, dtype, batch, alpha, a, b, beta, {}, c)) return;
  const bool countable = std::max({c.rows, c.cols, a.cols, batch}) <= kMaxInt;
  const bool in_blas = is_floating(dtype) || is_complex(dtype);
  visit_device_compute<dtypes::real | dtypes::complex>(dtype, [&]<class C>() {
    const C factor = scalar_as<C>(alpha), keep = scalar_as<C>(beta);
    if constexpr (!std::is_same_v<C, int64_t>) {
      if (in_blas && countable && a.cols > 0) {
        if (columns_fit(c)) return blas_gemm<C>(call, dtype, batch, factor, a, b, keep, c);
        if (columns_fit(transposed(c)))
          return blas_gemm<C>(call, dtype, batch, factor, transposed(b), transposed(a), keep,
                              transposed(c));
      }
    }
    MOONLET_LAUNCH((product_kernel<C>), blocks_for(batch * c.rows * c.cols), kBlock, 0,
                   call.stream(), batch, dtype, factor, a, b, keep, c);
    call.done();
  });
}

}  // namespace moonlet::cuda

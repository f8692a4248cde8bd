// cuda/kernels/gemm.h: matrix products over any strides and dtype: cuBLAS where it has the type.
#pragma once

#include "cuda/runtime/device.h"

namespace moonlet::cuda {

// `batch` matrices in memory; strides in elements, `step` from one matrix to the next.
struct Matrix {
  char* data;
  int64_t rows, cols, row_stride, col_stride;
  int64_t step = 0;
};

// The last two dimensions of t; of three, the first is the batch.
Matrix matrix_of(const Tensor& t);
Matrix transposed(const Matrix& m);

// c = alpha a b + beta c for each of the batch. With beta 0, c is not read. `dtype` is any but
// bool; c has rows or columns side by side and overlaps neither a nor b.
void gemm(const Call& call, DType dtype, int64_t batch, const Scalar& alpha, const Matrix& a,
          const Matrix& b, const Scalar& beta, const Matrix& c);

// c = a b + bias, a row for each of c's, in one kernel: of few rows or columns by gemm_skinny, else
// by cuBLASLt. `c` is row-major, `bias` as long as its rows. False, with nothing done, where there
// is no way.
bool gemm_bias(const Call& call, DType dtype, const Matrix& a, const Matrix& b, const Tensor& bias,
               const Matrix& c);

// A bias that is added to a product: null, or with the strides along c's rows and columns.
struct SkinnyBias {
  const char* data = nullptr;
  int64_t row_stride = 0, col_stride = 0;
};
// c = alpha a b + beta c + bias where a has at most 8 rows or b at most 8 columns, their depth is
// at least 64 and the other matrix is dense along one side: it is read once. False, with nothing
// done, otherwise. Rounding depends neither on the settings of TF32 nor on where a matrix lies.
bool gemm_skinny(const Call& call, DType dtype, int64_t batch, const Scalar& alpha, const Matrix& a,
                 const Matrix& b, const Scalar& beta, const SkinnyBias& bias, const Matrix& c);

// The matrices of m one after another, each row-major; one where all are the same.
Tensor row_major(const Call& call, DType dtype, int64_t batch, const Matrix& m);

// A matrix as cuBLAS takes it: column-major, or transposed.
struct BlasOperand {
  Matrix matrix;
  cublasOperation_t op = CUBLAS_OP_N;
  int leading = 1;
  Tensor copy;  // keeps packed elements alive
};
BlasOperand blas_operand(const Call& call, DType dtype, int64_t batch, const Matrix& m);
cudaDataType blas_type(DType t);
// What cuBLAS computes products of that dtype in.
cublasComputeType_t blas_compute_type(DType t);

}  // namespace moonlet::cuda

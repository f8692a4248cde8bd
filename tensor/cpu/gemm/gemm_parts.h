// tensor/cpu/gemm/gemm_parts.h: matrices in another dtype, for the products that are computed in
// one.
#pragma once

#include "tensor/cpu/gemm/gemm.h"

namespace moonlet::cpu {

// A dense matrix in the memory of `buffer`.
Matrix matrix_in(const Tensor& buffer, int64_t rows, int64_t cols);

// Writes the elements of `from` over those of `to`, converted.
void convert_matrix(DType from_dtype, const Matrix& from, DType to_dtype, const Matrix& to);

// m in another dtype and dense, in memory that `buffer` keeps alive.
Matrix converted_matrix(DType from_dtype, const Matrix& m, DType to_dtype, Tensor& buffer);

// c = alpha a b + beta c for matrices of 16-bit floats, or of integers; none is empty.
void half_gemm(DType dtype, const Scalar& alpha, const Matrix& a, const Matrix& b,
               const Scalar& beta, const Matrix& c);
void integer_gemm(DType dtype, const Scalar& alpha, const Matrix& a, const Matrix& b,
                  const Scalar& beta, const Matrix& c);

}  // namespace moonlet::cpu

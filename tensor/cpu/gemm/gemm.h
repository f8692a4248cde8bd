// tensor/cpu/gemm/gemm.h: matrix products over any strides and dtype, on BLAS where it has the
// type.
#pragma once

#include "tensor/core/scalar.h"
#include "tensor/core/tensor.h"

namespace moonlet::cpu {

// A matrix in memory; strides in elements.
struct Matrix {
  char* data;
  int64_t rows, cols, row_stride, col_stride;
};

// The last two dimensions of t, the others fixed at their first element.
Matrix matrix_of(const Tensor& t);
Matrix transposed(const Matrix& m);

// c = alpha a b + beta c. With beta 0, c is not read. `dtype` is any but bool; the matrices are of
// it and c overlaps neither a nor b.
void gemm(DType dtype, const Scalar& alpha, const Matrix& a, const Matrix& b, const Scalar& beta,
          const Matrix& c);

}  // namespace moonlet::cpu

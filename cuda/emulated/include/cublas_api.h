// cuda/emulated/include/cublas_api.h: cuBLAS's batched factorizations and triangular solvers, by
// the host's LAPACK and BLAS. Arrays of pointers, and what they point to, must lie in device
// memory.
#pragma once

#include "cublas_v2.h"

enum cublasFillMode_t { CUBLAS_FILL_MODE_LOWER = 0, CUBLAS_FILL_MODE_UPPER = 1 };
enum cublasDiagType_t { CUBLAS_DIAG_NON_UNIT = 0, CUBLAS_DIAG_UNIT = 1 };
enum cublasSideMode_t { CUBLAS_SIDE_LEFT = 0, CUBLAS_SIDE_RIGHT = 1 };

// getrsBatched's `info` is the host's.
#define MOONLET_EMULATED_BLAS_SOLVE(letter, type)                                                \
  cublasStatus_t cublas##letter##getrfBatched(cublasHandle_t handle, int n, type* const a[],     \
                                              int lda, int* pivots, int* info, int count);       \
  cublasStatus_t cublas##letter##getrsBatched(                                                   \
      cublasHandle_t handle, cublasOperation_t op, int n, int columns, const type* const lu[],   \
      int lda, const int* pivots, type* const b[], int ldb, int* info, int count);               \
  cublasStatus_t cublas##letter##trsm(cublasHandle_t handle, cublasSideMode_t side,              \
                                      cublasFillMode_t uplo, cublasOperation_t op,               \
                                      cublasDiagType_t diag, int m, int n, const type* alpha,    \
                                      const type* a, int lda, type* b, int ldb);                 \
  cublasStatus_t cublas##letter##trsmBatched(                                                    \
      cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t uplo, cublasOperation_t op, \
      cublasDiagType_t diag, int m, int n, const type* alpha, const type* const a[], int lda,    \
      type* const b[], int ldb, int count);
MOONLET_EMULATED_BLAS_SOLVE(S, float)
MOONLET_EMULATED_BLAS_SOLVE(D, double)
MOONLET_EMULATED_BLAS_SOLVE(C, cuComplex)
MOONLET_EMULATED_BLAS_SOLVE(Z, cuDoubleComplex)
#undef MOONLET_EMULATED_BLAS_SOLVE

namespace moonlet::emulated {
/// The stream of a handle, and whether the handle can be used now.
cublasStatus_t usable(cublasHandle_t handle, cudaStream_t* stream);
}  // namespace moonlet::emulated

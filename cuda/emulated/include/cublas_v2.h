// cuda/emulated/include/cublas_v2.h: the part of cuBLAS that the backend uses, answered by the
// host's BLAS. Column-major like cuBLAS. Matrices must lie in device memory; a host pointer is
// CUBLAS_STATUS_EXECUTION_FAILED and leaves cudaErrorIllegalAddress on the device.
#pragma once

#include <cstddef>

#include "cuComplex.h"
#include "cuda_runtime_api.h"
#include "library_types.h"

using cublasHandle_t = struct cublasContext*;

enum cublasStatus_t {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_ARCH_MISMATCH = 8,
  CUBLAS_STATUS_MAPPING_ERROR = 11,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_INTERNAL_ERROR = 14,
  CUBLAS_STATUS_NOT_SUPPORTED = 15,
};

enum cublasOperation_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1, CUBLAS_OP_C = 2 };

enum cublasPointerMode_t { CUBLAS_POINTER_MODE_HOST = 0, CUBLAS_POINTER_MODE_DEVICE = 1 };

enum cublasMath_t {
  CUBLAS_DEFAULT_MATH = 0,
  CUBLAS_TENSOR_OP_MATH = 1,
  CUBLAS_PEDANTIC_MATH = 2,
  CUBLAS_TF32_TENSOR_OP_MATH = 3,
  CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16,
};

enum cublasComputeType_t {
  CUBLAS_COMPUTE_16F = 64,
  CUBLAS_COMPUTE_32F = 68,
  CUBLAS_COMPUTE_32F_PEDANTIC = 69,
  CUBLAS_COMPUTE_32F_FAST_16F = 74,
  CUBLAS_COMPUTE_32F_FAST_16BF = 75,
  CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
  CUBLAS_COMPUTE_64F = 70,
};

enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT = -1, CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99 };

cublasStatus_t cublasCreate(cublasHandle_t* handle);
cublasStatus_t cublasDestroy(cublasHandle_t handle);
cublasStatus_t cublasGetVersion(cublasHandle_t handle, int* version);
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasGetStream(cublasHandle_t handle, cudaStream_t* stream);
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void* workspace, std::size_t bytes);
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode);
cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode);
cublasStatus_t cublasSetPointerMode(cublasHandle_t handle, cublasPointerMode_t mode);
cublasStatus_t cublasGetPointerMode(cublasHandle_t handle, cublasPointerMode_t* mode);
const char* cublasGetStatusName(cublasStatus_t status);
const char* cublasGetStatusString(cublasStatus_t status);

/// C = alpha op(A) op(B) + beta C for any of the element types; A and B share one type, C is of
/// that type or, for half types, also CUDA_R_32F. Half types are summed in float32. `alpha` and
/// `beta` are of the compute type: float for half and float32 (and, paired, complex64), double
/// else.
cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                            int m, int n, int k, const void* alpha, const void* a,
                            cudaDataType a_type, int lda, const void* b, cudaDataType b_type,
                            int ldb, const void* beta, void* c, cudaDataType c_type, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t algorithm);

/// cublasGemmEx for `count` products whose matrices lie `stride` elements apart.
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t op_a,
                                          cublasOperation_t op_b, int m, int n, int k,
                                          const void* alpha, const void* a, cudaDataType a_type,
                                          int lda, long long stride_a, const void* b,
                                          cudaDataType b_type, int ldb, long long stride_b,
                                          const void* beta, void* c, cudaDataType c_type, int ldc,
                                          long long stride_c, int count,
                                          cublasComputeType_t compute, cublasGemmAlgo_t algorithm);

// gemm, gemmStridedBatched, gemmBatched (arrays of pointers in device memory) and gemv per type.
#define MOONLET_EMULATED_BLAS(letter, type)                                                       \
  cublasStatus_t cublas##letter##gemm(cublasHandle_t handle, cublasOperation_t op_a,              \
                                      cublasOperation_t op_b, int m, int n, int k,                \
                                      const type* alpha, const type* a, int lda, const type* b,   \
                                      int ldb, const type* beta, type* c, int ldc);               \
  cublasStatus_t cublas##letter##gemmStridedBatched(                                              \
      cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k, \
      const type* alpha, const type* a, int lda, long long stride_a, const type* b, int ldb,      \
      long long stride_b, const type* beta, type* c, int ldc, long long stride_c, int count);     \
  cublasStatus_t cublas##letter##gemmBatched(                                                     \
      cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k, \
      const type* alpha, const type* const a[], int lda, const type* const b[], int ldb,          \
      const type* beta, type* const c[], int ldc, int count);                                     \
  cublasStatus_t cublas##letter##gemv(cublasHandle_t handle, cublasOperation_t op, int m, int n,  \
                                      const type* alpha, const type* a, int lda, const type* x,   \
                                      int step_x, const type* beta, type* y, int step_y);
MOONLET_EMULATED_BLAS(S, float)
MOONLET_EMULATED_BLAS(D, double)
MOONLET_EMULATED_BLAS(C, cuComplex)
MOONLET_EMULATED_BLAS(Z, cuDoubleComplex)
#undef MOONLET_EMULATED_BLAS

namespace moonlet::emulated {
/// What calls that fail by the environment's word return (failures.h).
cublasStatus_t blas_failure();
}  // namespace moonlet::emulated

// Those of the calls that the backend makes.
#ifndef MOONLET_EMULATED_RUNTIME
#define MOONLET_BLAS_CALL(name, ...) \
  (::moonlet::emulated::fails(#name) ? ::moonlet::emulated::blas_failure() : name(__VA_ARGS__))
#define cublasCreate(...) MOONLET_BLAS_CALL(cublasCreate, __VA_ARGS__)
#define cublasDestroy(...) MOONLET_BLAS_CALL(cublasDestroy, __VA_ARGS__)
#define cublasSetStream(...) MOONLET_BLAS_CALL(cublasSetStream, __VA_ARGS__)
#define cublasSetWorkspace(...) MOONLET_BLAS_CALL(cublasSetWorkspace, __VA_ARGS__)
#define cublasSetMathMode(...) MOONLET_BLAS_CALL(cublasSetMathMode, __VA_ARGS__)
#define cublasGemmEx(...) MOONLET_BLAS_CALL(cublasGemmEx, __VA_ARGS__)
#define cublasGemmStridedBatchedEx(...) MOONLET_BLAS_CALL(cublasGemmStridedBatchedEx, __VA_ARGS__)
#endif

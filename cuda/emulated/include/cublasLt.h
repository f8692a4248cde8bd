// cuda/emulated/include/cublasLt.h: the part of cuBLASLt that the backend uses: a product with the
// bias of its rows added as it is written. Column-major; a handle is one of cuBLAS's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cublas_v2.h"

using cublasLtHandle_t = struct cublasLtContext*;
using cublasLtMatmulDesc_t = struct cublasLtMatmulDescription*;
using cublasLtMatrixLayout_t = struct cublasLtMatrixDescription*;
using cublasLtMatmulPreference_t = struct cublasLtMatmulWishes*;

struct cublasLtMatmulAlgo_t {
  std::uint64_t data[8];
};

struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  std::size_t workspaceSize;
  cublasStatus_t state;
  float wavesCount;
  int reserved[4];
};

enum cublasLtMatmulDescAttributes_t {
  CUBLASLT_MATMUL_DESC_TRANSA = 3,
  CUBLASLT_MATMUL_DESC_TRANSB = 4,
  CUBLASLT_MATMUL_DESC_EPILOGUE = 7,
  CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8,
};

enum cublasLtMatmulPreferenceAttributes_t {
  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8,
};

enum cublasLtEpilogue_t { CUBLASLT_EPILOGUE_DEFAULT = 1, CUBLASLT_EPILOGUE_BIAS = 4 };

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description,
                                        cublasComputeType_t compute, cudaDataType scale);
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description);
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes);

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t leading);
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout);

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference);
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference);
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes);

/// One algorithm for float32 and the half types with float32 sums, none for others. Half types want
/// matrices whose address and leading dimension are multiples of 16 bytes, so that what is written
/// for others is met here, too.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* found);

/// D = alpha op(A) op(B) + beta C + bias, where C is D.
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream);

#ifndef MOONLET_EMULATED_RUNTIME
#define cublasLtMatmulDescCreate(...) MOONLET_BLAS_CALL(cublasLtMatmulDescCreate, __VA_ARGS__)
#define cublasLtMatmulDescSetAttribute(...) \
  MOONLET_BLAS_CALL(cublasLtMatmulDescSetAttribute, __VA_ARGS__)
#define cublasLtMatrixLayoutCreate(...) MOONLET_BLAS_CALL(cublasLtMatrixLayoutCreate, __VA_ARGS__)
#define cublasLtMatmulPreferenceCreate(...) \
  MOONLET_BLAS_CALL(cublasLtMatmulPreferenceCreate, __VA_ARGS__)
#define cublasLtMatmulPreferenceSetAttribute(...) \
  MOONLET_BLAS_CALL(cublasLtMatmulPreferenceSetAttribute, __VA_ARGS__)
#define cublasLtMatmulAlgoGetHeuristic(...) \
  MOONLET_BLAS_CALL(cublasLtMatmulAlgoGetHeuristic, __VA_ARGS__)
#define cublasLtMatmul(...) MOONLET_BLAS_CALL(cublasLtMatmul, __VA_ARGS__)
#endif

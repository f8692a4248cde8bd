// cuda/emulated/cublaslt.cpp: cuBLASLt's product with a bias: the bias goes first to where the
// product is then added.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "cublasLt.h"
#include "queue.h"
#include "state.h"

struct cublasLtMatmulDescription {
  cublasComputeType_t compute;
  cublasOperation_t op_a = CUBLAS_OP_N, op_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
};

struct cublasLtMatrixDescription {
  cudaDataType type;
  int rows, columns, leading;
};

struct cublasLtMatmulWishes {
  std::size_t workspace = 0;
  std::uint32_t alignment = 256;  // the least of all matrices
};

using namespace moonlet::emulated;

namespace {

/// Bytes of the types that can have a bias, 0 of others.
unsigned bytes_of(cudaDataType type) {
  return type == CUDA_R_32F ? 4 : type == CUDA_R_16F || type == CUDA_R_16BF ? 2 : 0;
}

template <class T, class Make>
cublasStatus_t create(T** out, Make&& make) {
  if (!out) return CUBLAS_STATUS_INVALID_VALUE;
  *out = make();
  return *out ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

template <class T>
cublasStatus_t assign(T& to, const void* value, std::size_t bytes) {
  if (!value || bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, value, sizeof(T));
  return CUBLAS_STATUS_SUCCESS;
}

/// Up to what a load of a vector takes. None is what an unknown pointer will have.
std::uint64_t alignment(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer) | 16;
  return address & (0 - address);
}

/// Whether MOONLET_EMULATED_CUBLASLT is that word: "refuses" to look for an algorithm, or "fails"
/// to run the one that it found.
bool says(const char* word) {
  const char* value = std::getenv("MOONLET_EMULATED_CUBLASLT");
  return value && std::strcmp(value, word) == 0;
}

/// Copies a bias of `rows` elements to every column.
void spread_bias(const char* bias, char* to, int rows, int columns, int leading, unsigned bytes) {
  const std::size_t column = static_cast<std::size_t>(rows) * bytes;
  for (int j = 0; j < columns; ++j)
    std::memcpy(to + static_cast<std::size_t>(j) * static_cast<unsigned>(leading) * bytes, bias,
                column);
}

bool supported(const cublasLtMatmulDescription& d, const cublasLtMatrixDescription& a,
               const cublasLtMatrixDescription& b, const cublasLtMatrixDescription& c) {
  return a.type == b.type && a.type == c.type && bytes_of(a.type) > 0 &&
         d.compute != CUBLAS_COMPUTE_64F && d.compute != CUBLAS_COMPUTE_16F;
}

}  // namespace

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description,
                                        cublasComputeType_t compute, cudaDataType scale) {
  if (scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  return create(description,
                [&] { return new (std::nothrow) cublasLtMatmulDescription{.compute = compute}; });
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete description;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  if (!description) return CUBLAS_STATUS_INVALID_VALUE;
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return assign(description->op_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return assign(description->op_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return assign(description->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return assign(description->bias, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t leading) {
  if (rows > INT32_MAX || columns > INT32_MAX || leading > INT32_MAX || leading < 1)
    return CUBLAS_STATUS_INVALID_VALUE;
  return create(layout, [&] {
    return new (std::nothrow) cublasLtMatrixDescription{
        type, static_cast<int>(rows), static_cast<int>(columns), static_cast<int>(leading)};
  });
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return create(preference, [] { return new (std::nothrow) cublasLtMatmulWishes; });
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  if (!preference) return CUBLAS_STATUS_INVALID_VALUE;
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
    return assign(preference->workspace, value, bytes);
  std::uint32_t alignment = 0;
  const cublasStatus_t status = assign(alignment, value, bytes);
  if (status == CUBLAS_STATUS_SUCCESS)
    preference->alignment = std::min(preference->alignment, alignment);
  return status;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  if (!handle || !description || !a || !b || !c || !d || !preference || wanted < 1 || !results ||
      !found) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  *found = 0;
  const bool whole = a->leading % 8 == 0 && b->leading % 8 == 0 && c->leading % 8 == 0;
  const bool fits = a->type == CUDA_R_32F || (preference->alignment >= 16 && whole);
  if (!fits || !supported(*description, *a, *b, *c)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (says("refuses")) return CUBLAS_STATUS_INVALID_VALUE;
  results[0] = {};
  // An algorithm for a bias that is aligned as the one at hand.
  results[0].algo.data[0] = alignment(description->bias);
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void*, std::size_t,
                              cudaStream_t stream) {
  if (!handle || !description || !a_layout || !b_layout || !c_layout || !d_layout || c != d)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!supported(*description, *a_layout, *b_layout, *c_layout)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (says("fails")) return CUBLAS_STATUS_NOT_SUPPORTED;
  const int m = d_layout->rows, n = d_layout->columns;
  const int k = description->op_a == CUBLAS_OP_N ? a_layout->columns : a_layout->rows;
  float keep = *static_cast<const float*>(beta);
  if (description->epilogue == CUBLASLT_EPILOGUE_BIAS) {
    const unsigned bytes = bytes_of(d_layout->type);
    if (keep != 0 || !description->bias) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (owner(description->bias, static_cast<std::size_t>(m) * bytes) < 0) {
      set_sticky(cudaErrorIllegalAddress, "cuBLASLt was given a bias outside device memory");
      return CUBLAS_STATUS_EXECUTION_FAILED;
    }
    if (algorithm && algorithm->data[0] > alignment(description->bias)) {
      set_sticky(cudaErrorMisalignedAddress, "cuBLASLt was told of a bias that is better aligned");
      return CUBLAS_STATUS_EXECUTION_FAILED;
    }
    enqueue(stream,
            [=, bias = static_cast<const char*>(description->bias), leading = d_layout->leading] {
              spread_bias(bias, static_cast<char*>(d), m, n, leading, bytes);
            });
    keep = 1;
  }
  const auto blas = reinterpret_cast<cublasHandle_t>(handle);
  if (const cublasStatus_t status = cublasSetStream(blas, stream)) return status;
  return cublasGemmEx(blas, description->op_a, description->op_b, m, n, k, alpha, a, a_layout->type,
                      a_layout->leading, b, b_layout->type, b_layout->leading, &keep, d,
                      d_layout->type, d_layout->leading, description->compute, CUBLAS_GEMM_DEFAULT);
}

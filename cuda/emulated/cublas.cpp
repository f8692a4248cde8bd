// cuda/emulated/cublas.cpp: cuBLAS over the host's CBLAS; half types go through float32.
#include "cublas_api.h"

#include <cblas.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include "checks.h"
#include "half.h"
#include "queue.h"
#include "state.h"

struct cublasContext {
  cudaStream_t stream = nullptr;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
  cublasPointerMode_t pointers = CUBLAS_POINTER_MODE_HOST;
};

using namespace moonlet::emulated;

namespace {

CBLAS_TRANSPOSE transpose(cublasOperation_t op) {
  return op == CUBLAS_OP_N ? CblasNoTrans : op == CUBLAS_OP_T ? CblasTrans : CblasConjTrans;
}

/// The sizes of one product. Matrices are column-major: op(A) is m x k, op(B) k x n, C m x n.
struct Shape {
  cublasOperation_t op_a, op_b;
  int m, n, k, lda, ldb, ldc;

  int rows_a() const { return op_a == CUBLAS_OP_N ? m : k; }
  int rows_b() const { return op_b == CUBLAS_OP_N ? k : n; }
  int columns_a() const { return op_a == CUBLAS_OP_N ? k : m; }
  int columns_b() const { return op_b == CUBLAS_OP_N ? n : k; }
  bool sound() const {
    return m >= 0 && n >= 0 && k >= 0 && lda >= std::max(1, rows_a()) &&
           ldb >= std::max(1, rows_b()) && ldc >= std::max(1, m) && op_a >= CUBLAS_OP_N &&
           op_a <= CUBLAS_OP_C && op_b >= CUBLAS_OP_N && op_b <= CUBLAS_OP_C;
  }
};

cublasStatus_t illegal_address() {
  set_sticky(cudaErrorIllegalAddress, "cuBLAS was given memory outside every device allocation");
  return CUBLAS_STATUS_EXECUTION_FAILED;
}

cublasStatus_t ready(cublasHandle_t handle) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (device_error()) return CUBLAS_STATUS_EXECUTION_FAILED;
  return valid_stream(handle->stream) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

// With alpha 0 the factors are not read, not even NaN; OpenBLAS's kernels for small matrices do.
template <class T>
int depth(const Shape& s, const T& alpha) {
  return alpha == T(0) ? 0 : s.k;
}
int depth(const Shape& s, const cuComplex& alpha) { return alpha.x == 0 && alpha.y == 0 ? 0 : s.k; }
int depth(const Shape& s, const cuDoubleComplex& alpha) {
  return alpha.x == 0 && alpha.y == 0 ? 0 : s.k;
}

// One product on memory that is known to be sound.
void multiply(const Shape& s, const float* alpha, const float* a, const float* b, const float* beta,
              float* c) {
  cblas_sgemm(CblasColMajor, transpose(s.op_a), transpose(s.op_b), s.m, s.n, depth(s, *alpha),
              *alpha, a, s.lda, b, s.ldb, *beta, c, s.ldc);
}
void multiply(const Shape& s, const double* alpha, const double* a, const double* b,
              const double* beta, double* c) {
  cblas_dgemm(CblasColMajor, transpose(s.op_a), transpose(s.op_b), s.m, s.n, depth(s, *alpha),
              *alpha, a, s.lda, b, s.ldb, *beta, c, s.ldc);
}
void multiply(const Shape& s, const cuComplex* alpha, const cuComplex* a, const cuComplex* b,
              const cuComplex* beta, cuComplex* c) {
  cblas_cgemm(CblasColMajor, transpose(s.op_a), transpose(s.op_b), s.m, s.n, depth(s, *alpha),
              alpha, a, s.lda, b, s.ldb, beta, c, s.ldc);
}
void multiply(const Shape& s, const cuDoubleComplex* alpha, const cuDoubleComplex* a,
              const cuDoubleComplex* b, const cuDoubleComplex* beta, cuDoubleComplex* c) {
  cblas_zgemm(CblasColMajor, transpose(s.op_a), transpose(s.op_b), s.m, s.n, depth(s, *alpha),
              alpha, a, s.lda, b, s.ldb, beta, c, s.ldc);
}

void multiply_vector(cublasOperation_t op, int m, int n, const float* alpha, const float* a,
                     int lda, const float* x, int step_x, const float* beta, float* y, int step_y) {
  cblas_sgemv(CblasColMajor, transpose(op), m, n, *alpha, a, lda, x, step_x, *beta, y, step_y);
}
void multiply_vector(cublasOperation_t op, int m, int n, const double* alpha, const double* a,
                     int lda, const double* x, int step_x, const double* beta, double* y,
                     int step_y) {
  cblas_dgemv(CblasColMajor, transpose(op), m, n, *alpha, a, lda, x, step_x, *beta, y, step_y);
}
void multiply_vector(cublasOperation_t op, int m, int n, const cuComplex* alpha, const cuComplex* a,
                     int lda, const cuComplex* x, int step_x, const cuComplex* beta, cuComplex* y,
                     int step_y) {
  cblas_cgemv(CblasColMajor, transpose(op), m, n, alpha, a, lda, x, step_x, beta, y, step_y);
}
void multiply_vector(cublasOperation_t op, int m, int n, const cuDoubleComplex* alpha,
                     const cuDoubleComplex* a, int lda, const cuDoubleComplex* x, int step_x,
                     const cuDoubleComplex* beta, cuDoubleComplex* y, int step_y) {
  cblas_zgemv(CblasColMajor, transpose(op), m, n, alpha, a, lda, x, step_x, beta, y, step_y);
}

template <class T>
cublasStatus_t gemm(cublasHandle_t handle, const Shape& s, const T* alpha, const T* a, const T* b,
                    const T* beta, T* c) {
  if (const cublasStatus_t status = ready(handle)) return status;
  if (!s.sound() || !alpha || !beta) return CUBLAS_STATUS_INVALID_VALUE;
  if (s.m == 0 || s.n == 0) return CUBLAS_STATUS_SUCCESS;
  if (!on_device(a, span(s.rows_a(), s.columns_a(), s.lda) * sizeof(T)) ||
      !on_device(b, span(s.rows_b(), s.columns_b(), s.ldb) * sizeof(T)) ||
      !on_device(c, span(s.m, s.n, s.ldc) * sizeof(T))) {
    return illegal_address();
  }
  enqueue(handle->stream, [=, by = *alpha, and_by = *beta] { multiply(s, &by, a, b, &and_by, c); });
  return CUBLAS_STATUS_SUCCESS;
}

/// A product of each of `count` matrices whose positions are on the device.
template <class T>
cublasStatus_t gemm_batched(cublasHandle_t handle, const Shape& s, const T* alpha,
                            const T* const a[], const T* const b[], const T* beta, T* const c[],
                            int count) {
  if (const cublasStatus_t status = ready(handle)) return status;
  if (count < 0 || !s.sound() || !alpha || !beta) return CUBLAS_STATUS_INVALID_VALUE;
  const auto bytes = static_cast<std::size_t>(count) * sizeof(void*);
  if (!on_device(a, bytes) || !on_device(b, bytes) || !on_device(c, bytes)) {
    return illegal_address();
  }
  if (s.m == 0 || s.n == 0) return CUBLAS_STATUS_SUCCESS;
  enqueue(handle->stream, [=, by = *alpha, and_by = *beta] {
    for (int i = 0; i < count; ++i) {
      if (!on_device(a[i], span(s.rows_a(), s.columns_a(), s.lda) * sizeof(T)) ||
          !on_device(b[i], span(s.rows_b(), s.columns_b(), s.ldb) * sizeof(T)) ||
          !on_device(c[i], span(s.m, s.n, s.ldc) * sizeof(T))) {
        illegal_address();
        return;
      }
      multiply(s, &by, a[i], b[i], &and_by, c[i]);
    }
  });
  return device_error() ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t gemv(cublasHandle_t handle, cublasOperation_t op, int m, int n, const T* alpha,
                    const T* a, int lda, const T* x, int step_x, const T* beta, T* y, int step_y) {
  if (const cublasStatus_t status = ready(handle)) return status;
  if (m < 0 || n < 0 || lda < std::max(1, m) || step_x == 0 || step_y == 0 || !alpha || !beta) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const int nx = op == CUBLAS_OP_N ? n : m, ny = op == CUBLAS_OP_N ? m : n;
  if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;
  if (!on_device(a, span(m, n, lda) * sizeof(T)) ||
      !on_device(x, span(1, nx, std::abs(step_x)) * sizeof(T)) ||
      !on_device(y, span(1, ny, std::abs(step_y)) * sizeof(T))) {
    return illegal_address();
  }
  enqueue(handle->stream, [=, by = *alpha, and_by = *beta] {
    multiply_vector(op, m, n, &by, a, lda, x, step_x, &and_by, y, step_y);
  });
  return CUBLAS_STATUS_SUCCESS;
}

// Half types
// ----------------------------------------------------------------------------------------

bool is_half(cudaDataType type) { return type == CUDA_R_16F || type == CUDA_R_16BF; }

/// A column-major half matrix as a dense float32 one of the same columns.
std::unique_ptr<float[]> widen(const void* from, cudaDataType type, int rows, int columns,
                               int step) {
  auto wide =
      std::make_unique<float[]>(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns));
  const auto* half = static_cast<const std::uint16_t*>(from);
  float* to = wide.get();
  for (int j = 0; j < columns; ++j) {
    const std::uint16_t* column = half + static_cast<std::size_t>(j) * static_cast<unsigned>(step);
    for (int i = 0; i < rows; ++i) {
      *to++ = type == CUDA_R_16F ? from_f16(column[i]) : from_bf16(column[i]);
    }
  }
  return wide;
}

void narrow(const float* from, void* to, cudaDataType type, int rows, int columns, int step) {
  auto* half = static_cast<std::uint16_t*>(to);
  for (int j = 0; j < columns; ++j) {
    std::uint16_t* column = half + static_cast<std::size_t>(j) * static_cast<unsigned>(step);
    for (int i = 0; i < rows; ++i, ++from) {
      column[i] = type == CUDA_R_16F ? to_f16(*from) : to_bf16(*from);
    }
  }
}

/// One product on memory that is known to be sound.
void multiply_half(const Shape& s, float alpha, const void* a, const void* b, cudaDataType type,
                   float beta, void* c, cudaDataType c_type) {
  const auto wide_a = widen(a, type, s.rows_a(), s.columns_a(), s.lda);
  const auto wide_b = widen(b, type, s.rows_b(), s.columns_b(), s.ldb);
  Shape dense = s;
  dense.lda = std::max(1, s.rows_a());
  dense.ldb = std::max(1, s.rows_b());
  if (c_type == CUDA_R_32F) {
    multiply(dense, &alpha, wide_a.get(), wide_b.get(), &beta, static_cast<float*>(c));
    return;
  }
  dense.ldc = s.m;
  const auto wide_c = widen(c, c_type, s.m, s.n, s.ldc);
  multiply(dense, &alpha, wide_a.get(), wide_b.get(), &beta, wide_c.get());
  narrow(wide_c.get(), c, c_type, s.m, s.n, s.ldc);
}

cublasStatus_t gemm_half(cublasHandle_t handle, const Shape& s, const float* alpha, const void* a,
                         const void* b, cudaDataType type, const float* beta, void* c,
                         cudaDataType c_type) {
  if (const cublasStatus_t status = ready(handle)) return status;
  if (!s.sound() || !alpha || !beta) return CUBLAS_STATUS_INVALID_VALUE;
  if (s.m == 0 || s.n == 0) return CUBLAS_STATUS_SUCCESS;
  const std::size_t c_bytes = c_type == CUDA_R_32F ? 4 : 2;
  if (!on_device(a, span(s.rows_a(), s.columns_a(), s.lda) * 2) ||
      !on_device(b, span(s.rows_b(), s.columns_b(), s.ldb) * 2) ||
      !on_device(c, span(s.m, s.n, s.ldc) * c_bytes)) {
    return illegal_address();
  }
  enqueue(handle->stream, [=, by = *alpha, and_by = *beta] {
    multiply_half(s, by, a, b, type, and_by, c, c_type);
  });
  return CUBLAS_STATUS_SUCCESS;
}

std::size_t bytes_of(cudaDataType type) {
  switch (type) {
    case CUDA_R_16F:
    case CUDA_R_16BF: return 2;
    case CUDA_R_32F: return 4;
    case CUDA_R_64F:
    case CUDA_C_32F: return 8;
    case CUDA_C_64F: return 16;
    default: return 0;
  }
}

bool computes(cudaDataType type, cublasComputeType_t compute) {
  const bool wide = type == CUDA_R_64F || type == CUDA_C_64F;
  if (compute == CUBLAS_COMPUTE_16F) return false;
  return wide == (compute == CUBLAS_COMPUTE_64F);
}

}  // namespace

cublasStatus_t moonlet::emulated::usable(cublasHandle_t handle, cudaStream_t* stream) {
  const cublasStatus_t status = ready(handle);
  if (!status) *stream = handle->stream;
  return status;
}

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
  if (device_error()) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = new (std::nothrow) cublasContext;
  return *handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetVersion(cublasHandle_t, int* version) {
  if (!version) return CUBLAS_STATUS_INVALID_VALUE;
  *version = CUDART_VERSION * 10;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetStream(cublasHandle_t handle, cudaStream_t* stream) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  *stream = handle->stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void*, std::size_t) {
  return handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->math = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  *mode = handle->math;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetPointerMode(cublasHandle_t handle, cublasPointerMode_t mode) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->pointers = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetPointerMode(cublasHandle_t handle, cublasPointerMode_t* mode) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  *mode = handle->pointers;
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH: return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_MAPPING_ERROR: return "CUBLAS_STATUS_MAPPING_ERROR";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR: return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "CUBLAS_STATUS_UNKNOWN";
}

const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "the library was not initialized";
    case CUBLAS_STATUS_ALLOC_FAILED: return "the resource allocation failed";
    case CUBLAS_STATUS_INVALID_VALUE: return "an unsupported value or parameter was passed";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "the function failed to launch on the GPU";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "the functionality requested is not supported";
    default: return "an internal operation failed";
  }
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                            int m, int n, int k, const void* alpha, const void* a,
                            cudaDataType a_type, int lda, const void* b, cudaDataType b_type,
                            int ldb, const void* beta, void* c, cudaDataType c_type, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t) {
  const Shape s{op_a, op_b, m, n, k, lda, ldb, ldc};
  const bool same = c_type == a_type || (is_half(a_type) && c_type == CUDA_R_32F);
  if (a_type != b_type || !same || !computes(a_type, compute)) return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto typed = [&]<class T>(const T* scale) {
    return gemm(handle, s, scale, static_cast<const T*>(a), static_cast<const T*>(b),
                static_cast<const T*>(beta), static_cast<T*>(c));
  };
  switch (a_type) {
    case CUDA_R_32F: return typed(static_cast<const float*>(alpha));
    case CUDA_R_64F: return typed(static_cast<const double*>(alpha));
    case CUDA_C_32F: return typed(static_cast<const cuComplex*>(alpha));
    case CUDA_C_64F: return typed(static_cast<const cuDoubleComplex*>(alpha));
    case CUDA_R_16F:
    case CUDA_R_16BF:
      return gemm_half(handle, s, static_cast<const float*>(alpha), a, b, a_type,
                       static_cast<const float*>(beta), c, c_type);
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t op_a,
                                          cublasOperation_t op_b, int m, int n, int k,
                                          const void* alpha, const void* a, cudaDataType a_type,
                                          int lda, long long stride_a, const void* b,
                                          cudaDataType b_type, int ldb, long long stride_b,
                                          const void* beta, void* c, cudaDataType c_type, int ldc,
                                          long long stride_c, int count,
                                          cublasComputeType_t compute, cublasGemmAlgo_t algorithm) {
  if (count < 0) return CUBLAS_STATUS_INVALID_VALUE;
  const auto step = [](cudaDataType type, long long stride) {
    return stride * static_cast<long long>(bytes_of(type));
  };
  for (int i = 0; i < count; ++i) {
    const cublasStatus_t status = cublasGemmEx(
        handle, op_a, op_b, m, n, k, alpha,
        static_cast<const char*>(a) + i * step(a_type, stride_a), a_type, lda,
        static_cast<const char*>(b) + i * step(b_type, stride_b), b_type, ldb, beta,
        static_cast<char*>(c) + i * step(c_type, stride_c), c_type, ldc, compute, algorithm);
    if (status) return status;
  }
  return CUBLAS_STATUS_SUCCESS;
}

#define MOONLET_EMULATED_BLAS(letter, type)                                                       \
  cublasStatus_t cublas##letter##gemm(cublasHandle_t handle, cublasOperation_t op_a,              \
                                      cublasOperation_t op_b, int m, int n, int k,                \
                                      const type* alpha, const type* a, int lda, const type* b,   \
                                      int ldb, const type* beta, type* c, int ldc) {              \
    return gemm(handle, {op_a, op_b, m, n, k, lda, ldb, ldc}, alpha, a, b, beta, c);              \
  }                                                                                               \
  cublasStatus_t cublas##letter##gemmStridedBatched(                                              \
      cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k, \
      const type* alpha, const type* a, int lda, long long stride_a, const type* b, int ldb,      \
      long long stride_b, const type* beta, type* c, int ldc, long long stride_c, int count) {    \
    cublasStatus_t status = count < 0 ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;      \
    for (int i = 0; i < count && !status; ++i) {                                                  \
      status = gemm(handle, {op_a, op_b, m, n, k, lda, ldb, ldc}, alpha, a + i * stride_a,        \
                    b + i * stride_b, beta, c + i * stride_c);                                    \
    }                                                                                             \
    return status;                                                                                \
  }                                                                                               \
  cublasStatus_t cublas##letter##gemmBatched(                                                     \
      cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k, \
      const type* alpha, const type* const a[], int lda, const type* const b[], int ldb,          \
      const type* beta, type* const c[], int ldc, int count) {                                    \
    return gemm_batched(handle, {op_a, op_b, m, n, k, lda, ldb, ldc}, alpha, a, b, beta, c,       \
                        count);                                                                   \
  }                                                                                               \
  cublasStatus_t cublas##letter##gemv(cublasHandle_t handle, cublasOperation_t op, int m, int n,  \
                                      const type* alpha, const type* a, int lda, const type* x,   \
                                      int step_x, const type* beta, type* y, int step_y) {        \
    return gemv(handle, op, m, n, alpha, a, lda, x, step_x, beta, y, step_y);                     \
  }
MOONLET_EMULATED_BLAS(S, float)
MOONLET_EMULATED_BLAS(D, double)
MOONLET_EMULATED_BLAS(C, cuComplex)
MOONLET_EMULATED_BLAS(Z, cuDoubleComplex)
#undef MOONLET_EMULATED_BLAS

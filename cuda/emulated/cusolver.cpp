// cuda/emulated/cusolver.cpp: cuSOLVER over the host's LAPACK. Workspaces are written over, so that
// one which is too short or shared by mistake shows.
#include "cusolverDn.h"

#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

#include "checks.h"
#include "lapack_calls.h"
#include "queue.h"

struct cusolverDnContext {
  cudaStream_t stream = nullptr;
};
struct cusolverDnParams {};
struct gesvdjInfo {};

using namespace moonlet::emulated;

namespace {

cusolverStatus_t illegal_address() {
  set_sticky(cudaErrorIllegalAddress, "cuSOLVER was given memory outside every device allocation");
  return CUSOLVER_STATUS_EXECUTION_FAILED;
}

/// What a call that fails by the environment's word returns.
cusolverStatus_t injected() {
  switch (blas_failure()) {
    case CUBLAS_STATUS_ALLOC_FAILED: return CUSOLVER_STATUS_ALLOC_FAILED;
    case CUBLAS_STATUS_INVALID_VALUE: return CUSOLVER_STATUS_INVALID_VALUE;
    default: return CUSOLVER_STATUS_EXECUTION_FAILED;
  }
}

cusolverStatus_t ready(const char* call, cusolverDnHandle_t handle) {
  if (fails(call)) return injected();
  if (!handle) return CUSOLVER_STATUS_NOT_INITIALIZED;
  if (device_error()) return CUSOLVER_STATUS_EXECUTION_FAILED;
  return valid_stream(handle->stream) ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_EXECUTION_FAILED;
}

bool is_complex(cudaDataType t) { return t == CUDA_C_32F || t == CUDA_C_64F; }
bool is_known(cudaDataType t) { return t == CUDA_R_32F || t == CUDA_R_64F || is_complex(t); }
cudaDataType real_of(cudaDataType t) {
  return t == CUDA_C_32F ? CUDA_R_32F : t == CUDA_C_64F ? CUDA_R_64F : t;
}
std::size_t width(cudaDataType t) { return t == CUDA_R_32F ? 4 : t == CUDA_C_64F ? 16 : 8; }

/// f(null pointer of the type).
template <class F>
void visit(cudaDataType t, const F& f) {
  switch (t) {
    case CUDA_R_32F: return f(static_cast<float*>(nullptr));
    case CUDA_R_64F: return f(static_cast<double*>(nullptr));
    case CUDA_C_32F: return f(static_cast<cuComplex*>(nullptr));
    default: return f(static_cast<cuDoubleComplex*>(nullptr));
  }
}

/// The workspaces that a call asks for: any sizes that tell calls apart.
struct Wanted {
  std::size_t device, host;
};
Wanted wanted(int64_t m, int64_t n, cudaDataType t) {
  return {static_cast<std::size_t>(m + 2 * n + 7) * width(t), static_cast<std::size_t>(n) + 3};
}

struct Workspaces {
  void* device;
  std::size_t device_bytes;
  void* host;
  std::size_t host_bytes;

  bool enough(const Wanted& w) const {
    return device_bytes >= w.device && host_bytes >= w.host && device && host;
  }
  bool in_memory() const { return on_device(device, device_bytes); }
  void use() const {
    if (device_bytes) std::memset(device, 0xa5, device_bytes);
  }
};

cusolverStatus_t sizes(const char* call, cusolverDnHandle_t handle, cusolverDnParams_t params,
                       int64_t m, int64_t n, int64_t lda, cudaDataType type, cudaDataType compute,
                       std::size_t* device, std::size_t* host) {
  if (const cusolverStatus_t status = ready(call, handle)) return status;
  if (!params || m < 0 || n < 0 || lda < std::max<int64_t>(1, m) || !is_known(type) ||
      type != compute || !device || !host)
    return CUSOLVER_STATUS_INVALID_VALUE;
  const Wanted w = wanted(m, n, type);
  *device = w.device;
  *host = w.host;
  return CUSOLVER_STATUS_SUCCESS;
}

/// What all factorizations check: a matrix, workspaces, info.
cusolverStatus_t sound(const char* call, cusolverDnHandle_t handle, cusolverDnParams_t params,
                       int64_t m, int64_t n, const void* a, int64_t lda, cudaDataType type,
                       cudaDataType compute, const Workspaces& workspaces, const int* info) {
  if (const cusolverStatus_t status = ready(call, handle)) return status;
  if (!params || m < 0 || n < 0 || lda < std::max<int64_t>(1, m) || !is_known(type) ||
      type != compute || !workspaces.enough(wanted(m, n, type)))
    return CUSOLVER_STATUS_INVALID_VALUE;
  if (!on_device(a, span(m, n, lda) * width(type)) || !workspaces.in_memory() ||
      !on_device(info, sizeof(int)))
    return illegal_address();
  return CUSOLVER_STATUS_SUCCESS;
}

char letter(cublasFillMode_t uplo) { return uplo == CUBLAS_FILL_MODE_UPPER ? 'U' : 'L'; }
int as_int(int64_t n) { return static_cast<int>(n); }

template <class T>
cusolverStatus_t potrf_batched(const char* call, cusolverDnHandle_t handle, cublasFillMode_t uplo,
                               int n, T* const a[], int lda, int* info, int count) {
  if (const cusolverStatus_t status = ready(call, handle)) return status;
  if (n < 0 || count < 0 || lda < std::max(1, n)) return CUSOLVER_STATUS_INVALID_VALUE;
  const auto entries = static_cast<std::size_t>(count);
  if (!on_device(a, entries * sizeof(T*)) || !on_device(info, entries * sizeof(int)))
    return illegal_address();
  enqueue(handle->stream, [=] {
    for (int i = 0; i < count; ++i) {
      if (!on_device(a[i], span(n, n, lda) * sizeof(T))) return void(illegal_address());
      info[i] = lapack::potrf(letter(uplo), n, a[i], lda);
    }
  });
  return CUSOLVER_STATUS_SUCCESS;
}

template <class T>
T conjugated(T x) {
  return x;
}
inline cuComplex conjugated(cuComplex x) { return {x.x, -x.y}; }
inline cuDoubleComplex conjugated(cuDoubleComplex x) { return {x.x, -x.y}; }

// As the real one: up to 32 rows and columns, all vectors, and V instead of its adjoint.
cusolverStatus_t gesvdj_sizes(const char* call, cusolverDnHandle_t handle, int m, int n, int* size,
                              gesvdjInfo_t params, int count) {
  if (const cusolverStatus_t status = ready(call, handle)) return status;
  if (m < 1 || n < 1 || m > 32 || n > 32 || count < 1 || !size || !params)
    return CUSOLVER_STATUS_INVALID_VALUE;
  *size = m + n + count;
  return CUSOLVER_STATUS_SUCCESS;
}

template <class T>
cusolverStatus_t gesvdj(const char* call, cusolverDnHandle_t handle, cusolverEigMode_t mode, int m,
                        int n, T* a, int lda, lapack::real_t<T>* s, T* u, int ldu, T* v, int ldv,
                        T* work, int size, int* info, gesvdjInfo_t params, int count) {
  int least = 0;
  if (const cusolverStatus_t status = gesvdj_sizes(call, handle, m, n, &least, params, count))
    return status;
  if (lda < m || ldu < m || ldv < n || size < least) return CUSOLVER_STATUS_INVALID_VALUE;
  const auto entries = static_cast<std::size_t>(count);
  const auto bytes = [&](int rows, int columns) {
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns) * entries * sizeof(T);
  };
  const int k = std::min(m, n);
  if (!on_device(a, bytes(lda, n)) || !on_device(u, bytes(ldu, m)) ||
      !on_device(v, bytes(ldv, n)) || !on_device(info, entries * sizeof(int)) ||
      !on_device(s, entries * static_cast<std::size_t>(k) * sizeof(lapack::real_t<T>)) ||
      !on_device(work, static_cast<std::size_t>(size) * sizeof(T)))
    return illegal_address();
  enqueue(handle->stream, [=] {
    std::memset(static_cast<void*>(work), 0xa5, static_cast<std::size_t>(size) * sizeof(T));
    std::vector<T> vh(static_cast<std::size_t>(n) * static_cast<std::size_t>(n));
    for (int i = 0; i < count; ++i) {
      info[i] = lapack::gesvd(mode == CUSOLVER_EIG_MODE_VECTOR ? 'A' : 'N', m, n, a + i * lda * n,
                              lda, s + i * k, u + i * ldu * m, ldu, vh.data(), n);
      if (mode != CUSOLVER_EIG_MODE_VECTOR) continue;
      for (int row = 0; row < n; ++row)
        for (int col = 0; col < n; ++col)
          v[(i * n + col) * ldv + row] = conjugated(vh[static_cast<std::size_t>(row * n + col)]);
    }
  });
  return CUSOLVER_STATUS_SUCCESS;
}

template <class T>
cusolverStatus_t orgqr(const char* call, cusolverDnHandle_t handle, int m, int n, int k, T* a,
                       int lda, const T* tau, T* work, int size, int* info) {
  if (const cusolverStatus_t status = ready(call, handle)) return status;
  if (m < 0 || n < 0 || n > m || k < 0 || k > n || lda < std::max(1, m) || size < 4 * n + 1)
    return CUSOLVER_STATUS_INVALID_VALUE;
  const auto elements = static_cast<std::size_t>(size);
  if (!on_device(a, span(m, n, lda) * sizeof(T)) ||
      !on_device(tau, static_cast<std::size_t>(k) * sizeof(T)) ||
      !on_device(work, elements * sizeof(T)) || !on_device(info, sizeof(int)))
    return illegal_address();
  enqueue(handle->stream, [=] {
    std::memset(static_cast<void*>(work), 0xa5, elements * sizeof(T));
    *info = lapack::orgqr(m, n, k, a, lda, tau);
  });
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t orgqr_size(const char* call, cusolverDnHandle_t handle, int n, int* size) {
  if (const cusolverStatus_t status = ready(call, handle)) return status;
  if (!size || n < 0) return CUSOLVER_STATUS_INVALID_VALUE;
  *size = 4 * n + 1;
  return CUSOLVER_STATUS_SUCCESS;
}

}  // namespace

cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t* handle) {
  if (fails("cusolverDnCreate")) return injected();
  if (!handle) return CUSOLVER_STATUS_INVALID_VALUE;
  if (device_error()) return CUSOLVER_STATUS_NOT_INITIALIZED;
  *handle = new (std::nothrow) cusolverDnContext;
  return *handle ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_ALLOC_FAILED;
}

cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t handle) {
  if (!handle) return CUSOLVER_STATUS_NOT_INITIALIZED;
  delete handle;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream) {
  if (fails("cusolverDnSetStream")) return injected();
  if (!handle) return CUSOLVER_STATUS_NOT_INITIALIZED;
  handle->stream = stream;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnCreateParams(cusolverDnParams_t* params) {
  if (fails("cusolverDnCreateParams")) return injected();
  if (!params) return CUSOLVER_STATUS_INVALID_VALUE;
  *params = new (std::nothrow) cusolverDnParams;
  return *params ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_ALLOC_FAILED;
}

cusolverStatus_t cusolverDnDestroyParams(cusolverDnParams_t params) {
  delete params;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnXpotrf_bufferSize(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                             cublasFillMode_t, int64_t n, cudaDataType type,
                                             const void*, int64_t lda, cudaDataType compute,
                                             std::size_t* device, std::size_t* host) {
  return sizes("cusolverDnXpotrf_bufferSize", handle, params, n, n, lda, type, compute, device,
               host);
}

cusolverStatus_t cusolverDnXpotrf(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                  cublasFillMode_t uplo, int64_t n, cudaDataType type, void* a,
                                  int64_t lda, cudaDataType compute, void* device,
                                  std::size_t device_bytes, void* host, std::size_t host_bytes,
                                  int* info) {
  const Workspaces workspaces{device, device_bytes, host, host_bytes};
  if (const cusolverStatus_t status =
          sound("cusolverDnXpotrf", handle, params, n, n, a, lda, type, compute, workspaces, info))
    return status;
  enqueue(handle->stream, [=] {
    workspaces.use();
    visit(type, [&]<class T>(T*) {
      *info = lapack::potrf(letter(uplo), as_int(n), static_cast<T*>(a), as_int(lda));
    });
  });
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnXgetrf_bufferSize(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                             int64_t m, int64_t n, cudaDataType type, const void*,
                                             int64_t lda, cudaDataType compute, std::size_t* device,
                                             std::size_t* host) {
  return sizes("cusolverDnXgetrf_bufferSize", handle, params, m, n, lda, type, compute, device,
               host);
}

cusolverStatus_t cusolverDnXgetrf(cusolverDnHandle_t handle, cusolverDnParams_t params, int64_t m,
                                  int64_t n, cudaDataType type, void* a, int64_t lda,
                                  int64_t* pivots, cudaDataType compute, void* device,
                                  std::size_t device_bytes, void* host, std::size_t host_bytes,
                                  int* info) {
  const Workspaces workspaces{device, device_bytes, host, host_bytes};
  if (const cusolverStatus_t status =
          sound("cusolverDnXgetrf", handle, params, m, n, a, lda, type, compute, workspaces, info))
    return status;
  const auto swaps = static_cast<std::size_t>(std::min(m, n));
  if (!on_device(pivots, swaps * sizeof(int64_t))) return illegal_address();
  enqueue(handle->stream, [=] {
    workspaces.use();
    std::vector<int> found(swaps);
    visit(type, [&]<class T>(T*) {
      *info = lapack::getrf(as_int(m), as_int(n), static_cast<T*>(a), as_int(lda), found.data());
    });
    std::copy(found.begin(), found.end(), pivots);
  });
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnXgetrs(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                  cublasOperation_t op, int64_t n, int64_t columns,
                                  cudaDataType type, const void* lu, int64_t lda,
                                  const int64_t* pivots, cudaDataType b_type, void* b, int64_t ldb,
                                  int* info) {
  if (const cusolverStatus_t status = ready("cusolverDnXgetrs", handle)) return status;
  const int64_t least = std::max<int64_t>(1, n);
  if (!params || n < 0 || columns < 0 || lda < least || ldb < least || !is_known(type) ||
      type != b_type)
    return CUSOLVER_STATUS_INVALID_VALUE;
  const auto swaps = static_cast<std::size_t>(n);
  if (!on_device(lu, span(n, n, lda) * width(type)) ||
      !on_device(b, span(n, columns, ldb) * width(type)) ||
      !on_device(pivots, swaps * sizeof(int64_t)) || !on_device(info, sizeof(int)))
    return illegal_address();
  enqueue(handle->stream, [=] {
    std::vector<int> narrow(swaps);
    std::transform(pivots, pivots + n, narrow.begin(), as_int);
    visit(type, [&]<class T>(T*) {
      *info = lapack::getrs(op == CUBLAS_OP_N   ? 'N'
                            : op == CUBLAS_OP_T ? 'T'
                                                : 'C',
                            as_int(n), as_int(columns), static_cast<const T*>(lu), as_int(lda),
                            narrow.data(), static_cast<T*>(b), as_int(ldb));
    });
  });
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnXgeqrf_bufferSize(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                             int64_t m, int64_t n, cudaDataType type, const void*,
                                             int64_t lda, cudaDataType tau_type, const void*,
                                             cudaDataType compute, std::size_t* device,
                                             std::size_t* host) {
  if (tau_type != type) return CUSOLVER_STATUS_INVALID_VALUE;
  return sizes("cusolverDnXgeqrf_bufferSize", handle, params, m, n, lda, type, compute, device,
               host);
}

cusolverStatus_t cusolverDnXgeqrf(cusolverDnHandle_t handle, cusolverDnParams_t params, int64_t m,
                                  int64_t n, cudaDataType type, void* a, int64_t lda,
                                  cudaDataType tau_type, void* tau, cudaDataType compute,
                                  void* device, std::size_t device_bytes, void* host,
                                  std::size_t host_bytes, int* info) {
  const Workspaces workspaces{device, device_bytes, host, host_bytes};
  if (const cusolverStatus_t status =
          sound("cusolverDnXgeqrf", handle, params, m, n, a, lda, type, compute, workspaces, info))
    return status;
  if (tau_type != type) return CUSOLVER_STATUS_INVALID_VALUE;
  if (!on_device(tau, static_cast<std::size_t>(std::min(m, n)) * width(type)))
    return illegal_address();
  enqueue(handle->stream, [=] {
    workspaces.use();
    visit(type, [&]<class T>(T*) {
      *info = lapack::geqrf(as_int(m), as_int(n), static_cast<T*>(a), as_int(lda),
                            static_cast<T*>(tau));
    });
  });
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnXsyevd_bufferSize(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                             cusolverEigMode_t, cublasFillMode_t, int64_t n,
                                             cudaDataType type, const void*, int64_t lda,
                                             cudaDataType real, const void*, cudaDataType compute,
                                             std::size_t* device, std::size_t* host) {
  if (real != real_of(type)) return CUSOLVER_STATUS_INVALID_VALUE;
  return sizes("cusolverDnXsyevd_bufferSize", handle, params, n, n, lda, type, compute, device,
               host);
}

cusolverStatus_t cusolverDnXsyevd(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                  cusolverEigMode_t mode, cublasFillMode_t uplo, int64_t n,
                                  cudaDataType type, void* a, int64_t lda, cudaDataType real,
                                  void* values, cudaDataType compute, void* device,
                                  std::size_t device_bytes, void* host, std::size_t host_bytes,
                                  int* info) {
  const Workspaces workspaces{device, device_bytes, host, host_bytes};
  if (const cusolverStatus_t status =
          sound("cusolverDnXsyevd", handle, params, n, n, a, lda, type, compute, workspaces, info))
    return status;
  if (real != real_of(type)) return CUSOLVER_STATUS_INVALID_VALUE;
  if (!on_device(values, static_cast<std::size_t>(n) * width(real))) return illegal_address();
  enqueue(handle->stream, [=] {
    workspaces.use();
    visit(type, [&]<class T>(T*) {
      *info =
          lapack::syev(mode == CUSOLVER_EIG_MODE_VECTOR ? 'V' : 'N', letter(uplo), as_int(n),
                       static_cast<T*>(a), as_int(lda), static_cast<lapack::real_t<T>*>(values));
    });
  });
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnXsyevBatched_bufferSize(
    cusolverDnHandle_t handle, cusolverDnParams_t params, cusolverEigMode_t, cublasFillMode_t,
    int64_t n, cudaDataType type, const void*, int64_t lda, cudaDataType real, const void*,
    cudaDataType compute, std::size_t* device, std::size_t* host, int64_t count) {
  if (real != real_of(type) || count < 1) return CUSOLVER_STATUS_INVALID_VALUE;
  return sizes("cusolverDnXsyevBatched_bufferSize", handle, params, n, n, lda, type, compute,
               device, host);
}

cusolverStatus_t cusolverDnXsyevBatched(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                        cusolverEigMode_t mode, cublasFillMode_t uplo, int64_t n,
                                        cudaDataType type, void* a, int64_t lda, cudaDataType real,
                                        void* values, cudaDataType compute, void* device,
                                        std::size_t device_bytes, void* host,
                                        std::size_t host_bytes, int* info, int64_t count) {
  const Workspaces workspaces{device, device_bytes, host, host_bytes};
  if (const cusolverStatus_t status = sound("cusolverDnXsyevBatched", handle, params, n, n, a, lda,
                                            type, compute, workspaces, info))
    return status;
  if (real != real_of(type) || count < 1 || n * lda * count > INT32_MAX)
    return CUSOLVER_STATUS_INVALID_VALUE;
  const auto entries = static_cast<std::size_t>(count), rows = static_cast<std::size_t>(n);
  if (!on_device(a, static_cast<std::size_t>(lda) * rows * entries * width(type)) ||
      !on_device(values, rows * entries * width(real)) || !on_device(info, entries * sizeof(int)))
    return illegal_address();
  enqueue(handle->stream, [=] {
    workspaces.use();
    visit(type, [&]<class T>(T*) {
      for (int64_t i = 0; i < count; ++i)
        info[i] = lapack::syev(mode == CUSOLVER_EIG_MODE_VECTOR ? 'V' : 'N', letter(uplo),
                               as_int(n), static_cast<T*>(a) + i * lda * n, as_int(lda),
                               static_cast<lapack::real_t<T>*>(values) + i * n);
    });
  });
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnCreateGesvdjInfo(gesvdjInfo_t* info) {
  if (fails("cusolverDnCreateGesvdjInfo")) return injected();
  if (!info) return CUSOLVER_STATUS_INVALID_VALUE;
  *info = new (std::nothrow) gesvdjInfo;
  return *info ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_ALLOC_FAILED;
}

cusolverStatus_t cusolverDnDestroyGesvdjInfo(gesvdjInfo_t info) {
  delete info;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnXgesvd_bufferSize(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                             signed char, signed char, int64_t m, int64_t n,
                                             cudaDataType type, const void*, int64_t lda,
                                             cudaDataType real, const void*, cudaDataType u_type,
                                             const void*, int64_t, cudaDataType vh_type,
                                             const void*, int64_t, cudaDataType compute,
                                             std::size_t* device, std::size_t* host) {
  if (real != real_of(type) || u_type != type || vh_type != type || m < n)
    return CUSOLVER_STATUS_INVALID_VALUE;
  return sizes("cusolverDnXgesvd_bufferSize", handle, params, m, n, lda, type, compute, device,
               host);
}

// For m >= n only, as the real one.
cusolverStatus_t cusolverDnXgesvd(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                  signed char job_u, signed char job_vh, int64_t m, int64_t n,
                                  cudaDataType type, void* a, int64_t lda, cudaDataType real,
                                  void* s, cudaDataType u_type, void* u, int64_t ldu,
                                  cudaDataType vh_type, void* vh, int64_t ldvh,
                                  cudaDataType compute, void* device, std::size_t device_bytes,
                                  void* host, std::size_t host_bytes, int* info) {
  const Workspaces workspaces{device, device_bytes, host, host_bytes};
  if (const cusolverStatus_t status =
          sound("cusolverDnXgesvd", handle, params, m, n, a, lda, type, compute, workspaces, info))
    return status;
  const char job = static_cast<char>(job_u);
  if (m < n || job_u != job_vh || (job != 'A' && job != 'S' && job != 'N') ||
      real != real_of(type) || u_type != type || vh_type != type || ldu < std::max<int64_t>(1, m) ||
      ldvh < std::max<int64_t>(1, n))
    return CUSOLVER_STATUS_INVALID_VALUE;
  const int64_t columns = job == 'N' ? 0 : job == 'S' ? n : m, rows = job == 'N' ? 0 : n;
  if (!on_device(s, static_cast<std::size_t>(n) * width(real)) ||
      !on_device(u, span(m, columns, ldu) * width(type)) ||
      !on_device(vh, span(rows, n, ldvh) * width(type)))
    return illegal_address();
  enqueue(handle->stream, [=] {
    workspaces.use();
    visit(type, [&]<class T>(T*) {
      *info = lapack::gesvd(job, as_int(m), as_int(n), static_cast<T*>(a), as_int(lda),
                            static_cast<lapack::real_t<T>*>(s), static_cast<T*>(u), as_int(ldu),
                            static_cast<T*>(vh), as_int(ldvh));
    });
  });
  return CUSOLVER_STATUS_SUCCESS;
}

#define MOONLET_EMULATED_SOLVER(letter, q, type)                                                  \
  cusolverStatus_t cusolverDn##letter##potrfBatched(cusolverDnHandle_t handle,                    \
                                                    cublasFillMode_t uplo, int n, type* a[],      \
                                                    int lda, int* info, int count) {              \
    return potrf_batched("cusolverDn" #letter "potrfBatched", handle, uplo, n, a, lda, info,      \
                         count);                                                                  \
  }                                                                                               \
  cusolverStatus_t cusolverDn##letter##q##_bufferSize(cusolverDnHandle_t handle, int, int n, int, \
                                                      const type*, int, const type*, int* size) { \
    return orgqr_size("cusolverDn" #letter #q "_bufferSize", handle, n, size);                    \
  }                                                                                               \
  cusolverStatus_t cusolverDn##letter##q(cusolverDnHandle_t handle, int m, int n, int k, type* a, \
                                         int lda, const type* tau, type* work, int size,          \
                                         int* info) {                                             \
    return orgqr("cusolverDn" #letter #q, handle, m, n, k, a, lda, tau, work, size, info);        \
  }
MOONLET_EMULATED_SOLVER(S, orgqr, float)
MOONLET_EMULATED_SOLVER(D, orgqr, double)
MOONLET_EMULATED_SOLVER(C, ungqr, cuComplex)
MOONLET_EMULATED_SOLVER(Z, ungqr, cuDoubleComplex)
#undef MOONLET_EMULATED_SOLVER

#define MOONLET_EMULATED_GESVDJ(letter, type, real)                                               \
  cusolverStatus_t cusolverDn##letter##gesvdjBatched_bufferSize(                                  \
      cusolverDnHandle_t handle, cusolverEigMode_t, int m, int n, const type*, int, const real*,  \
      const type*, int, const type*, int, int* size, gesvdjInfo_t params, int count) {            \
    return gesvdj_sizes("cusolverDn" #letter "gesvdjBatched_bufferSize", handle, m, n, size,      \
                        params, count);                                                           \
  }                                                                                               \
  cusolverStatus_t cusolverDn##letter##gesvdjBatched(                                             \
      cusolverDnHandle_t handle, cusolverEigMode_t mode, int m, int n, type* a, int lda, real* s, \
      type* u, int ldu, type* v, int ldv, type* work, int size, int* info, gesvdjInfo_t params,   \
      int count) {                                                                                \
    return gesvdj("cusolverDn" #letter "gesvdjBatched", handle, mode, m, n, a, lda, s, u, ldu, v, \
                  ldv, work, size, info, params, count);                                          \
  }
MOONLET_EMULATED_GESVDJ(S, float, float)
MOONLET_EMULATED_GESVDJ(D, double, double)
MOONLET_EMULATED_GESVDJ(C, cuComplex, float)
MOONLET_EMULATED_GESVDJ(Z, cuDoubleComplex, double)
#undef MOONLET_EMULATED_GESVDJ

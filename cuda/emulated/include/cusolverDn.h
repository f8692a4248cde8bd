// cuda/emulated/include/cusolverDn.h: the part of cuSOLVER that the backend uses, answered by the
// host's LAPACK in a library of its own, which the backend opens as it opens the real one.
// Matrices, workspaces and `info` must lie in device memory and be as long as is said; what is
// wrong with them is an error of the call, or ends the use of the device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cublas_api.h"

#define CUSOLVER_VERSION 12000

using cusolverDnHandle_t = struct cusolverDnContext*;
using cusolverDnParams_t = struct cusolverDnParams*;
using gesvdjInfo_t = struct gesvdjInfo*;

enum cusolverStatus_t {
  CUSOLVER_STATUS_SUCCESS = 0,
  CUSOLVER_STATUS_NOT_INITIALIZED = 1,
  CUSOLVER_STATUS_ALLOC_FAILED = 2,
  CUSOLVER_STATUS_INVALID_VALUE = 3,
  CUSOLVER_STATUS_ARCH_MISMATCH = 4,
  CUSOLVER_STATUS_EXECUTION_FAILED = 6,
  CUSOLVER_STATUS_INTERNAL_ERROR = 7,
  CUSOLVER_STATUS_NOT_SUPPORTED = 9,
};

enum cusolverEigMode_t { CUSOLVER_EIG_MODE_NOVECTOR = 0, CUSOLVER_EIG_MODE_VECTOR = 1 };

extern "C" {
cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t* handle);
cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t handle);
cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream);
cusolverStatus_t cusolverDnCreateParams(cusolverDnParams_t* params);
cusolverStatus_t cusolverDnDestroyParams(cusolverDnParams_t params);

cusolverStatus_t cusolverDnXpotrf_bufferSize(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                             cublasFillMode_t uplo, int64_t n, cudaDataType type,
                                             const void* a, int64_t lda, cudaDataType compute,
                                             std::size_t* device, std::size_t* host);
cusolverStatus_t cusolverDnXpotrf(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                  cublasFillMode_t uplo, int64_t n, cudaDataType type, void* a,
                                  int64_t lda, cudaDataType compute, void* device,
                                  std::size_t device_bytes, void* host, std::size_t host_bytes,
                                  int* info);
cusolverStatus_t cusolverDnXgetrf_bufferSize(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                             int64_t m, int64_t n, cudaDataType type, const void* a,
                                             int64_t lda, cudaDataType compute, std::size_t* device,
                                             std::size_t* host);
cusolverStatus_t cusolverDnXgetrf(cusolverDnHandle_t handle, cusolverDnParams_t params, int64_t m,
                                  int64_t n, cudaDataType type, void* a, int64_t lda,
                                  int64_t* pivots, cudaDataType compute, void* device,
                                  std::size_t device_bytes, void* host, std::size_t host_bytes,
                                  int* info);
cusolverStatus_t cusolverDnXgetrs(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                  cublasOperation_t op, int64_t n, int64_t columns,
                                  cudaDataType type, const void* lu, int64_t lda,
                                  const int64_t* pivots, cudaDataType b_type, void* b, int64_t ldb,
                                  int* info);
cusolverStatus_t cusolverDnXgeqrf_bufferSize(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                             int64_t m, int64_t n, cudaDataType type, const void* a,
                                             int64_t lda, cudaDataType tau_type, const void* tau,
                                             cudaDataType compute, std::size_t* device,
                                             std::size_t* host);
cusolverStatus_t cusolverDnXgeqrf(cusolverDnHandle_t handle, cusolverDnParams_t params, int64_t m,
                                  int64_t n, cudaDataType type, void* a, int64_t lda,
                                  cudaDataType tau_type, void* tau, cudaDataType compute,
                                  void* device, std::size_t device_bytes, void* host,
                                  std::size_t host_bytes, int* info);
cusolverStatus_t cusolverDnXsyevd_bufferSize(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                             cusolverEigMode_t mode, cublasFillMode_t uplo,
                                             int64_t n, cudaDataType type, const void* a,
                                             int64_t lda, cudaDataType real, const void* values,
                                             cudaDataType compute, std::size_t* device,
                                             std::size_t* host);
cusolverStatus_t cusolverDnXsyevd(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                  cusolverEigMode_t mode, cublasFillMode_t uplo, int64_t n,
                                  cudaDataType type, void* a, int64_t lda, cudaDataType real,
                                  void* values, cudaDataType compute, void* device,
                                  std::size_t device_bytes, void* host, std::size_t host_bytes,
                                  int* info);
cusolverStatus_t cusolverDnXgesvd_bufferSize(
    cusolverDnHandle_t handle, cusolverDnParams_t params, signed char job_u, signed char job_vh,
    int64_t m, int64_t n, cudaDataType type, const void* a, int64_t lda, cudaDataType real,
    const void* s, cudaDataType u_type, const void* u, int64_t ldu, cudaDataType vh_type,
    const void* vh, int64_t ldvh, cudaDataType compute, std::size_t* device, std::size_t* host);
cusolverStatus_t cusolverDnXgesvd(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                  signed char job_u, signed char job_vh, int64_t m, int64_t n,
                                  cudaDataType type, void* a, int64_t lda, cudaDataType real,
                                  void* s, cudaDataType u_type, void* u, int64_t ldu,
                                  cudaDataType vh_type, void* vh, int64_t ldvh,
                                  cudaDataType compute, void* device, std::size_t device_bytes,
                                  void* host, std::size_t host_bytes, int* info);
cusolverStatus_t cusolverDnXsyevBatched_bufferSize(
    cusolverDnHandle_t handle, cusolverDnParams_t params, cusolverEigMode_t mode,
    cublasFillMode_t uplo, int64_t n, cudaDataType type, const void* a, int64_t lda,
    cudaDataType real, const void* values, cudaDataType compute, std::size_t* device,
    std::size_t* host, int64_t count);
cusolverStatus_t cusolverDnXsyevBatched(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                        cusolverEigMode_t mode, cublasFillMode_t uplo, int64_t n,
                                        cudaDataType type, void* a, int64_t lda, cudaDataType real,
                                        void* values, cudaDataType compute, void* device,
                                        std::size_t device_bytes, void* host,
                                        std::size_t host_bytes, int* info, int64_t count);
cusolverStatus_t cusolverDnCreateGesvdjInfo(gesvdjInfo_t* info);
cusolverStatus_t cusolverDnDestroyGesvdjInfo(gesvdjInfo_t info);

#define MOONLET_EMULATED_GESVDJ(letter, type, real)                                               \
  cusolverStatus_t cusolverDn##letter##gesvdjBatched_bufferSize(                                  \
      cusolverDnHandle_t handle, cusolverEigMode_t mode, int m, int n, const type* a, int lda,    \
      const real* s, const type* u, int ldu, const type* v, int ldv, int* size,                   \
      gesvdjInfo_t params, int count);                                                            \
  cusolverStatus_t cusolverDn##letter##gesvdjBatched(                                             \
      cusolverDnHandle_t handle, cusolverEigMode_t mode, int m, int n, type* a, int lda, real* s, \
      type* u, int ldu, type* v, int ldv, type* work, int size, int* info, gesvdjInfo_t params,   \
      int count);
MOONLET_EMULATED_GESVDJ(S, float, float)
MOONLET_EMULATED_GESVDJ(D, double, double)
MOONLET_EMULATED_GESVDJ(C, cuComplex, float)
MOONLET_EMULATED_GESVDJ(Z, cuDoubleComplex, double)
#undef MOONLET_EMULATED_GESVDJ

#define MOONLET_EMULATED_SOLVER(letter, q, type)                                                  \
  cusolverStatus_t cusolverDn##letter##potrfBatched(cusolverDnHandle_t handle,                    \
                                                    cublasFillMode_t uplo, int n, type* a[],      \
                                                    int lda, int* info, int count);               \
  cusolverStatus_t cusolverDn##letter##q##_bufferSize(cusolverDnHandle_t handle, int m, int n,    \
                                                      int k, const type* a, int lda,              \
                                                      const type* tau, int* size);                \
  cusolverStatus_t cusolverDn##letter##q(cusolverDnHandle_t handle, int m, int n, int k, type* a, \
                                         int lda, const type* tau, type* work, int size,          \
                                         int* info);
MOONLET_EMULATED_SOLVER(S, orgqr, float)
MOONLET_EMULATED_SOLVER(D, orgqr, double)
MOONLET_EMULATED_SOLVER(C, ungqr, cuComplex)
MOONLET_EMULATED_SOLVER(Z, ungqr, cuDoubleComplex)
#undef MOONLET_EMULATED_SOLVER
}

// cuda/emulated/cublas_solve.cpp: cuBLAS's batched LU and its triangular solvers over the host's
// LAPACK and CBLAS.
#include <cblas.h>

#include <algorithm>

#include "checks.h"
#include "cublas_api.h"
#include "lapack_calls.h"
#include "queue.h"

using namespace moonlet::emulated;

namespace {

cublasStatus_t illegal_address() {
  set_sticky(cudaErrorIllegalAddress, "cuBLAS was given memory outside every device allocation");
  return CUBLAS_STATUS_EXECUTION_FAILED;
}

std::size_t count_of(int count) { return static_cast<std::size_t>(count); }

template <class T>
cublasStatus_t getrf(cublasHandle_t handle, int n, T* const a[], int lda, int* pivots, int* info,
                     int count) {
  cudaStream_t stream = nullptr;
  if (const cublasStatus_t status = usable(handle, &stream)) return status;
  if (n < 0 || count < 0 || lda < std::max(1, n)) return CUBLAS_STATUS_INVALID_VALUE;
  const std::size_t entries = count_of(count);
  if (!on_device(a, entries * sizeof(T*)) || !on_device(info, entries * sizeof(int)) ||
      !on_device(pivots, entries * count_of(n) * sizeof(int)))
    return illegal_address();
  enqueue(stream, [=] {
    for (int i = 0; i < count; ++i) {
      if (!on_device(a[i], span(n, n, lda) * sizeof(T))) return void(illegal_address());
      info[i] = lapack::getrf(n, n, a[i], lda, pivots + static_cast<std::ptrdiff_t>(i) * n);
    }
  });
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t getrs(cublasHandle_t handle, cublasOperation_t op, int n, int columns,
                     const T* const lu[], int lda, const int* pivots, T* const b[], int ldb,
                     int* info, int count) {
  cudaStream_t stream = nullptr;
  if (const cublasStatus_t status = usable(handle, &stream)) return status;
  if (n < 0 || columns < 0 || count < 0 || lda < std::max(1, n) || ldb < std::max(1, n) || !info)
    return CUBLAS_STATUS_INVALID_VALUE;
  const std::size_t entries = count_of(count);
  if (on_device(info, sizeof(int)) || !on_device(lu, entries * sizeof(T*)) ||
      !on_device(b, entries * sizeof(T*)) ||
      !on_device(pivots, entries * count_of(n) * sizeof(int)))
    return illegal_address();
  *info = 0;
  const char how = op == CUBLAS_OP_N ? 'N' : op == CUBLAS_OP_T ? 'T' : 'C';
  enqueue(stream, [=] {
    for (int i = 0; i < count; ++i) {
      if (!on_device(lu[i], span(n, n, lda) * sizeof(T)) ||
          !on_device(b[i], span(n, columns, ldb) * sizeof(T)))
        return void(illegal_address());
      lapack::getrs(how, n, columns, lu[i], lda, pivots + static_cast<std::ptrdiff_t>(i) * n, b[i],
                    ldb);
    }
  });
  return CUBLAS_STATUS_SUCCESS;
}

struct Triangle {
  cublasSideMode_t side;
  cublasFillMode_t uplo;
  cublasOperation_t op;
  cublasDiagType_t diag;
  int m, n, lda, ldb;

  int order() const { return side == CUBLAS_SIDE_LEFT ? m : n; }
  bool sound() const {
    return m >= 0 && n >= 0 && lda >= std::max(1, order()) && ldb >= std::max(1, m);
  }
};

#define MOONLET_TRSM(P, T, BY)                                                                    \
  void solve(const Triangle& t, const T* alpha, const T* a, T* b) {                               \
    cblas_##P##trsm(CblasColMajor, t.side == CUBLAS_SIDE_LEFT ? CblasLeft : CblasRight,           \
                    t.uplo == CUBLAS_FILL_MODE_UPPER ? CblasUpper : CblasLower,                   \
                    t.op == CUBLAS_OP_N   ? CblasNoTrans                                          \
                    : t.op == CUBLAS_OP_T ? CblasTrans                                            \
                                          : CblasConjTrans,                                       \
                    t.diag == CUBLAS_DIAG_UNIT ? CblasUnit : CblasNonUnit, t.m, t.n, BY alpha, a, \
                    t.lda, b, t.ldb);                                                             \
  }
MOONLET_TRSM(s, float, *)
MOONLET_TRSM(d, double, *)
MOONLET_TRSM(c, cuComplex, )
MOONLET_TRSM(z, cuDoubleComplex, )
#undef MOONLET_TRSM

template <class T>
bool in_memory(const Triangle& t, const T* a, const T* b) {
  return on_device(a, span(t.order(), t.order(), t.lda) * sizeof(T)) &&
         on_device(b, span(t.m, t.n, t.ldb) * sizeof(T));
}

template <class T>
cublasStatus_t trsm(cublasHandle_t handle, const Triangle& t, const T* alpha, const T* a, T* b) {
  cudaStream_t stream = nullptr;
  if (const cublasStatus_t status = usable(handle, &stream)) return status;
  if (!t.sound() || !alpha) return CUBLAS_STATUS_INVALID_VALUE;
  if (!in_memory(t, a, b)) return illegal_address();
  enqueue(stream, [=, by = *alpha] { solve(t, &by, a, b); });
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t trsm(cublasHandle_t handle, const Triangle& t, const T* alpha, const T* const a[],
                    T* const b[], int count) {
  cudaStream_t stream = nullptr;
  if (const cublasStatus_t status = usable(handle, &stream)) return status;
  if (!t.sound() || !alpha || count < 0) return CUBLAS_STATUS_INVALID_VALUE;
  const std::size_t bytes = count_of(count) * sizeof(T*);
  if (!on_device(a, bytes) || !on_device(b, bytes)) return illegal_address();
  enqueue(stream, [=, by = *alpha] {
    for (int i = 0; i < count; ++i) {
      if (!in_memory(t, a[i], b[i])) return void(illegal_address());
      solve(t, &by, a[i], b[i]);
    }
  });
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

#define MOONLET_EMULATED_BLAS_SOLVE(letter, type)                                                \
  cublasStatus_t cublas##letter##getrfBatched(cublasHandle_t handle, int n, type* const a[],     \
                                              int lda, int* pivots, int* info, int count) {      \
    if (fails("cublas" #letter "getrfBatched")) return blas_failure();                           \
    return getrf(handle, n, a, lda, pivots, info, count);                                        \
  }                                                                                              \
  cublasStatus_t cublas##letter##getrsBatched(                                                   \
      cublasHandle_t handle, cublasOperation_t op, int n, int columns, const type* const lu[],   \
      int lda, const int* pivots, type* const b[], int ldb, int* info, int count) {              \
    if (fails("cublas" #letter "getrsBatched")) return blas_failure();                           \
    return getrs(handle, op, n, columns, lu, lda, pivots, b, ldb, info, count);                  \
  }                                                                                              \
  cublasStatus_t cublas##letter##trsm(cublasHandle_t handle, cublasSideMode_t side,              \
                                      cublasFillMode_t uplo, cublasOperation_t op,               \
                                      cublasDiagType_t diag, int m, int n, const type* alpha,    \
                                      const type* a, int lda, type* b, int ldb) {                \
    if (fails("cublas" #letter "trsm")) return blas_failure();                                   \
    return trsm(handle, {side, uplo, op, diag, m, n, lda, ldb}, alpha, a, b);                    \
  }                                                                                              \
  cublasStatus_t cublas##letter##trsmBatched(                                                    \
      cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t uplo, cublasOperation_t op, \
      cublasDiagType_t diag, int m, int n, const type* alpha, const type* const a[], int lda,    \
      type* const b[], int ldb, int count) {                                                     \
    if (fails("cublas" #letter "trsmBatched")) return blas_failure();                            \
    return trsm(handle, {side, uplo, op, diag, m, n, lda, ldb}, alpha, a, b, count);             \
  }
MOONLET_EMULATED_BLAS_SOLVE(S, float)
MOONLET_EMULATED_BLAS_SOLVE(D, double)
MOONLET_EMULATED_BLAS_SOLVE(C, cuComplex)
MOONLET_EMULATED_BLAS_SOLVE(Z, cuDoubleComplex)
#undef MOONLET_EMULATED_BLAS_SOLVE

// cuda/kernels/linalg/blas_solve.cu: the batched factorizations and the triangular solver of
// cuBLAS.
#include "cuda/kernels/linalg/blas_solve.h"

#include <cublas_api.h>

#include "cuda/kernels/common/geometry.cuh"

namespace moonlet::cuda {

namespace {

__global__ void addresses_kernel(int64_t count, char* first, int64_t bytes, char** to) {
  for (MOONLET_EACH(i, count)) to[i] = first + i * bytes;
}

#define MOONLET_BLAS_TYPES(F) F(S, float) F(D, double) F(C, cuComplex) F(Z, cuDoubleComplex)
#define MOONLET_BLAS_SOLVE(letter, T)                                                             \
  cublasStatus_t getrf(cublasHandle_t handle, int n, T* const* a, int* pivots, int* info,         \
                       int count) {                                                               \
    return cublas##letter##getrfBatched(handle, n, a, n, pivots, info, count);                    \
  }                                                                                               \
  cublasStatus_t getrs(cublasHandle_t handle, int n, int columns, const T* const* lu,             \
                       const int* pivots, T* const* b, int* info, int count) {                    \
    return cublas##letter##getrsBatched(handle, CUBLAS_OP_N, n, columns, lu, n, pivots, b, n,     \
                                        info, count);                                             \
  }                                                                                               \
  cublasStatus_t trsm(cublasHandle_t handle, cublasFillMode_t uplo, cublasDiagType_t diag, int m, \
                      int n, const T* alpha, const T* u, T* b) {                                  \
    return cublas##letter##trsm(handle, CUBLAS_SIDE_RIGHT, uplo, CUBLAS_OP_N, diag, m, n, alpha,  \
                                u, n, b, m);                                                      \
  }                                                                                               \
  cublasStatus_t trsm(cublasHandle_t handle, cublasFillMode_t uplo, cublasDiagType_t diag, int m, \
                      int n, const T* alpha, const T* const* u, T* const* b, int count) {         \
    return cublas##letter##trsmBatched(handle, CUBLAS_SIDE_RIGHT, uplo, CUBLAS_OP_N, diag, m, n,  \
                                       alpha, u, n, b, m, count);                                 \
  }
MOONLET_BLAS_TYPES(MOONLET_BLAS_SOLVE)
#undef MOONLET_BLAS_SOLVE
#undef MOONLET_BLAS_TYPES

template <class F>
void visit_blas(DType dtype, const F& f) {
  switch (dtype) {
    case DType::Float32: return f(float{1});
    case DType::Float64: return f(double{1});
    case DType::Complex64: return f(cuComplex{1, 0});
    default: return f(cuDoubleComplex{1, 0});
  }
}

template <class T>
T** as_pointers(const Tensor& addresses) {
  return reinterpret_cast<T**>(addresses.raw());
}

}  // namespace

Tensor addresses_of(const Call& call, const void* first, int64_t bytes, int64_t count) {
  Tensor out = call.scratch({count}, DType::Int64);
  MOONLET_LAUNCH(addresses_kernel, blocks_for(count), kBlock, 0, call.stream(), count,
                 static_cast<char*>(const_cast<void*>(first)), bytes, as_pointers<char>(out));
  call.done();
  return out;
}

void blas_getrf(const Call& call, DType dtype, int64_t n, int64_t count, void* a, int* pivots,
                int* info) {
  const int64_t bytes = n * n * static_cast<int64_t>(size_of(dtype));
  each_chunk(count, [&](int64_t begin, int64_t part) {
    const Tensor addresses = addresses_of(call, static_cast<char*>(a) + begin * bytes, bytes, part);
    visit_blas(dtype, [&]<class T>(T) {
      ensure(getrf(call.blas(), static_cast<int>(n), as_pointers<T>(addresses), pivots + begin * n,
                   info + begin, static_cast<int>(part)),
             call.op());
    });
  });
}

void blas_getrs(const Call& call, DType dtype, int64_t n, int64_t columns, int64_t count,
                const void* lu, const int* pivots, void* b) {
  const auto width = static_cast<int64_t>(size_of(dtype));
  const int64_t bytes = n * n * width, b_bytes = n * columns * width;
  each_chunk(count, [&](int64_t begin, int64_t part) {
    const Tensor from =
        addresses_of(call, static_cast<const char*>(lu) + begin * bytes, bytes, part);
    const Tensor to = addresses_of(call, static_cast<char*>(b) + begin * b_bytes, b_bytes, part);
    int info = 0;  // the host's: of arguments, which are right
    visit_blas(dtype, [&]<class T>(T) {
      ensure(
          getrs(call.blas(), static_cast<int>(n), static_cast<int>(columns), as_pointers<T>(from),
                pivots + begin * n, as_pointers<T>(to), &info, static_cast<int>(part)),
          call.op());
    });
  });
}

void blas_trsm(const Call& call, DType dtype, bool upper, bool unit, int64_t rows, int64_t n,
               int64_t count, const void* u, void* b) {
  const cublasFillMode_t uplo = upper ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER;
  const cublasDiagType_t diag = unit ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT;
  const int m = static_cast<int>(rows), size = static_cast<int>(n);
  const auto width = static_cast<int64_t>(size_of(dtype));
  // A large one fills the device by itself.
  constexpr int64_t kSmall = 256;
  visit_blas(dtype, [&]<class T>(T one) {
    const auto* from = static_cast<const T*>(u);
    auto* to = static_cast<T*>(b);
    if (count == 1 || n > kSmall) {
      for (int64_t i = 0; i < count; ++i)
        ensure(trsm(call.blas(), uplo, diag, m, size, &one, from + i * n * n, to + i * rows * n),
               call.op());
      return;
    }
    each_chunk(count, [&](int64_t begin, int64_t part) {
      const Tensor left = addresses_of(call, from + begin * n * n, n * n * width, part);
      const Tensor right = addresses_of(call, to + begin * rows * n, rows * n * width, part);
      ensure(trsm(call.blas(), uplo, diag, m, size, &one, as_pointers<T>(left),
                  as_pointers<T>(right), static_cast<int>(part)),
             call.op());
    });
  });
}

}  // namespace moonlet::cuda

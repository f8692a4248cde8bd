// cuda/kernels/linalg/blas_solve.h: what is solved by cuBLAS: batches of small matrices, and
// triangular ones.
#pragma once

#include <algorithm>

#include "cuda/runtime/device.h"

namespace moonlet::cuda {

// f(begin, size) for parts of a batch that a library's batched call can count.
template <class F>
void each_chunk(int64_t count, const F& f) {
  constexpr int64_t kMost = 32768;
  for (int64_t begin = 0; begin < count; begin += kMost) f(begin, std::min(kMost, count - begin));
}

// The addresses of `count` matrices that lie `bytes` apart, in the device's memory.
Tensor addresses_of(const Call& call, const void* first, int64_t bytes, int64_t count);

// P L U of square matrices, in place, which lie column by column one after another; pivots count
// from 1, `info` is LAPACK's.
void blas_getrf(const Call& call, DType dtype, int64_t n, int64_t count, void* a, int* pivots,
                int* info);
// The solution for each of `columns` in place of b.
void blas_getrs(const Call& call, DType dtype, int64_t n, int64_t columns, int64_t count,
                const void* lu, const int* pivots, void* b);
// The X with X U = B for a triangular U (n x n) and B (rows x n), in place of b.
void blas_trsm(const Call& call, DType dtype, bool upper, bool unit, int64_t rows, int64_t n,
               int64_t count, const void* u, void* b);

}  // namespace moonlet::cuda

// cuda/kernels/linalg/jacobi.h: singular values of many matrices at once by Jacobi's rotations.
#pragma once

#include "cuda/runtime/device.h"

namespace moonlet::cuda::jacobi {

// Whether a batch of m x n matrices, m >= n, with so many columns of U is faster this way than one
// matrix after another: a block holds the norms of a matrix's columns.
inline constexpr int64_t kColumns = 256;
inline bool takes(int64_t m, int64_t n, int64_t columns, int64_t count) {
  return count > 1 && n <= kColumns && columns <= kColumns && m <= 16 * kColumns;
}

// a (count, n, m) has the matrices column by column and is lost; s (count, n) gets their values,
// descending. With vectors u (count, columns, m) gets those of U by rows and v (count, n, n) those
// of V, conjugated; else both are empty. A word of `info` is not 0 where a matrix did not converge.
void svd(const Call& call, const Tensor& a, const Tensor& s, const Tensor& u, const Tensor& v,
         int* info);

}  // namespace moonlet::cuda::jacobi

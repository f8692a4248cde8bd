// cuda/libraries/solver.h: LAPACK's factorizations on a device, by cuSOLVER where it is installed.
#pragma once

#include "cuda/runtime/device.h"

namespace moonlet::cuda {

// Matrices lie column by column without gaps, `count` of them one after another, as their results
// do. All pointers are the device's; nothing is waited for. `info` has LAPACK's word for each.
class Solver {
 public:
  virtual ~Solver() = default;

  // The Cholesky factor of Hermitian matrices, of which a triangle is read, in place of that.
  virtual void potrf(const Call& call, DType dtype, bool upper, int64_t n, int64_t count, void* a,
                     int* info) = 0;
  // P L U in place; pivots count from 1.
  virtual void getrf(const Call& call, DType dtype, int64_t m, int64_t n, int64_t count, void* a,
                     int64_t* pivots, int* info) = 0;
  // The solution for each of `columns` in place of b, from what getrf gives.
  virtual void getrs(const Call& call, DType dtype, int64_t n, int64_t columns, int64_t count,
                     const void* lu, const int64_t* pivots, void* b) = 0;
  // Q R by reflections, in place.
  virtual void geqrf(const Call& call, DType dtype, int64_t m, int64_t n, int64_t count, void* a,
                     void* tau) = 0;
  // Q of m x n from k reflections each in the first columns of q, in place.
  virtual void orgqr(const Call& call, DType dtype, int64_t m, int64_t n, int64_t k, int64_t count,
                     void* q, const void* tau) = 0;
  // Eigenvalues of Hermitian matrices, and with `vectors` their eigenvectors in place.
  virtual void syevd(const Call& call, DType dtype, bool vectors, bool upper, int64_t n,
                     int64_t count, void* a, void* values, int* info) = 0;
  // Singular values, m >= n: `job` is 'N' (no vectors), 'S' (n of them) or 'A' (all). a is lost.
  virtual void gesvd(const Call& call, DType dtype, char job, int64_t m, int64_t n, int64_t count,
                     void* a, void* s, void* u, void* vh, int* info) = 0;
  // The same of all matrices at once, by Jacobi's rotations, where `rotates` says so: with all
  // vectors, m of U and n of V, not of its adjoint; both have memory without `vectors` too.
  static bool rotates(int64_t m, int64_t n, int64_t count) {
    return count > 1 && m <= 32 && n <= 32;
  }
  virtual void gesvdj(const Call& call, DType dtype, bool vectors, int64_t m, int64_t n,
                      int64_t count, void* a, void* s, void* u, void* v, int* info) = 0;
};

// Null where there is no cuSOLVER.
Solver* solver();

}  // namespace moonlet::cuda

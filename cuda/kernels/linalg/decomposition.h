// cuda/kernels/linalg/decomposition.h: batches of matrices as cuBLAS and cuSOLVER want them, and
// the ops on the host, which take over where there is no cuSOLVER.
#pragma once

#include "cuda/libraries/solver.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/graph.h"
#include "tensor/core/views.h"
#include "tensor/functors/decomposition_errors.h"
#include "tensor/kernels_copy.h"

namespace moonlet::cuda {

// The dtype in which x's elements are computed with.
inline DType lapack_dtype(const Tensor& x) { return compute_dtype(x.dtype()); }

// The ops whose arguments are copied to the host, and whose results back.
namespace host {
void linalg_lu_factor_ex(const Tensor& A, bool pivot, bool check_errors, Tensor& LU, Tensor& pivots,
                         Tensor& info);
void det(const Tensor& A, Tensor& y);
void slogdet(const Tensor& A, Tensor& sign, Tensor& logabsdet);
void linalg_inv_ex(const Tensor& A, bool check_errors, Tensor& inverse, Tensor& info);
void native_solve(const Tensor& A, const Tensor& B, bool check_errors, Tensor& X, Tensor& info);
void native_pinv(const Tensor& A, double atol, double rtol, Tensor& y);
void linalg_cholesky_ex(const Tensor& A, bool upper, bool check_errors, Tensor& L, Tensor& info);
void linalg_qr(const Tensor& A, std::string_view mode, Tensor& Q, Tensor& R);
void geqrf(const Tensor& A, Tensor& a, Tensor& tau);
void native_svd(const Tensor& A, bool full_matrices, bool vectors, Tensor& U, Tensor& S,
                Tensor& Vh);
void native_eigh(const Tensor& A, std::string_view UPLO, bool vectors, Tensor& eigenvalues,
                 Tensor& eigenvectors);
void linalg_matrix_sqrth(const Tensor& A, Tensor& y);
}  // namespace host

// The solver for a call; null for the host's. Libraries that wait, or take memory of their own,
// are kept out of captures.
inline Solver* solver_for(const Call& call) {
  refuse_in_capture(call.stream(), call.op(), "a factorization");
  return solver();
}

// Matrices (..., m, n) in the dtype that is computed in, column by column: they lie as (..., n, m)
// row by row.
class DeviceColumns {
 public:
  // New memory for matrices of x's batch.
  DeviceColumns(const Call& call, const Tensor& x, int64_t rows, int64_t cols)
      : count_(batch_count(x)), rows_(rows), cols_(cols) {
    Dims sizes = x.sizes();
    sizes[x.dim() - 2] = cols;
    sizes[x.dim() - 1] = rows;
    held_ = call.scratch(sizes, lapack_dtype(x));
  }
  // A copy of x.
  static DeviceColumns of(const Call& call, const Tensor& x) {
    DeviceColumns out(call, x, x.size(-2), x.size(-1));
    copy(out.held_, views::transpose(x, x.dim() - 2, x.dim() - 1));
    return out;
  }
  // Writes the first columns over y.
  void store(Tensor& y) const {
    const int dim = y.dim();
    const Tensor whole = views::transpose(held_, dim - 2, dim - 1);
    copy(y, views::slice(whole, dim - 1, 0, y.size(-1), 1));
  }

  int64_t count() const { return count_; }
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  DType dtype() const { return held_.dtype(); }
  void* data() const { return held_.raw(); }
  const Tensor& held() const { return held_; }
  template <class T>
  T* elements() const {
    return held_.elements<T>();
  }

 private:
  int64_t count_, rows_, cols_;
  Tensor held_;
};

// A contiguous copy of x in the dtype that is computed in, by rows.
inline Tensor rows_copy(const Call& call, const Tensor& x) {
  Tensor out = call.scratch(x.sizes(), lapack_dtype(x));
  copy(out, x);
  return out;
}

// A device's words on each matrix, 0 until they are written.
inline Tensor new_info(const Call& call, const Tensor& matrices) {
  Tensor out = call.scratch({batch_count(matrices)}, DType::Int32);
  fill(out, 0);
  return out;
}

// Waits for them and throws at the first that is not 0.
template <class Text>
void read_info(const char* op, const Tensor& matrices, const Tensor& info, Text&& what) {
  Tensor read = empty_plain(info.sizes(), {DType::Int32, {}}, op);
  if (info.numel() == 0) return;
  transfer(read, info);
  check_info(op, matrices, read.elements<int>(), what);
}

// The words over a result of the shape of the batch.
inline void store_info(Tensor& to, const Tensor& info) { copy(to, views::view(info, to.sizes())); }

}  // namespace moonlet::cuda

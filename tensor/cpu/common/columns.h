// tensor/cpu/common/columns.h: batches of matrices as LAPACK wants them, column by column, and the
// loop over a batch.
#pragma once

#include "tensor/core/views.h"
#include "tensor/cpu/common/abandonable.h"
#include "tensor/cpu/common/contiguous.h"
#include "tensor/cpu/gemm/blas_call.h"
#include "tensor/cpu/linalg/lapack.h"
#include "tensor/functors/decomposition_errors.h"

namespace moonlet::cpu {

// The dtype in which LAPACK computes with x's elements.
inline DType lapack_dtype(const Tensor& x) { return compute_dtype(x.dtype()); }

// Matrices (..., m, n) in the dtype that is computed in, which lie as (..., n, m) row by row; or by
// rows, as they are.
class Columns {
 public:
  enum class Order { Columns, Rows };

  // New memory for matrices of x's shape.
  explicit Columns(const Tensor& x, Order order = Order::Columns) : Columns(x, x.size(-2), order) {}
  // The same with `rows` rows.
  Columns(const Tensor& x, int64_t rows, Order order = Order::Columns)
      : by_rows_(order == Order::Rows), rows_(rows), cols_(x.size(-1)) {
    Dims sizes = x.sizes();
    sizes[x.dim() - 2] = by_rows_ ? rows_ : cols_;
    sizes[x.dim() - 1] = by_rows_ ? cols_ : rows_;
    const int64_t count = numel_of(sizes, "linalg");
    const Tensor room = empty_plain({count + kSlack}, {lapack_dtype(x), {}}, "linalg");
    held_ = part_of(room, sizes, contiguous_strides(sizes), 0);
  }
  // A copy of x.
  static Columns of(const Tensor& x, Order order = Order::Columns) {
    Columns out(x, order);
    copy_into(out.held_, out.turned(x));
    return out;
  }
  // A copy of x with rows of zeros below it.
  static Columns of(const Tensor& x, int64_t rows) {
    Columns out(x, rows);
    const int64_t bytes = out.held_.numel() * static_cast<int64_t>(size_of(out.held_.dtype()));
    if (rows > x.size(-2)) zero_bytes(out.held_.raw(), bytes);
    Tensor top = views::slice(out.held_, x.dim() - 1, 0, x.size(-2), 1);
    copy_into(top, out.turned(x));
    return out;
  }
  // Writes the first rows over x.
  void store(Tensor& x) const {
    const int rows_dim = x.dim() - (by_rows_ ? 2 : 1);
    copy_into(x, turned(views::slice(held_, rows_dim, 0, x.size(-2), 1)));
  }

  bool by_rows() const { return by_rows_; }
  int rows() const { return static_cast<int>(rows_); }
  int cols() const { return static_cast<int>(cols_); }
  int64_t each() const { return rows_ * cols_; }
  template <class T>
  T* at(int64_t entry) {
    return held_.elements<T>() + entry * each();
  }

 private:
  // OpenBLAS's products of matrices and vectors load whole vectors, past the last element too.
  static constexpr int64_t kSlack = 8;

  // Between how x lies and how the matrices do.
  Tensor turned(const Tensor& x) const {
    return by_rows_ ? x : views::transpose(x, x.dim() - 2, x.dim() - 1);
  }
  bool by_rows_;
  int64_t rows_, cols_;
  Tensor held_;
};

// A result that is not a batch of matrices, as contiguous elements of `dtype` while it is computed.
// Copies share the elements.
class Output {
 public:
  // In memory that nobody else sees where the work for an entry is so long that it may be
  // abandoned.
  Output(Tensor& y, DType dtype, double work)
      : y_(y),
        work_(work < kLongWork ? workspace(y, dtype)
                               : empty_plain(y.sizes(), {dtype, Device{}}, "linalg")) {}
  // `each` elements for each entry of the batch.
  template <class T>
  T* at(int64_t entry, int64_t each = 1) {
    return work_.elements<T>() + entry * each;
  }
  Tensor held() const { return work_; }
  void store() { write_back(y_, work_); }

 private:
  Tensor& y_;
  Tensor work_;
};

// Small real matrices are left to tensor/cpu/linalg/small_matrix.h, by rows.
inline Columns::Order order_for(const Tensor& x) {
  const bool small = !is_complex(x.dtype()) && small::fits(x.size(-2), x.size(-1));
  return small ? Columns::Order::Rows : Columns::Order::Columns;
}

// body(entry) for each of a batch, where one takes about `work` multiplications: small ones share
// the threads, in large ones LAPACK does. As LAPACK cannot be stopped, those that take long may be
// abandoned: `body` holds copies of the matrices' handles, never a reference.
template <class Body>
void each_entry(const char* op, int64_t count, double work, Body body) {
  auto range = [op, body = std::move(body)](int64_t begin, int64_t end) mutable {
    const BlasCall call(op);
    for (int64_t i = begin; i < end; ++i) body(i);
  };
  if (work < 64.0 * 64.0 * 64.0)
    parallel_for(count, grain_for(static_cast<int64_t>(work)), range);
  else if (work < kLongWork)
    run_blocks(0, count, 1, range);
  else
    run_abandonable(
        [count, range = std::move(range)]() mutable { run_blocks(0, count, 1, range); });
}

inline double cube(const Tensor& x) {
  return double(x.size(-1)) * double(x.size(-2)) * double(std::min(x.size(-1), x.size(-2)));
}

// f<T>() for the type that LAPACK computes in.
template <class F>
void visit_lapack(const Tensor& x, F&& f) {
  visit<bit(DType::Float32) | bit(DType::Float64) | dtypes::complex>(lapack_dtype(x),
                                                                     std::forward<F>(f));
}

// Throws where a matrix holds infinities or NaN, with which iterations would not end well.
template <class T>
void check_finite(const char* op, const T* x, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    check(std::isfinite(std::real(x[i])) && std::isfinite(std::imag(x[i])), op,
          ": the matrix holds infinities or NaN");
  }
}

template <class T>
T conjugate(T x) {
  if constexpr (is_complex_v<T>)
    return std::conj(x);
  else
    return x;
}

}  // namespace moonlet::cpu

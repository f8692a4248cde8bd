// tensor/cpu/scan.cpp: the kernels of running sums, products and extremes. float32 runs are carried
// in float64.
#include <algorithm>
#include <cmath>
#include <optional>

#include "tensor/cpu/contiguous.h"
#include "tensor/cpu/parallel.h"
#include "tensor/cpu/reduce.h"
#include "tensor/kernels_scan.h"

namespace moonlet::cpu {

namespace {

struct Add {
  template <class A>
  A operator()(A a, A b) const {
    if constexpr (std::is_same_v<A, int64_t>) {
      return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    } else {
      return a + b;
    }
  }
};
struct Multiply {
  template <class A>
  A operator()(A a, A b) const {
    if constexpr (std::is_same_v<A, int64_t>) {
      return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    } else {
      return a * b;
    }
  }
};
// log(exp(a) + exp(b)).
struct LogAddExp {
  double operator()(double a, double b) const {
    if (a != a || b != b) return a + b;
    const double most = std::max(a, b);
    if (std::isinf(most)) return most;
    return most + std::log1p(std::exp(std::min(a, b) - most));
  }
  complex128 operator()(complex128 a, complex128 b) const {
    if (a != a || b != b) return a + b;
    if (a.real() < b.real()) std::swap(a, b);
    if (std::isinf(a.real())) return a;
    return a + std::log(1.0 + std::exp(b - a));
  }
};

// Scans `cols` neighbouring columns of n rows, `inner` apart, in place.
template <class T, class A, class Op>
void scan_columns(T* x, int64_t n, int64_t inner, int64_t cols, Op op) {
  constexpr int64_t kTile = 64;
  A carry[kTile];
  for (int64_t from = 0; from < cols; from += kTile) {
    const int64_t m = std::min(kTile, cols - from);
    for (int64_t i = 0; i < n; ++i) {
      if (i % (kStopBlock / kTile) == 0) stop_if_requested();
      T* row = x + i * inner + from;
      for (int64_t j = 0; j < m; ++j) {
        carry[j] = i == 0 ? static_cast<A>(row[j]) : op(carry[j], static_cast<A>(row[j]));
        row[j] = static_cast<T>(carry[j]);
      }
    }
  }
}

// Scans one dense row of n.
template <class T, class A, class Op>
void scan_row(T* x, int64_t n, Op op) {
  if (n == 0) return;
  A carry = static_cast<A>(x[0]);
  run_blocks(1, n, kStopBlock, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      carry = op(carry, static_cast<A>(x[i]));
      x[i] = static_cast<T>(carry);
    }
  });
}

template <class T, class A, class Op>
void scan_in_place(Tensor& y, int d, Op op) {
  int64_t outer = 1, inner = 1;
  const int64_t n = y.dim() ? y.size(d) : 1;
  for (int i = 0; i < y.dim(); ++i) (i < d ? outer : inner) *= i == d ? 1 : y.size(i);
  T* x = y.elements<T>();
  constexpr int64_t kColumns = 512;
  const int64_t chunks = (inner + kColumns - 1) / kColumns;
  const int64_t work = n * std::min(inner, kColumns);
  parallel_for(outer * chunks, grain_for(work), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (inner == 1) {
        scan_row<T, A>(x + i * n, n, op);
        continue;
      }
      const int64_t column = i % chunks * kColumns;
      scan_columns<T, A>(x + i / chunks * n * inner + column, n, inner,
                         std::min(kColumns, inner - column), op);
    }
  });
}

template <DTypeSet Set = dtypes::all, class Op>
void scan(const Tensor& x, int64_t dim, Tensor& y, Op op) {
  const int d = wrapped(dim, x.dim());
  const DType wide = compute_dtype(y.dtype());
  const Tensor from = y.dtype() == DType::Bool ? in_dtype(x, DType::Bool) : x;
  Tensor work = wide == y.dtype() ? y : empty_plain(y.sizes(), Options{wide, y.device()});
  copy_into(work, from);
  visit_compute<Set>(y.dtype(), [&]<class C>() {
    using Float = std::conditional_t<is_complex_v<C>, complex128, double>;
    scan_in_place<C, std::conditional_t<std::is_integral_v<C>, C, Float>>(work, d, op);
  });
  write_back(y, work);
}

// The extremes so far of `cols` neighbouring columns of n rows, `inner` apart, and their positions
// from 1: of equal ones the last, and NaN before all.
template <class T>
void extreme_columns(const T* x, T* values, int64_t* indices, int64_t n, int64_t inner,
                     int64_t cols, bool largest) {
  constexpr int64_t kTile = 64;
  T best[kTile];
  int64_t where[kTile];
  for (int64_t from = 0; from < cols; from += kTile) {
    const int64_t m = std::min(kTile, cols - from);
    for (int64_t i = 0; i < n; ++i) {
      if (i % (kStopBlock / kTile) == 0) stop_if_requested();
      const int64_t row = i * inner + from;
      for (int64_t j = 0; j < m; ++j) {
        const T v = x[row + j];
        const bool better = largest ? v >= best[j] : v <= best[j];
        if (i == 0 || v != v || (best[j] == best[j] && better)) {
          best[j] = v;
          where[j] = i + 1;
        }
        values[row + j] = best[j];
        indices[row + j] = where[j];
      }
    }
  }
}

void running_extreme(const Tensor& given, int64_t dim, bool largest, Tensor& values,
                     Tensor& indices) {
  const int d = wrapped(dim, given.dim());
  const Tensor x = converted(given, compute_dtype(given.dtype()));
  Tensor best = workspace(values, x.dtype()), where = workspace(indices, DType::Int64);
  const int64_t n = x.dim() ? x.size(d) : 1;
  int64_t inner = 1;
  for (int i = d + 1; i < x.dim(); ++i) inner *= x.size(i);
  if (x.numel() == 0) return;
  constexpr int64_t kColumns = 512;
  const int64_t chunks = (inner + kColumns - 1) / kColumns;
  visit_compute<dtypes::boolean | dtypes::real>(x.dtype(), [&]<class T>() {
    parallel_for(x.numel() / (n * inner) * chunks, grain_for(n * std::min(inner, kColumns)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     const int64_t column = i % chunks * kColumns;
                     const int64_t at = i / chunks * n * inner + column;
                     extreme_columns(x.elements<T>() + at, best.elements<T>() + at,
                                     where.elements<int64_t>() + at, n, inner,
                                     std::min(kColumns, inner - column), largest);
                   }
                 });
  });
  write_back(values, best);
  write_back(indices, where);
}

}  // namespace

void cumsum(const Tensor& x, int64_t dim, std::optional<DType>, Tensor& y) {
  scan(x, dim, y, Add{});
}
void cumprod(const Tensor& x, int64_t dim, std::optional<DType>, Tensor& y) {
  scan(x, dim, y, Multiply{});
}
void logcumsumexp(const Tensor& x, int64_t dim, Tensor& y) {
  scan<dtypes::floating | dtypes::complex>(x, dim, y, LogAddExp{});
}

void cummax(const Tensor& x, int64_t dim, Tensor& values, Tensor& indices) {
  running_extreme(x, dim, true, values, indices);
}
void cummin(const Tensor& x, int64_t dim, Tensor& values, Tensor& indices) {
  running_extreme(x, dim, false, values, indices);
}

}  // namespace moonlet::cpu

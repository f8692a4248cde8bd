// tensor/cpu/reduce/scan.cpp: the kernels of running sums, products and extremes. float32 runs are
// carried in float64.
#include <algorithm>
#include <cmath>
#include <optional>

#include "tensor/cpu/common/contiguous.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/reduce/reduce.h"
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

// Scans `cols` neighbouring columns of n rows, `inner` apart.
template <class A, class T, class Op>
void scan_columns(const T* x, T* y, int64_t n, int64_t inner, int64_t cols, Op op) {
  constexpr int64_t kTile = thresholds::reduce::kScanTile;
  A carry[kTile];
  for (int64_t from = 0; from < cols; from += kTile) {
    const int64_t m = std::min(kTile, cols - from);
    for (int64_t i = 0; i < n; ++i) {
      if (i % (kStopBlock / kTile) == 0) stop_if_requested();
      const T* row = x + i * inner + from;
      T* out = y + i * inner + from;
      for (int64_t j = 0; j < m; ++j) {
        carry[j] = i == 0 ? static_cast<A>(row[j]) : op(carry[j], static_cast<A>(row[j]));
        out[j] = static_cast<T>(carry[j]);
      }
    }
  }
}

// Scans kRows dense rows of n side by side, as each step of one waits for the step before.
template <int kRows, class A, class T, class Op>
void scan_rows(const T* x, T* y, int64_t n, Op op) {
  if (n == 0) return;
  A carry[kRows];
  for (int k = 0; k < kRows; ++k) {
    carry[k] = static_cast<A>(x[k * n]);
    y[k * n] = x[k * n];
  }
  run_blocks(1, n, kStopBlock, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (int k = 0; k < kRows; ++k) {
        carry[k] = op(carry[k], static_cast<A>(x[k * n + i]));
        y[k * n + i] = static_cast<T>(carry[k]);
      }
    }
  });
}

// The same dense rows as many at a time as kRows is in body(row, kRows).
template <class Body>
void each_rows(int64_t begin, int64_t end, Body&& body) {
  constexpr int kTogether = thresholds::reduce::kScanRows;
  for (; begin + kTogether <= end; begin += kTogether)
    body(begin, std::integral_constant<int, kTogether>());
  for (; begin < end; ++begin) body(begin, std::integral_constant<int, 1>());
}

// x, contiguous and perhaps y itself, as (outer, n, inner) around dimension d.
template <class T, class A, class Op>
void scan_into(const Tensor& x, Tensor& y, int d, Op op) {
  int64_t outer = 1, inner = 1;
  const int64_t n = y.dim() ? y.size(d) : 1;
  for (int i = 0; i < y.dim(); ++i) (i < d ? outer : inner) *= i == d ? 1 : y.size(i);
  const T* from = x.elements<T>();
  T* to = y.elements<T>();
  constexpr int64_t kColumns = thresholds::reduce::kScanColumns;
  const int64_t chunks = (inner + kColumns - 1) / kColumns;
  const int64_t work = n * std::min(inner, kColumns);
  parallel_for(outer * chunks, grain_for(work), [&](int64_t begin, int64_t end) {
    if (inner == 1) {
      return each_rows(begin, end, [&](int64_t row, auto rows) {
        scan_rows<rows(), A>(from + row * n, to + row * n, n, op);
      });
    }
    for (int64_t i = begin; i < end; ++i) {
      const int64_t column = i % chunks * kColumns, at = i / chunks * n * inner + column;
      scan_columns<A>(from + at, to + at, n, inner, std::min(kColumns, inner - column), op);
    }
  });
}

template <DTypeSet Set = dtypes::all, class Op>
void scan(const Tensor& x, int64_t dim, Tensor& y, Op op) {
  const int d = wrapped(dim, x.dim());
  const DType wide = compute_dtype(y.dtype());
  const Tensor from = y.dtype() == DType::Bool ? in_dtype(x, DType::Bool) : x;
  Tensor work = workspace(y, wide);
  const bool direct = from.dtype() == wide && from.is_contiguous();
  if (!direct) copy_into(work, from);
  visit_compute<Set>(y.dtype(), [&]<class C>() {
    using Float = std::conditional_t<is_complex_v<C>, complex128, double>;
    scan_into<C, std::conditional_t<std::is_integral_v<C>, C, Float>>(direct ? from : work, work, d,
                                                                      op);
  });
  write_back(y, work);
}

// Whether v takes the place of the extreme before it: of equal ones the last counts, and NaN before
// all.
template <bool kLargest, class T>
bool takes(T v, T best) {
  const bool loses = kLargest ? v < best : v > best;
  return (!loses & (best == best)) | (v != v);
}

// The extremes so far of `cols` neighbouring columns of n rows, `inner` apart, and their positions
// from 1.
template <bool kLargest, class T>
void extreme_columns(const T* x, T* values, int64_t* indices, int64_t n, int64_t inner,
                     int64_t cols) {
  constexpr int64_t kTile = thresholds::reduce::kScanTile;
  T best[kTile];
  int64_t where[kTile];
  for (int64_t from = 0; from < cols; from += kTile) {
    const int64_t m = std::min(kTile, cols - from);
    std::copy_n(x + from, m, best);
    std::fill_n(where, m, 1);  // also where x is changed before it is read again
    for (int64_t i = 0; i < n; ++i) {
      if (i % (kStopBlock / kTile) == 0) stop_if_requested();
      const int64_t row = i * inner + from;
      for (int64_t j = 0; j < m; ++j) {
        const T v = x[row + j];
        const bool taken = takes<kLargest>(v, best[j]);
        best[j] = taken ? v : best[j];
        where[j] = taken ? i + 1 : where[j];
        values[row + j] = best[j];
        indices[row + j] = where[j];
      }
    }
  }
}

// The same of one dense row of n, by blocks: few have an element that takes the place of the
// extreme before them.
template <bool kLargest, class T>
void extreme_row(const T* x, T* values, int64_t* indices, int64_t n) {
  constexpr int64_t kBlock = thresholds::reduce::kScanBlock;
  T best = x[0];
  int64_t where = 1;
  serial_for(n, 1, [&](int64_t begin, int64_t end) {
    for (int64_t from = begin; from < end; from += kBlock) {
      const int64_t to = std::min(end, from + kBlock);
      if (!takes<kLargest>(fold_run(kLargest ? Fold::Max : Fold::Min, x + from, to - from), best)) {
        std::fill(values + from, values + to, best);
        std::fill(indices + from, indices + to, where);
        continue;
      }
      for (int64_t i = from; i < to; ++i) {
        const bool taken = takes<kLargest>(x[i], best);
        values[i] = best = taken ? x[i] : best;
        indices[i] = where = taken ? i + 1 : where;
      }
    }
  });
}

// x (outer, n, inner), contiguous.
template <bool kLargest, class T>
void extremes_into(const T* x, T* values, int64_t* indices, int64_t outer, int64_t n,
                   int64_t inner) {
  constexpr int64_t kColumns = thresholds::reduce::kScanColumns;
  const int64_t chunks = (inner + kColumns - 1) / kColumns;
  const auto part = [&](int64_t begin, int64_t end) {
    if (inner == 1) {
      for (int64_t row = begin; row < end; ++row)
        extreme_row<kLargest>(x + row * n, values + row * n, indices + row * n, n);
      return;
    }
    for (int64_t i = begin; i < end; ++i) {
      const int64_t column = i % chunks * kColumns, at = i / chunks * n * inner + column;
      extreme_columns<kLargest>(x + at, values + at, indices + at, n, inner,
                                std::min(kColumns, inner - column));
    }
  };
  parallel_for(outer * chunks, grain_for(n * std::min(inner, kColumns)), part);
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
  const int64_t outer = x.numel() / (n * inner);
  visit_compute<dtypes::boolean | dtypes::real>(x.dtype(), [&]<class T>() {
    (largest ? extremes_into<true, T>
             : extremes_into<false, T>)(x.elements<T>(), best.elements<T>(),
                                        where.elements<int64_t>(), outer, n, inner);
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

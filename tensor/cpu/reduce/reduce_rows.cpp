// tensor/cpu/reduce/reduce_rows.cpp: the kernels of reductions that need two passes over each row:
// variance, standard deviation and logsumexp.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor/core/views.h"
#include "tensor/cpu/common/contiguous.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/normalization/normalization.h"
#include "tensor/cpu/reduce/reduce.h"
#include "tensor/kernels_reduce.h"

namespace moonlet::cpu {

namespace {

// x with `dims` moved to the end, contiguous, as `dtype`: one row per result. A row's elements come
// in the order in which they lie in memory, so that a transposed x may need no copy.
Tensor rows_last(const Tensor& x, const Dims& dims, DType dtype) {
  Dims sizes, strides;
  for (int d = 0; d < x.dim(); ++d) {
    if (dims.contains(d)) continue;
    sizes.push_back(x.size(d));
    strides.push_back(x.stride(d));
  }
  const int kept = sizes.size();
  for (int64_t dim : dims) {
    const int d = static_cast<int>(dim);
    int at = kept;
    while (at < strides.size() && strides[at] >= x.stride(d)) ++at;
    sizes.insert(at, x.size(d));
    strides.insert(at, x.stride(d));
  }
  return converted(alias(x, sizes, strides, x.offset()), dtype);
}

// The sum of run_sum(begin, count) over runs of at most kRunLength elements, joined in a tree.
template <class T, class RunSum>
T tree_sum(int64_t begin, int64_t end, const RunSum& run_sum) {
  if (end - begin <= kRunLength) return run_sum(begin, end - begin);
  const int64_t middle = begin + ((end - begin) / 2 + kRunLength - 1) / kRunLength * kRunLength;
  return tree_sum<T>(begin, middle, run_sum) + tree_sum<T>(middle, end, run_sum);
}

template <class T>
bool all_equal(const T* x, int64_t n) {
  for (int64_t i = 0; i < n; i += kRunLength) {
    stop_if_requested();
    const Extremes<T> some = extremes(x + i, std::min(n - i, kRunLength));
    if (!(some.least == x[0] && some.largest == x[0])) return false;
  }
  return true;
}

enum class Spreads { Variance, Deviation };

// Of a row that is repeated so many times.
template <class T>
T row_spread(Spreads kind, const T* x, int64_t n, int64_t times, double correction) {
  NormRun<T> run;
  run.x = x, run.n = n;
  const auto rows = static_cast<double>(n), copies = static_cast<double>(times);
  const double divisor = std::max(rows * copies - correction, 0.0);
  Spread s{0, 0, 0};
  if (n > 0) {
    const NormSums t = NormLoops<T>::statistics(run);
    // What rounding leaves of equal numbers is no spread.
    const double rounding = t.first * std::numeric_limits<T>::epsilon();
    const bool may_be_equal = t.second <= rows * rounding * rounding;
    if (!may_be_equal || !all_equal(x, n)) s = spread_of(run, t, 0, true);
  }
  s.squares *= copies;
  return static_cast<T>(kind == Spreads::Variance ? s.variance(divisor) : s.deviation(divisor));
}

// The largest real part of [begin, end).
template <class T>
auto largest_of(const T* x, int64_t begin, int64_t end) {
  if constexpr (is_complex_v<T>) {
    auto most = std::real(x[begin]);
    for (int64_t i = begin; i < end; ++i) {
      const auto some = std::real(x[i]);
      if (some > most || some != some) most = some;
    }
    return most;
  } else {
    return fold_run(Fold::Max, x + begin, end - begin);
  }
}

template <class T>
T row_logsumexp(const T* x, int64_t n) {
  using Real = decltype(std::real(T()));
  Real most = -std::numeric_limits<Real>::infinity();
  run_blocks(0, n, kStopBlock, [&](int64_t begin, int64_t end) {
    const Real some = largest_of(x, begin, end);
    if (some > most || some != some) most = some;
  });
  if (!std::isfinite(most)) return T(most);
  const T total = tree_sum<T>(0, n, [&](int64_t at, int64_t k) {
    stop_if_requested();
    if constexpr (!is_complex_v<T>) return sum_exp(x + at, k, most);
    T sum = 0;
    for (int64_t i = 0; i < k; ++i) sum += std::exp(x[at + i] - most);
    return sum;
  });
  return most + std::log(total);
}

// The same of neighbouring rows, if they are short: vectors go across them.
template <class T>
bool short_logsumexp(const T* x, int64_t rows, int64_t n, T* y) {
  if constexpr (!is_complex_v<T>)
    if (n <= kShortRow) logsumexp_across(x, rows, n, y);
  return !is_complex_v<T> && n <= kShortRow;
}

// Calls some(row, count, to) for neighbouring rows of n elements, of which each makes one of y.
template <class T, class Some>
void each_rows(const Tensor& rows, int64_t n, Tensor& y, const Some& some) {
  const T* from = rows.elements<T>();
  Tensor wide = y.dtype() == dtype_of<T> ? y : empty_plain(y.sizes(), {dtype_of<T>, y.device()});
  T* to = wide.elements<T>();
  parallel_for(y.numel(), grain_for(n * 4), [&](int64_t begin, int64_t end) {
    some(from + begin * n, end - begin, to + begin);
  });
  if (!wide.is_same(y)) copy_into(y, wide);
}
template <class T, class Row>
void each_row(const Tensor& rows, int64_t n, Tensor& y, const Row& row) {
  each_rows<T>(rows, n, y, [&](const T* from, int64_t count, T* to) {
    for (int64_t i = 0; i < count; ++i) to[i] = row(from + i * n, n);
  });
}

void real_spread(Spreads kind, const Tensor& x, const Dims& dims, double correction, Tensor& y) {
  const auto [once, times] = unexpanded(x, dims);
  const Tensor rows = rows_last(once, dims, compute_dtype(y.dtype()));
  visit_compute<dtypes::floating>(y.dtype(), [&, &once = once, times = times]<class T>() {
    each_row<T>(rows, reduced_count(once, dims), y, [&](const T* row, int64_t n) {
      return row_spread(kind, row, n, times, correction);
    });
  });
}

// The variance of complex numbers is that of their real parts plus that of the imaginary ones.
void spread(Spreads kind, const Tensor& x, const Dims& dims, double correction, Tensor& y) {
  if (!is_complex(x.dtype())) return real_spread(kind, x, dims, correction, y);
  const Tensor parts = views::view_as_real(x);
  Tensor imaginary = empty_plain(y.sizes(), options_of(y));
  real_spread(kind, views::select(parts, x.dim(), 0), dims, correction, y);
  real_spread(kind, views::select(parts, x.dim(), 1), dims, correction, imaginary);
  visit<bit(DType::Float32) | bit(DType::Float64)>(y.dtype(), [&]<class T>() {
    T* to = y.elements<T>();
    const T* more = imaginary.elements<T>();
    serial_for(y.numel(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        to[i] = kind == Spreads::Variance ? to[i] + more[i] : std::hypot(to[i], more[i]);
    });
  });
}

}  // namespace

void var(const Tensor& x, const Dims& dim, double correction, bool, Tensor& y) {
  spread(Spreads::Variance, x, dim, correction, y);
}

void std(const Tensor& x, const Dims& dim, double correction, bool, Tensor& y) {
  spread(Spreads::Deviation, x, dim, correction, y);
}

void logsumexp(const Tensor& x, const Dims& dims, bool, Tensor& y) {
  const auto [once, times] = unexpanded(x, dims);
  const Tensor rows = rows_last(once, dims, compute_dtype(y.dtype()));
  constexpr DTypeSet kAccepted = dtypes::floating | dtypes::complex;
  visit_compute<kAccepted>(y.dtype(), [&, &once = once, times = times]<class T>() {
    const T more = static_cast<T>(std::log(static_cast<double>(times)));
    const int64_t n = reduced_count(once, dims);
    each_rows<T>(rows, n, y, [&](const T* from, int64_t count, T* to) {
      if (!short_logsumexp(from, count, n, to))
        for (int64_t i = 0; i < count; ++i) to[i] = row_logsumexp(from + i * n, n);
      for (int64_t i = 0; i < count && times > 1; ++i) to[i] += more;
    });
  });
}

}  // namespace moonlet::cpu

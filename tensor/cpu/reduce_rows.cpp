// tensor/cpu/reduce_rows.cpp: the kernels of reductions that need two passes over each row:
// variance and logsumexp.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor/cpu/contiguous.h"
#include "tensor/cpu/parallel.h"
#include "tensor/cpu/reduce.h"
#include "tensor/kernels_reduce.h"

namespace moonlet::cpu {

namespace {

// x with `dims` moved to the end, contiguous and at least as wide as float32: one row per result.
Tensor rows_last(const Tensor& x, const Dims& dims) {
  Dims sizes, strides;
  for (int pass = 0; pass < 2; ++pass) {
    for (int d = 0; d < x.dim(); ++d) {
      if (dims.contains(d) != (pass == 1)) continue;
      sizes.push_back(x.size(d));
      strides.push_back(x.stride(d));
    }
  }
  return converted(alias(x, sizes, strides, x.offset()), compute_dtype(x.dtype()));
}

// The sum of run_sum(begin, count) over runs of at most kRunLength elements, joined in a tree.
template <class T, class RunSum>
T tree_sum(int64_t begin, int64_t end, const RunSum& run_sum) {
  if (end - begin <= kRunLength) return run_sum(begin, end - begin);
  const int64_t middle = begin + ((end - begin) / 2 + kRunLength - 1) / kRunLength * kRunLength;
  return tree_sum<T>(begin, middle, run_sum) + tree_sum<T>(middle, end, run_sum);
}

// Of a row that is repeated so many times.
template <class T>
T row_variance(const T* x, int64_t n, int64_t times, int64_t correction) {
  constexpr int64_t kBlock = 512;
  const T mean = tree_sum<T>(0, n,
                             [&](int64_t at, int64_t k) {
                               stop_if_requested();
                               return fold_run(Fold::Sum, x + at, k);
                             }) /
                 static_cast<T>(n);
  T block[kBlock];
  const T squares = tree_sum<T>(0, n, [&](int64_t at, int64_t k) {
    stop_if_requested();
    T total = 0;
    for (int64_t i = 0; i < k; i += kBlock) {
      const int64_t m = std::min(kBlock, k - i);
      for (int64_t j = 0; j < m; ++j) block[j] = x[at + i + j] - mean;
      total += fold_run(Fold::SumSquares, static_cast<const T*>(block), m);
    }
    return total;
  });
  // In double: any correction is allowed, and the difference of integers could overflow.
  const double count = static_cast<double>(n) * static_cast<double>(times);
  return static_cast<T>(times) * squares /
         static_cast<T>(std::max(count - static_cast<double>(correction), 0.0));
}

template <class T>
T row_logsumexp(const T* x, int64_t n) {
  T most = -std::numeric_limits<T>::infinity();
  run_blocks(0, n, kStopBlock, [&](int64_t begin, int64_t end) {
    const T some = fold_run(Fold::Max, x + begin, end - begin);
    if (some > most || some != some) most = some;
  });
  if (!std::isfinite(most)) return most;
  const T total = tree_sum<T>(0, n, [&](int64_t at, int64_t k) {
    stop_if_requested();
    T sum = 0;
    for (int64_t i = 0; i < k; ++i) sum += std::exp(x[at + i] - most);
    return sum;
  });
  return most + std::log(total);
}

template <class T, class Row>
void each_row(const Tensor& rows, int64_t n, Tensor& y, const Row& row) {
  const T* from = rows.elements<T>();
  Tensor wide = y.dtype() == dtype_of<T> ? y : empty_plain(y.sizes(), {dtype_of<T>, y.device()});
  T* to = wide.elements<T>();
  parallel_for(y.numel(), grain_for(n * 4), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = row(from + i * n, n);
  });
  if (!wide.is_same(y)) copy_into(y, wide);
}

}  // namespace

void var(const Tensor& x, const Dims& dim, int64_t correction, bool, Tensor& y) {
  const Dims dims = wrap_dims(dim, x.dim(), "var");
  const auto [once, times] = unexpanded(x, dims);
  const Tensor rows = rows_last(once, dims);
  const auto fill = [&, &once = once, times = times]<class T>() {
    each_row<T>(rows, reduced_count(once, dims), y,
                [&](const T* row, int64_t n) { return row_variance(row, n, times, correction); });
  };
  if (rows.dtype() == DType::Float64) return fill.template operator()<double>();
  fill.template operator()<float>();
}

void logsumexp(const Tensor& x, const Dims& dim, bool, Tensor& y) {
  const Dims dims = wrap_dims(dim, x.dim(), "logsumexp");
  const auto [once, times] = unexpanded(x, dims);
  const Tensor rows = rows_last(once, dims);
  const auto fill = [&, &once = once, times = times]<class T>() {
    const T more = static_cast<T>(std::log(static_cast<double>(times)));
    each_row<T>(rows, reduced_count(once, dims), y,
                [&](const T* row, int64_t n) { return row_logsumexp(row, n) + more; });
  };
  if (rows.dtype() == DType::Float64) return fill.template operator()<double>();
  fill.template operator()<float>();
}

}  // namespace moonlet::cpu

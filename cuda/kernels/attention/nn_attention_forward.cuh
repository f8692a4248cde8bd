// cuda/kernels/attention/nn_attention_forward.cuh: the device's side of attention forward that its
// kernels share: the softmax of a row as its tiles pass by, and the results.
#pragma once

#include "cuda/kernels/attention/nn_attention_tiles.cuh"

namespace moonlet::cuda::attention {

// The keys that a block's queries take part in: with is_causal none behind them, of several ranges
// its own.
struct KeyRange {
  int64_t begin, end;
  template <class C>
  __device__ KeyRange(const Problem<C>& p, const Work& w) : begin(w.split * p.range) {
    const int64_t seen = p.causal ? min(p.keys, (w.tile + 1) * kOwn) : p.keys;
    end = p.splits > 1 ? min(seen, begin + p.range) : seen;
  }
};

// Calls f(work) for each work of a block. With is_causal the last tiles see the most keys: they
// come first.
template <class C, class F>
__device__ __forceinline__ void each_work(const Problem<C>& p, const F& f) {
  const int64_t tiles = (p.queries + kOwn - 1) / kOwn;
  for (int64_t i = blockIdx.x; i < p.entries * tiles * p.parts * p.splits; i += gridDim.x) {
    Work work(i, tiles, p.parts, p.splits);
    work.tile = tiles - 1 - work.tile;
    f(work);
  }
}

// A thread's rows of the softmax so far: the greatest score, and this thread's part of the sum.
template <class C>
struct Running {
  C top[2] = {hidden<C>(), hidden<C>()}, sum[2] = {C(0), C(0)};
};

// The scores become exp(score - top), and what was added up is scaled to the new top: rarely, as it
// is seldom a new one.
template <class T, int kCols>
__device__ __forceinline__ void weigh(Part<typename T::Sum, kCols>& scores,
                                      Running<typename T::Sum>& row,
                                      Part<typename T::Sum, T::kWidth>& y) {
  using C = typename T::Sum;
  C top[2] = {row.top[0], row.top[1]};
  scores.each([&](C v, int upper, int) { top[upper] = max(top[upper], v); });
  C shift[2], factor[2];
  MOONLET_UNROLL
  for (int upper = 0; upper < 2; ++upper) {
    top[upper] = combine_row(top[upper], [](C a, C b) { return max(a, b); });
    shift[upper] = top[upper] == hidden<C>() ? C(0) : top[upper];
    factor[upper] = power(row.top[upper] - shift[upper]);
    row.top[upper] = top[upper];
    row.sum[upper] *= factor[upper];
  }
  scores.each([&](C& v, int upper, int) {
    v = power(v - shift[upper]);
    row.sum[upper] += v;
  });
  if (__any_sync(kAllLanes, factor[0] != C(1) || factor[1] != C(1)))
    y.each([&](C& v, int upper, int) { v *= factor[upper]; });
}

// The results of a range of the keys, to be combined with those of the others.
template <class C, int kCols>
__device__ __forceinline__ void store_split(const Problem<C>& p, int64_t split, int64_t entry,
                                            int64_t first, int64_t from, Part<C, kCols>& sums,
                                            const C (&factor)[2]) {
  const int64_t row = split * p.entries * p.queries + entry + first + row_in_warp(),
                columns = p.rows[kGradient].columns;
  sums.each([&](C v, int upper, int col) {
    if (first + row_in_warp() + 8 * upper < p.queries && from + col < columns)
      p.split_results[(row + 8 * upper) * columns + from + col] = v * factor[upper];
  });
}

// The results, and the logarithms of the sums.
template <class T>
__device__ __forceinline__ void finish(const Problem<typename T::Sum>& p, const Work& w,
                                       int64_t entry, int64_t first, const Rows& y,
                                       Running<typename T::Sum>& row,
                                       Part<typename T::Sum, T::kWidth>& sums,
                                       typename T::Element* staging) {
  using C = typename T::Sum;
  C factor[2];
  MOONLET_UNROLL
  for (int upper = 0; upper < 2; ++upper) {
    const C sum = combine_row(row.sum[upper], AddUp());
    factor[upper] = sum == C(0) ? C(0) : p.kept / sum;
    const int64_t query = first + row_in_warp() + 8 * upper;
    if (w.part != 0 || threadIdx.x % 4 != 0 || query >= p.queries) continue;
    const C log_sum = sum == C(0) ? C(HUGE_VAL) : row.top[upper] / kUnits<C> + vlog(sum);
    if (p.splits > 1)
      p.split_sums[w.split * p.entries * p.queries + entry + query] = log_sum;
    else
      p.logsumexp[entry + query] = log_sum;
  }
  if (p.splits > 1) return store_split(p, w.split, entry, first, w.part * T::kWidth, sums, factor);
  store_part<T>(sums, staging, y, first, p.queries, w.part * T::kWidth,
                [&](C v, int upper) { return v * factor[upper]; });
}

}  // namespace moonlet::cuda::attention

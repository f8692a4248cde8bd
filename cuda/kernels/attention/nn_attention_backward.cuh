// cuda/kernels/attention/nn_attention_backward.cuh: the device's side of the gradients of
// attention, for kernels of each kind of tiles.
#pragma once

#include "cuda/kernels/attention/nn_attention_tiles.cuh"

namespace moonlet::cuda::attention {

// What tiles of warpgroups do in other ways than those of warps.
template <class T>
struct Products {
  // Scores as the first factor of `add`.
  using Scores = Part<typename T::Sum, T::kRows>;
  static __device__ __forceinline__ Scores& factors(Scores& scores) { return scores; }
  // sums += scores times the rows that pass by.
  template <int kCols>
  static __device__ __forceinline__ void add(Part<typename T::Sum, kCols>& sums, Scores& scores,
                                             typename T::Element* memory,
                                             const typename T::Element* other) {
    add_scored<T>(sums, scores, memory, other);
  }
  // What has arrived, before the barrier behind which it is multiplied.
  static __device__ __forceinline__ void show() {}
};

// What a block of the way back has in shared memory and in registers. Its own rows are queries and
// their gradients, or keys and values; the others pass by.
template <class T>
struct Backward {
  using C = typename T::Sum;
  using Element = typename T::Element;
  Element *own[2], *pairs, *scores;
  uint64_t* state;  // of dropout's random numbers
  C* of_queries;    // the logarithms of sums, and the dots, of the queries of both pairs
  Part<C, T::kSums> sums[2];

  __device__ Backward(Element* memory, uint64_t* of_dropout) : state(of_dropout) {
    own[0] = memory;
    own[1] = own[0] + T::kOwnSize;
    pairs = own[1] + T::kOwnSize;
    scores = pairs + 2 * T::kPairSize + warp_rows() * T::kScoreStride;
    of_queries = reinterpret_cast<C*>(pairs + 2 * T::kPairSize + T::kScoreSize);
    sums[0].clear();
    sums[1].clear();
  }
  __device__ Element* pair(int turn) const { return pairs + turn * T::kPairSize; }
  __device__ C* log_sums(int turn) const { return of_queries + turn * 2 * T::kRows; }
  __device__ C* dots(int turn) const { return log_sums(turn) + T::kRows; }
};

// Where an entry within an entry has its rows.
struct Sides {
  Pair x[2];
  int64_t mask, entry, states;
};

template <class T, bool kByKeys>
__device__ __forceinline__ Sides sides_at(const Problem<typename T::Sum>& p, int64_t entry,
                                          int64_t within) {
  const auto apart = positions(p.apart, entry), shared = positions(p.shared, within);
  const auto rows = [&](Operand o) { return rows_at<T>(p.rows[o], apart.at[o] + shared.at[o]); };
  const int64_t mask = apart.at[kMask] + shared.at[kMask],
                first = apart.at[kEntry] + shared.at[kEntry],
                states = apart.at[kStates] + shared.at[kStates];
  if constexpr (kByKeys)
    return {{{rows(kKey), rows(kQuery)}, {rows(kValue), rows(kGradient)}}, mask, first, states};
  else
    return {{{rows(kQuery), rows(kKey)}, {rows(kGradient), rows(kValue)}}, mask, first, states};
}

// The tile of scores that a warp has, of rows from `own` and columns from `other` on: the products
// of both become weights and the gradients of the scores.
template <class T, bool kByKeys>
__device__ __forceinline__ void gradients(const Problem<typename T::Sum>& p, const Backward<T>& b,
                                          const Sides& s, int turn, int64_t own, int64_t other,
                                          Part<typename T::Sum, T::kRows>& weights,
                                          Part<typename T::Sum, T::kRows>& by_weights) {
  using C = typename T::Sum;
  score<kByKeys>(p, s.mask, own, other, weights);
  uint32_t dropped = 0;
  if (p.states != nullptr) {
    dropped = dropped_scores<kByKeys, T::kRows>(p, b.state, own, other);
    drop(by_weights, dropped, p.kept);
  }
  C log_sums[2] = {}, dots[2] = {};
  MOONLET_UNROLL
  for (int upper = 0; upper < 2; ++upper) {
    const int64_t query = own + row_in_warp() + 8 * upper;
    if (kByKeys || query >= p.queries) continue;
    log_sums[upper] = kUnits<C> * p.logsumexp[s.entry + query];
    dots[upper] = p.dots[s.entry + query];
  }
  const int pair = 2 * (threadIdx.x % 4);
  MOONLET_UNROLL
  for (int n = 0; n < T::kRows / 8; ++n) MOONLET_UNROLL
  for (int i = 0; i < 4; ++i) {
    const int col = n * 8 + pair + i % 2;
    const C log_sum = kByKeys ? kUnits<C> * b.log_sums(turn)[col] : log_sums[i / 2],
            dot = kByKeys ? b.dots(turn)[col] : dots[i / 2];
    const C weight = power(weights.v[n][i] - log_sum);
    // What is not seen may be no number.
    const C gradient = weight == C(0) ? C(0) : weight * (by_weights.v[n][i] - dot);
    weights.v[n][i] = weight;
    by_weights.v[n][i] = gradient;
  }
  if (kByKeys && p.states != nullptr) drop(weights, dropped, C(1));
}

// Begins to bring the tiles that pass by from row `other` on, and what belongs to queries.
template <class T, bool kByKeys>
__device__ __forceinline__ void fetch_pair(const Problem<typename T::Sum>& p, const Backward<T>& b,
                                           const Sides& s, int turn, int64_t other, int64_t from,
                                           bool resident) {
  using C = typename T::Sum;
  const int64_t end = kByKeys ? p.queries : p.keys;
  if (resident) {
    MOONLET_UNROLL
    for (int i = 0; i < 2; ++i)
      fetch_tile<T, T::kRows>(b.pair(turn) + i * T::kOtherSize, s.x[i].other, other, end, from);
  }
  if (!kByKeys || threadIdx.x >= T::kRows) return;
  const int64_t query = other + threadIdx.x;
  const int bytes = query < end ? sizeof(C) : 0;
  copy_async<sizeof(C)>(b.log_sums(turn) + threadIdx.x, p.logsumexp + s.entry + query, bytes);
  copy_async<sizeof(C)>(b.dots(turn) + threadIdx.x, p.dots + s.entry + query, bytes);
}

template <class T>
__device__ __forceinline__ void round_pair(typename T::Element* pair) {
  round_tile<T, T::kRows>(pair);
  round_tile<T, T::kRows>(pair + T::kOtherSize);
}

// What a tile that passes by adds to the block's own rows.
template <class T, bool kByKeys>
__device__ __forceinline__ void pass(const Problem<typename T::Sum>& p, Backward<T>& b,
                                     const Sides& s, int turn, int64_t first, int64_t other,
                                     int64_t from, bool resident) {
  using C = typename T::Sum;
  const int64_t end_own = kByKeys ? p.keys : p.queries, end = kByKeys ? p.queries : p.keys;
  auto* const pair = b.pair(turn);
  Part<C, T::kRows> weights, by_weights;
  if constexpr (T::kWhole) {
    Products<T>::multiply(weights, by_weights, b.own, pair);
  } else {
    weights.clear();
    by_weights.clear();
    add_products<T>(weights, b.own[0], pair, s.x[0], first, end_own, other, end, resident);
    add_products<T>(by_weights, b.own[1], pair + T::kOtherSize, s.x[1], first, end_own, other, end,
                    resident);
  }
  gradients<T, kByKeys>(p, b, s, turn, first + warp_rows(), other, weights, by_weights);
  if (!resident) {
    __syncthreads();
    fetch_pair<T, kByKeys>(p, b, s, turn, other, from, true);
    wait_copies();
    round_pair<T>(pair);
    __syncthreads();
  }
  const int64_t at = resident ? from : 0;
  auto&& first_factors = Products<T>::factors(by_weights);
  auto&& second_factors = Products<T>::factors(weights);
  if (p.rows[kFirst].data != nullptr)
    Products<T>::add(b.sums[0], first_factors, b.scores, pair + at);
  if (kByKeys && p.rows[kSecond].data != nullptr)
    Products<T>::add(b.sums[1], second_factors, b.scores, pair + T::kOtherSize + at);
}

// What an entry within an entry adds.
template <class T, bool kByKeys>
__device__ __forceinline__ void pass_all(const Problem<typename T::Sum>& p, Backward<T>& b,
                                         const Sides& s, int64_t first, int64_t from,
                                         bool resident) {
  // With is_causal keys are seen from their own position on, and queries see up to it.
  const int64_t end_own = kByKeys ? p.keys : p.queries,
                start = kByKeys && p.causal ? first / T::kRows * T::kRows : 0,
                end = kByKeys    ? p.queries
                      : p.causal ? min(p.keys, first + kOwn)
                                 : p.keys;
  if (start >= end) return;
  __syncthreads();
  read_state(p, s.states, b.state);
  if (resident) {
    MOONLET_UNROLL
    for (int i = 0; i < 2; ++i) fetch_tile<T, kOwn>(b.own[i], s.x[i].own, first, end_own, 0);
  }
  fetch_pair<T, kByKeys>(p, b, s, 0, start, 0, resident);
  int turn = 0;
  for (int64_t other = start; other < end; other += T::kRows, turn ^= 1) {
    wait_copies();
    if (resident) {
      if (other == start) {
        MOONLET_UNROLL
        for (int i = 0; i < 2; ++i) round_tile<T, kOwn>(b.own[i]);
      }
      round_pair<T>(b.pair(turn));
    }
    Products<T>::show();
    __syncthreads();
    if (other + T::kRows < end)
      fetch_pair<T, kByKeys>(p, b, s, turn ^ 1, other + T::kRows, 0, resident);
    pass<T, kByKeys>(p, b, s, turn, first, other, from, resident);
  }
}

template <class T, bool kByKeys>
__device__ __forceinline__ void attend_back(const Problem<typename T::Sum>& p, const Work& w,
                                            typename T::Element* memory, uint64_t* state) {
  using C = typename T::Sum;
  Backward<T> b(memory, state);
  const int64_t first = w.tile * kOwn, from = w.part * T::kSums,
                end_own = kByKeys ? p.keys : p.queries;
  const bool resident =
      T::kWhole || (p.rows[kQuery].columns <= T::kWidth && p.rows[kValue].columns <= T::kWidth);
  for (int64_t within = 0; within < p.within; ++within)
    pass_all<T, kByKeys>(p, b, sides_at<T, kByKeys>(p, w.entry, within), first, from, resident);
  // A warp's rows of its own tiles are its alone once they are read for the last time.
  __syncthreads();
  const Offsets<kOperands> position = positions(p.apart, w.entry);
  const auto& at = position.at;
  auto* staging = b.own[0] + warp_rows() * T::kStride;
  if (p.rows[kFirst].data != nullptr)
    store_part<T>(b.sums[0], staging, rows_at<T>(p.rows[kFirst], at[kFirst]), first + warp_rows(),
                  end_own, from, [&](C v, int) { return v * p.scale; });
  if (kByKeys && p.rows[kSecond].data != nullptr)
    store_part<T>(b.sums[1], staging, rows_at<T>(p.rows[kSecond], at[kSecond]), first + warp_rows(),
                  end_own, from, [&](C v, int) { return v * p.kept; });
  __syncthreads();
}

template <class T, bool kByKeys>
__device__ __forceinline__ void each_tile_back(const Problem<typename T::Sum>& p,
                                               typename T::Element* memory, uint64_t* state) {
  const int64_t tiles = ((kByKeys ? p.keys : p.queries) + kOwn - 1) / kOwn;
  for (int64_t i = blockIdx.x; i < p.entries * tiles * p.parts; i += gridDim.x)
    attend_back<T, kByKeys>(p, Work(i, tiles, p.parts), memory, state);
}

}  // namespace moonlet::cuda::attention

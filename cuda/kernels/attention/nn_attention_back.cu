// cuda/kernels/attention/nn_attention_back.cu: the gradients of attention. Its weights are computed
// again, once by tiles of queries and once by tiles of keys, whose sums a block adds up alone and
// in order, so results repeat (Dao et al. 2022, arXiv:2205.14135).
#include "cuda/kernels/attention/nn_attention.cuh"
#include "cuda/libraries/cudnn_attention.h"
#include "tensor/kernels_reduce.h"

namespace moonlet::cuda {

using namespace attention;  // NOLINT(google-build-using-namespace)

namespace {

// Of each query the sum of gradient times result, a warp each.
template <class C, class Element>
__global__ void __launch_bounds__(kThreads)
    dots_kernel(MOONLET_GRID_CONSTANT const Problem<C> p, C* dots) {
  const Rows &grad = p.rows[kGradient], &y = p.rows[kFirst];
  const int64_t count = p.entries * p.queries;
  const int lane = threadIdx.x % kWarp;
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp; row < count;
       row += static_cast<int64_t>(gridDim.x) * kWarps) {
    const Offsets<kOperands> position = positions(p.apart, row / p.queries);
    const int64_t query = row % p.queries;
    const auto* g =
        reinterpret_cast<const Element*>(grad.data) + position.at[kGradient] + query * grad.stride;
    const auto* r =
        reinterpret_cast<const Element*>(y.data) + position.at[kFirst] + query * y.stride;
    C sum = C(0);
    for (int64_t i = lane; i < y.columns; i += kWarp) sum += convert<C>(g[i]) * convert<C>(r[i]);
    sum = combine_lanes(sum, kWarp, AddUp());
    if (lane == 0) dots[row] = sum;
  }
}

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
  __device__ C* log_sums(int turn) const { return of_queries + turn * 2 * kOther; }
  __device__ C* dots(int turn) const { return log_sums(turn) + kOther; }
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
                                          Part<typename T::Sum, kOther>& weights,
                                          Part<typename T::Sum, kOther>& by_weights) {
  using C = typename T::Sum;
  score<kByKeys>(p, s.mask, own, other, weights);
  uint32_t dropped = 0;
  if (p.states != nullptr) {
    dropped = dropped_scores<kByKeys>(p, b.state, own, other);
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
  for (int n = 0; n < kOther / 8; ++n) MOONLET_UNROLL
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
      fetch_tile<T, kOther>(b.pair(turn) + i * T::kOtherSize, s.x[i].other, other, end, from);
  }
  if (!kByKeys || threadIdx.x >= kOther) return;
  const int64_t query = other + threadIdx.x;
  const int bytes = query < end ? sizeof(C) : 0;
  copy_async<sizeof(C)>(b.log_sums(turn) + threadIdx.x, p.logsumexp + s.entry + query, bytes);
  copy_async<sizeof(C)>(b.dots(turn) + threadIdx.x, p.dots + s.entry + query, bytes);
}

template <class T>
__device__ __forceinline__ void round_pair(typename T::Element* pair) {
  round_tile<T, kOther>(pair);
  round_tile<T, kOther>(pair + T::kOtherSize);
}

// What a tile that passes by adds to the block's own rows.
template <class T, bool kByKeys>
__device__ __forceinline__ void pass(const Problem<typename T::Sum>& p, Backward<T>& b,
                                     const Sides& s, int turn, int64_t first, int64_t other,
                                     int64_t from, bool resident) {
  using C = typename T::Sum;
  const int64_t end_own = kByKeys ? p.keys : p.queries, end = kByKeys ? p.queries : p.keys;
  auto* const pair = b.pair(turn);
  Part<C, kOther> weights, by_weights;
  weights.clear();
  by_weights.clear();
  add_products<T>(weights, b.own[0], pair, s.x[0], first, end_own, other, end, resident);
  add_products<T>(by_weights, b.own[1], pair + T::kOtherSize, s.x[1], first, end_own, other, end,
                  resident);
  gradients<T, kByKeys>(p, b, s, turn, first + warp_rows(), other, weights, by_weights);
  if (!resident) {
    __syncthreads();
    fetch_pair<T, kByKeys>(p, b, s, turn, other, from, true);
    wait_copies();
    round_pair<T>(pair);
    __syncthreads();
  }
  const int64_t at = resident ? from : 0;
  if (p.rows[kFirst].data != nullptr) add_scored<T>(b.sums[0], by_weights, b.scores, pair + at);
  if (kByKeys && p.rows[kSecond].data != nullptr)
    add_scored<T>(b.sums[1], weights, b.scores, pair + T::kOtherSize + at);
}

// What an entry within an entry adds.
template <class T, bool kByKeys>
__device__ __forceinline__ void pass_all(const Problem<typename T::Sum>& p, Backward<T>& b,
                                         const Sides& s, int64_t first, int64_t from,
                                         bool resident) {
  // With is_causal keys are seen from their own position on, and queries see up to it.
  const int64_t end_own = kByKeys ? p.keys : p.queries,
                start = kByKeys && p.causal ? first / kOther * kOther : 0,
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
  for (int64_t other = start; other < end; other += kOther, turn ^= 1) {
    wait_copies();
    if (resident) {
      if (other == start) {
        MOONLET_UNROLL
        for (int i = 0; i < 2; ++i) round_tile<T, kOwn>(b.own[i]);
      }
      round_pair<T>(b.pair(turn));
    }
    __syncthreads();
    if (other + kOther < end)
      fetch_pair<T, kByKeys>(p, b, s, turn ^ 1, other + kOther, 0, resident);
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
  const bool resident = p.rows[kQuery].columns <= T::kWidth && p.rows[kValue].columns <= T::kWidth;
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
__global__ void __launch_bounds__(kThreads, 2)
    attend_back_kernel(MOONLET_GRID_CONSTANT const Problem<typename T::Sum> p) {
  MOONLET_DYNAMIC_SHARED(typename T::Element, memory);
  __shared__ State state;
  const int64_t tiles = ((kByKeys ? p.keys : p.queries) + kOwn - 1) / kOwn;
  for (int64_t i = blockIdx.x; i < p.entries * tiles * p.parts; i += gridDim.x)
    attend_back<T, kByKeys>(p, Work(i, tiles, p.parts), memory, state.get());
}

// Calls f.template operator()<T>() with the tiles for rows of so many columns.
template <class U, class F>
void visit_backward_tiles(const Call& call, int64_t columns, F&& f) {
  if constexpr (sizeof(typename U::Element) == 2)
    visit_tiles<true, Tiles<U, 32>, Tiles<U, 64>, Tiles<U, 96>, Tiles<U, 128>, Tiles<U, 192>,
                Tiles<U, 256>>(call, columns, f);
  else if constexpr (sizeof(typename U::Element) == 4)
    visit_tiles<true, Tiles<U, 64>>(call, columns, f);
  else
    visit_tiles<true, Tiles<U, 32>>(call, columns, f);
}

// The batch as entries whose gradients of x nobody shares, and what is shared within each.
struct SharedBatch {
  Dims apart, shared;
  SharedBatch(const Dims& batch, const Tensor& x)
      : apart(batch), shared(Dims::filled(batch.size(), 1)) {
    const Dims own = batch_of(x);
    for (int d = 0; d < batch.size(); ++d) {
      const int at = d - (batch.size() - own.size());
      if (at >= 0 && own[at] == batch[d]) continue;
      shared[d] = batch[d];
      apart[d] = 1;
    }
  }
};

template <class C, class Element>
void compute_dots(const Call& call, Batch batch, const Tensor& y, Tensor& dots) {
  batch.set(kFirst, y);
  const unsigned blocks = blocks_for((dots.numel() + kWarps - 1) / kWarps * kBlock);
  MOONLET_LAUNCH((dots_kernel<C, Element>), blocks, kThreads, 0, call.stream(),
                 batch.problem<C>(batch.sizes, {}, 1, false), dots.elements<C>());
  call.done();
}

// The gradients of `first` and, of the way by keys, of `second`, either of which may be left out.
// Both are broadcast over the batch in one way.
template <class T, bool kByKeys>
void launch_back(const Call& call, Batch batch, const SharedBatch& shared, const Tensor* first,
                 const Tensor* second, double scale, bool causal, const Tensor& logsumexp,
                 const Tensor& dots) {
  using C = typename T::Sum;
  if (first) batch.set(kFirst, *first);
  if (second) batch.set(kSecond, *second);
  auto p = batch.problem<C>(shared.apart, shared.shared, scale, causal);
  p.parts = std::max(parts_of(first ? first->size(-1) : 0, T::kSums),
                     parts_of(second ? second->size(-1) : 0, T::kSums));
  p.logsumexp = logsumexp.elements<C>();
  p.dots = dots.elements<C>();
  launch_tiles<C>(call, attend_back_kernel<T, kByKeys>, T::kBackwardBytes,
                  kByKeys ? p.keys : p.queries, p);
}

// Adds up the gradients of all entries of a batch, which lie in a row, where they share one.
void add_entries(const Tensor& entries, const Dims& batch, Tensor& y) {
  const Dims whole = repeated(y, batch);
  const Tensor x = alias(entries, whole, contiguous_strides(whole), entries.offset());
  Dims dims, kept = whole;
  for (int d = 0; d < batch.size(); ++d) {
    const int own = d - (whole.size() - y.dim());
    if (own >= 0 && y.size(own) == whole[d]) continue;
    dims.push_back(d);
    kept[d] = 1;
  }
  if (dims.size() == 0) return copy_back(y, x);
  Tensor total = empty_plain(kept, {y.dtype(), y.device()}, "attention");
  sum(x, dims, true, std::nullopt, total);
  copy_back(y, alias(total, y.sizes(), contiguous_strides(y.sizes()), total.offset()));
}

}  // namespace

void flash_attention_grads(const Tensor& grad, const Tensor& query, const Tensor& key,
                           const Tensor& value, const Tensor& attn_mask, const Tensor& y,
                           const Tensor& logsumexp, bool is_causal, double scale, double dropout_p,
                           const Tensor& states, Tensor& grad_query, Tensor& grad_key,
                           Tensor& grad_value) {
  Tensor* const results[] = {&grad_query, &grad_key, &grad_value};
  if (logsumexp.numel() == 0) {
    for (Tensor* each : results)
      if (each->numel() > 0) fill(*each, Scalar(0));
    return;
  }
  if (const Dims whole = batch_of(y); has_many_dims(whole)) {
    const auto flat = [&](const Tensor& x) { return in_entries(x, whole); };
    const Tensor all[] = {flat(query), flat(key), flat(value)};
    Tensor given[3];
    for (int i = 0; i < 3; ++i) given[i] = empty_plain(all[i].sizes(), options_of(query));
    const Dims rows{numel_of(whole, "attention"), y.size(-2)};
    const Tensor sums = contiguous(logsumexp);
    flash_attention_grads(flat(grad), all[0], all[1], all[2], flat(attn_mask), flat(y),
                          alias(sums, rows, contiguous_strides(rows), sums.offset()), is_causal,
                          scale, dropout_p, flat(states), given[0], given[1], given[2]);
    for (int i = 0; i < 3; ++i) add_entries(given[i], whole, *results[i]);
    return;
  }
  if (!attn_mask.defined() && dropout_p == 0 &&
      cudnn::attention_grads(grad, query, key, value, y, logsumexp, is_causal, scale, grad_query,
                             grad_key, grad_value))
    return;
  const Call call(query, "scaled_dot_product_attention");
  Tensor work[3];
  for (int i = 0; i < 3; ++i)
    work[i] = lies_in_rows(*results[i]) ? *results[i] : contiguous(*results[i]);
  const DType compute = compute_dtype(query.dtype());
  const Tensor sums = converted(logsumexp, compute), result = in_rows(converted(y, query.dtype()));
  Batch batch(query, key, value, attn_mask, {dropout_p, states}, batch_of(y));
  batch.read(kGradient, converted(grad, query.dtype()));
  Tensor dots = call.scratch(sums.sizes(), compute);
  const SharedBatch by_query(batch.sizes, query), by_key(batch.sizes, key),
      by_value(batch.sizes, value);
  const bool alike = by_key.apart == by_value.apart;
  visit_units(query.dtype(), tf32_allowed(), [&]<class Unit>() {
    using C = typename Unit::Sum;
    compute_dots<C, typename Unit::Element>(call, batch, result, dots);
    visit_backward_tiles<Unit>(call, std::max(key.size(-1), value.size(-1)), [&]<class T>() {
      const auto by_keys = [&](const SharedBatch& shared, const Tensor* first,
                               const Tensor* second) {
        launch_back<T, true>(call, batch, shared, first, second, scale, is_causal, sums, dots);
      };
      launch_back<T, false>(call, batch, by_query, &work[0], nullptr, scale, is_causal, sums, dots);
      if (alike) return by_keys(by_key, &work[1], &work[2]);
      by_keys(by_key, &work[1], nullptr);
      by_keys(by_value, nullptr, &work[2]);
    });
  });
  for (int i = 0; i < 3; ++i)
    if (!lies_in_rows(*results[i])) copy_back(*results[i], work[i]);
}

}  // namespace moonlet::cuda

// cuda/kernels/attention/nn_attention.cu: attention by tiles of queries and keys, so that no more
// of the (l, s) scores than a tile is ever held (Dao et al. 2022, arXiv:2205.14135; Dao 2023,
// arXiv:2307.08691).
#include "cuda/kernels/attention/nn_attention.cuh"
#include "cuda/kernels/attention/nn_attention_forward.cuh"
#include "cuda/kernels/attention/nn_attention_warpgroup.cuh"
#include "cuda/libraries/cudnn_attention.h"

namespace moonlet::cuda {

using namespace attention;  // NOLINT(google-build-using-namespace)

namespace {

template <class T>
__device__ __forceinline__ void attend(const Problem<typename T::Sum>& p, const Work& w,
                                       typename T::Element* own, uint64_t* state) {
  using C = typename T::Sum;
  auto* pairs = own + T::kOwnSize;
  auto* weights = pairs + 2 * T::kPairSize + warp_rows() * T::kScoreStride;
  const Offsets<kOperands> position = positions(p.apart, w.entry);
  const auto& at = position.at;
  const Pair x{rows_at<T>(p.rows[kQuery], at[kQuery]), rows_at<T>(p.rows[kKey], at[kKey])};
  const Rows value = rows_at<T>(p.rows[kValue], at[kValue]);
  const int64_t first = w.tile * kOwn, mine = first + warp_rows(), from = w.part * T::kWidth;
  const KeyRange range(p, w);
  const int64_t begin = range.begin, end = range.end;
  const bool resident = x.own.columns <= T::kWidth;
  const auto fetch = [&](typename T::Element* pair, int64_t key) {
    if (resident) fetch_tile<T, kOther>(pair, x.other, key, end, 0);
    fetch_tile<T, kOther>(pair + T::kOtherSize, value, key, end, from);
  };
  Running<C> row;
  Part<C, T::kWidth> sums;
  sums.clear();
  __syncthreads();
  read_state(p, at[kStates], state);
  if (begin < end) {
    if (resident) fetch_tile<T, kOwn>(own, x.own, first, p.queries, 0);
    fetch(pairs, begin);
  }
  int turn = 0;
  for (int64_t key = begin; key < end; key += kOther, turn ^= 1) {
    auto *keys = pairs + turn * T::kPairSize, *values = keys + T::kOtherSize;
    wait_copies();
    if (resident && key == begin) round_tile<T, kOwn>(own);
    if (resident) round_tile<T, kOther>(keys);
    round_tile<T, kOther>(values);
    __syncthreads();
    if (key + kOther < end) fetch(pairs + (turn ^ 1) * T::kPairSize, key + kOther);
    // Of few queries some warps have none.
    if (resident && mine >= p.queries) continue;
    // Before there are scores, as registers are few.
    const uint32_t dropped =
        p.states != nullptr ? dropped_scores<false, kOther>(p, state, mine, key) : 0;
    Part<C, kOther> scores;
    scores.clear();
    add_products<T>(scores, own, keys, x, first, p.queries, key, end, resident);
    score<false>(p, at[kMask], mine, key, scores);
    weigh<T>(scores, row, sums);
    // What is dropped counts in the sum of the softmax.
    if (p.states != nullptr) drop(scores, dropped, C(1));
    add_scored<T>(sums, scores, weights, values);
  }
  finish<T>(p, w, at[kEntry], mine, rows_at<T>(p.rows[kGradient], at[kGradient]), row, sums,
            own + warp_rows() * T::kStride);
}

// How many blocks a processor is to hold: more than its shared memory has room for would only take
// registers from each.
template <class T>
constexpr int kBlocks = T::kWidth > 128 || sizeof(typename T::Sum) == 8 ||
                                3 * T::kForwardBytes > 227 * 1024
                            ? 2
                            : 3;

template <class T>
__global__ void __launch_bounds__(kThreads, kBlocks<T>)
    attend_kernel(MOONLET_GRID_CONSTANT const Problem<typename T::Sum> p) {
  MOONLET_DYNAMIC_SHARED(typename T::Element, memory);
  __shared__ State state;
  each_work(p, [&](const Work& work) { attend<T>(p, work, memory, state.get()); });
}

// Each query's results of the ranges of the keys, weighted by their shares of the sum, a warp for
// each query.
template <class C, class Element>
__global__ void __launch_bounds__(kThreads)
    combine_splits_kernel(MOONLET_GRID_CONSTANT const Problem<C> p) {
  const int lane = threadIdx.x % kWarp;
  const int64_t rows = p.entries * p.queries, columns = p.rows[kGradient].columns;
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp; row < rows;
       row += static_cast<int64_t>(gridDim.x) * kWarps) {
    // Infinite where a query saw no key.
    const C mine = lane < p.splits ? p.split_sums[lane * rows + row] : C(HUGE_VAL),
            log_sum = mine == C(HUGE_VAL) ? hidden<C>() : mine;
    const auto larger = [](C a, C b) { return max(a, b); };
    const C top = from_lane(combine_lanes(log_sum, kWarp, larger), 0, kWarp);
    const C share = top == hidden<C>() ? C(0) : vexp(log_sum - top);
    const C sum = from_lane(combine_lanes(share, kWarp, AddUp()), 0, kWarp);
    if (lane == 0) p.logsumexp[row] = sum == C(0) ? C(HUGE_VAL) : top + vlog(sum);
    const Offsets<kOperands> position = positions(p.apart, row / p.queries);
    auto* y = reinterpret_cast<Element*>(p.rows[kGradient].data) + position.at[kGradient] +
              row % p.queries * p.rows[kGradient].stride;
    const C factor = sum == C(0) ? C(0) : C(1) / sum;
    for (int64_t first = 0; first < columns; first += kWarp) {
      const int64_t col = first + lane;
      C total = C(0);
      for (int split = 0; split < p.splits; ++split) {
        const C weight = from_lane(share, split, kWarp);
        if (col < columns && weight != C(0))
          total += weight * p.split_results[(split * rows + row) * columns + col];
      }
      if (col < columns) y[col] = convert<Element>(total * factor);
    }
  }
}

// In how many ranges the keys are taken: in several where few queries are too few blocks for a
// device, by the shapes alone, so that results are the same on every device; of tiles of so many
// keys.
template <class C>
void split_keys(Problem<C>& p, int tile_keys) {
  constexpr int64_t kEnoughBlocks = 512, kLeastKeys = 4 * kOther;
  const int64_t seen = p.causal ? std::min(p.keys, p.queries) : p.keys,
                blocks = p.entries * p.parts * ((p.queries + kOwn - 1) / kOwn);
  if (p.queries > kOwn || blocks == 0) return;
  const int64_t splits = std::min({(kEnoughBlocks + blocks - 1) / blocks,
                                   (seen + kLeastKeys - 1) / kLeastKeys, int64_t{kWarp}});
  if (splits <= 1) return;
  const int64_t tiles = (seen + tile_keys - 1) / tile_keys;
  p.range = (tiles + splits - 1) / splits * tile_keys;
  p.splits = (seen + p.range - 1) / p.range;
}

// Calls launch(p), once for all ranges of the keys, and joins their results.
template <class Element, class C, class F>
void launch_ranges(const Call& call, Problem<C>& p, int tile_keys, const F& launch) {
  split_keys(p, tile_keys);
  if (p.splits <= 1) return launch(p);
  const int64_t rows = p.entries * p.queries;
  const Dims of_sums{p.splits, rows}, of_results{p.splits, rows, p.rows[kGradient].columns};
  Tensor results = call.scratch(of_results, dtype_of<C>), sums = call.scratch(of_sums, dtype_of<C>);
  p.split_results = results.elements<C>();
  p.split_sums = sums.elements<C>();
  launch(p);
  MOONLET_LAUNCH((combine_splits_kernel<C, Element>),
                 blocks_for((rows + kWarps - 1) / kWarps * kBlock), kThreads, 0, call.stream(), p);
  call.done();
}

// Calls f.template operator()<T>() with the tiles for rows of so many columns.
template <class U, class F>
void visit_forward_tiles(const Call& call, int64_t columns, F&& f) {
  if constexpr (sizeof(typename U::Element) == 2)
    visit_tiles<false, Tiles<U, 32>, Tiles<U, 64>, Tiles<U, 96>, Tiles<U, 128>, Tiles<U, 192>,
                Tiles<U, 256>>(call, columns, f);
  else if constexpr (sizeof(typename U::Element) == 4)
    visit_tiles<false, Tiles<U, 64>, Tiles<U, 128>>(call, columns, f);
  else
    visit_tiles<false, Tiles<U, 32>, Tiles<U, 64>>(call, columns, f);
}

}  // namespace

void attention::attend_by_tiles(const Call& call, const Batch& batch, DType dtype,
                                const Scores& scores, bool by_warpgroups, Tensor& logsumexp) {
  visit_units(dtype, tf32_allowed(), [&]<class U>() {
    using C = typename U::Sum;
    auto p = batch.problem<C>(batch.sizes, {}, scores.scale, scores.is_causal);
    p.logsumexp = logsumexp.elements<C>();
    if constexpr (sizeof(typename U::Element) == 2)
      if (by_warpgroups)
        return launch_ranges<typename U::Element>(call, p, kWarpgroupKeys, [&](const auto& whole) {
          attend_by_warpgroups(call, dtype, batch.columns(), whole);
        });
    visit_forward_tiles<U>(call, batch.columns(), [&]<class T>() {
      p.parts = parts_of(p.rows[kGradient].columns, T::kWidth);
      launch_ranges<typename U::Element>(call, p, kOther, [&](const auto& whole) {
        launch_tiles<C>(call, attend_kernel<T>, T::kForwardBytes, p.queries, whole);
      });
    });
  });
}

void flash_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                     const Tensor& attn_mask, bool is_causal, double scale, double dropout_p,
                     const Tensor& states, Tensor& y, Tensor& logsumexp) {
  if (logsumexp.numel() == 0) return;
  if (!attn_mask.defined() && dropout_p == 0 &&
      cudnn::attention(query, key, value, is_causal, scale, y, logsumexp))
    return;
  if (!lies_in_rows(y) || !logsumexp.is_contiguous()) {
    Tensor whole = contiguous(y), sums = contiguous(logsumexp);
    flash_attention(query, key, value, attn_mask, is_causal, scale, dropout_p, states, whole, sums);
    copy_back(y, whole);
    return copy_back(logsumexp, sums);
  }
  if (const Dims batch = batch_of(y); has_many_dims(batch)) {
    const auto flat = [&](const Tensor& x) { return in_entries(x, batch); };
    const Dims rows{numel_of(batch, "attention"), y.size(-2)};
    Tensor whole = flat(y),
           sums = alias(logsumexp, rows, contiguous_strides(rows), logsumexp.offset());
    flash_attention(flat(query), flat(key), flat(value), flat(attn_mask), is_causal, scale,
                    dropout_p, flat(states), whole, sums);
    return copy_back(y, alias(whole, y.sizes(), contiguous_strides(y.sizes()), whole.offset()));
  }
  const Call call(y, "scaled_dot_product_attention");
  Batch batch(query, key, value, attn_mask, {dropout_p, states}, batch_of(y));
  batch.set(kGradient, y);
  const bool by_warpgroups = warpgroups_are_right(call, query.dtype(), batch.columns());
  attend_by_tiles(call, batch, query.dtype(), {is_causal, scale}, by_warpgroups, logsumexp);
}

}  // namespace moonlet::cuda

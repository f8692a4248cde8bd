// cuda/kernels/attention/nn_attention_back.cu: the gradients of attention. Its weights are computed
// again, once by tiles of queries and once by tiles of keys, whose sums a block adds up alone and
// in order, so results repeat (Dao et al. 2022, arXiv:2205.14135).
#include "cuda/kernels/attention/nn_attention.cuh"
#include "cuda/kernels/attention/nn_attention_backward.cuh"
#include "cuda/kernels/attention/nn_attention_warpgroup.cuh"
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

template <class T, bool kByKeys>
__global__ void __launch_bounds__(kThreads, 2)
    attend_back_kernel(MOONLET_GRID_CONSTANT const Problem<typename T::Sum> p) {
  MOONLET_DYNAMIC_SHARED(typename T::Element, memory);
  __shared__ State state;
  each_tile_back<T, kByKeys>(p, memory, state.get());
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
void compute_dots(const Call& call, Batch batch, const Tensor& y, const Tensor& dots) {
  batch.set(kFirst, y);
  const unsigned blocks = blocks_for((dots.numel() + kWarps - 1) / kWarps * kBlock);
  MOONLET_LAUNCH((dots_kernel<C, Element>), blocks, kThreads, 0, call.stream(),
                 batch.problem<C>(batch.sizes, {}, 1, false), dots.elements<C>());
  call.done();
}

// Calls launch(p, by_keys) for the gradients of queries, keys and values. Those of keys and values
// come from one launch where both are broadcast over the batch in one way.
template <class C, class F>
void launch_back(const Batch& batch, const Gradients& g, const F& launch) {
  const auto by = [&](const SharedBatch& shared, bool by_keys, const Tensor* first,
                      const Tensor* second) {
    Batch mine = batch;
    if (first) mine.set(kFirst, *first);
    if (second) mine.set(kSecond, *second);
    auto p = mine.problem<C>(shared.apart, shared.shared, g.scores.scale, g.scores.is_causal);
    p.logsumexp = g.sums.template elements<C>();
    p.dots = g.dots.template elements<C>();
    launch(p, by_keys);
  };
  const Dims& whole = batch.sizes;
  const SharedBatch by_query(whole, g.results[0]), by_key(whole, g.results[1]),
      by_value(whole, g.results[2]);
  by(by_query, false, &g.results[0], nullptr);
  if (by_key.apart == by_value.apart) return by(by_key, true, &g.results[1], &g.results[2]);
  by(by_key, true, &g.results[1], nullptr);
  by(by_value, true, nullptr, &g.results[2]);
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

void attention::attend_back_by_tiles(const Call& call, const Batch& batch, DType dtype,
                                     const Gradients& g, bool by_warpgroups) {
  visit_units(dtype, tf32_allowed(), [&]<class Unit>() {
    using C = typename Unit::Sum;
    compute_dots<C, typename Unit::Element>(call, batch, g.result, g.dots);
    if constexpr (sizeof(typename Unit::Element) == 2)
      if (by_warpgroups)
        return launch_back<C>(batch, g, [&](const auto& p, bool by_keys) {
          attend_back_by_warpgroups(call, dtype, batch.columns(), by_keys, p);
        });
    visit_backward_tiles<Unit>(call, batch.columns(), [&]<class T>() {
      launch_back<C>(batch, g, [&](auto& p, bool by_keys) {
        p.parts = std::max(parts_of(p.rows[kFirst].columns, T::kSums),
                           parts_of(p.rows[kSecond].columns, T::kSums));
        launch_tiles<C>(call, by_keys ? attend_back_kernel<T, true> : attend_back_kernel<T, false>,
                        T::kBackwardBytes, by_keys ? p.keys : p.queries, p);
      });
    });
  });
}

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
  const Tensor dots = call.scratch(sums.sizes(), compute);
  const bool by_warpgroups = warpgroups_are_right(call, query.dtype(), batch.columns());
  attend_back_by_tiles(call, batch, query.dtype(), {{is_causal, scale}, result, sums, dots, work},
                       by_warpgroups);
  for (int i = 0; i < 3; ++i)
    if (!lies_in_rows(*results[i])) copy_back(*results[i], work[i]);
}

}  // namespace moonlet::cuda

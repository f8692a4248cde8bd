// cuda/kernels/nn_attention.cu: attention by tiles of queries and keys, so that no more of the (l,
// s) scores than a tile is ever held (Dao et al. 2022, arXiv:2205.14135; Dao 2023,
// arXiv:2307.08691).
#include "cuda/kernels/nn_attention.cuh"

namespace moonlet::cuda {

using namespace attention;  // NOLINT(google-build-using-namespace)

namespace {

// A thread's rows of the softmax so far: the greatest score, and this thread's part of the sum.
template <class C>
struct Running {
  C top[2] = {hidden<C>(), hidden<C>()}, sum[2] = {C(0), C(0)};
};

// The scores become exp(score - top), written to `weights`, and what was added up is scaled to the
// new top.
template <class T>
__device__ __forceinline__ void weigh(const Problem<typename T::Sum>& p, int64_t mask,
                                      int64_t first, int64_t key,
                                      Part<typename T::Sum, kOther>& scores,
                                      Running<typename T::Sum>& row,
                                      Part<typename T::Sum, T::kWidth>& y,
                                      typename T::Element* weights) {
  using C = typename T::Sum;
  C top[2] = {row.top[0], row.top[1]};
  const int64_t query = first + row_in_warp();
  scores.each([&](C& v, int upper, int col) {
    v = seen_score(p, mask, query + 8 * upper, key + col, v);
    top[upper] = top[upper] > v ? top[upper] : v;
  });
  C shift[2], factor[2];
  MOONLET_UNROLL
  for (int upper = 0; upper < 2; ++upper) {
    top[upper] = combine_row(top[upper], [](C a, C b) { return a > b ? a : b; });
    shift[upper] = top[upper] == hidden<C>() ? C(0) : top[upper];
    factor[upper] = vexp(row.top[upper] - shift[upper]);
    row.top[upper] = top[upper];
    row.sum[upper] *= factor[upper];
  }
  scores.each([&](C v, int upper, int col) {
    const C weight = vexp(v - shift[upper]);
    row.sum[upper] += weight;
    weights[(row_in_warp() + 8 * upper) * T::kScoreStride + col] = T::Unit::stored(weight);
  });
  y.each([&](C& v, int upper, int) { v *= factor[upper]; });
}

// The results, and the logarithms of the sums.
template <class T>
__device__ __forceinline__ void finish(const Problem<typename T::Sum>& p, int64_t entry,
                                       int64_t first, int64_t part, const Rows& y,
                                       Running<typename T::Sum>& row,
                                       Part<typename T::Sum, T::kWidth>& sums,
                                       typename T::Element* staging) {
  using C = typename T::Sum;
  C factor[2];
  MOONLET_UNROLL
  for (int upper = 0; upper < 2; ++upper) {
    const C sum = combine_row(row.sum[upper], AddUp());
    factor[upper] = sum == C(0) ? C(0) : C(1) / sum;
    const int64_t query = first + row_in_warp() + 8 * upper;
    if (part == 0 && threadIdx.x % 4 == 0 && query < p.queries)
      p.logsumexp[entry + query] = sum == C(0) ? C(HUGE_VAL) : row.top[upper] + vlog(sum);
  }
  store_part<T>(sums, staging, y, first, p.queries, part * T::kWidth,
                [&](C v, int upper) { return v * factor[upper]; });
}

template <class T>
__device__ __forceinline__ void attend(const Problem<typename T::Sum>& p, const Work& w,
                                       typename T::Element* own) {
  using C = typename T::Sum;
  auto *keys = own + T::kOwnSize, *values = keys + T::kOtherSize;
  auto* weights = values + T::kOtherSize + warp_rows() * T::kScoreStride;
  const Offsets<kOperands> position = positions(p.apart, w.entry);
  const auto& at = position.at;
  const Pair x{rows_at<T>(p.rows[kQuery], at[kQuery]), rows_at<T>(p.rows[kKey], at[kKey])};
  const Rows value = rows_at<T>(p.rows[kValue], at[kValue]);
  const int64_t first = w.tile * kOwn, from = w.part * T::kWidth,
                end = p.causal ? min(p.keys, first + kOwn) : p.keys;
  const bool resident = x.own.columns <= T::kWidth;
  const int width = depth_from<T>(value, from);
  Running<C> row;
  Part<C, T::kWidth> sums;
  sums.clear();
  __syncthreads();
  if (resident) load_tile<T, kOwn>(own, x.own, first, p.queries, 0);
  for (int64_t key = 0; key < end; key += kOther) {
    __syncthreads();
    if (resident) load_tile<T, kOther>(keys, x.other, key, end, 0);
    load_tile<T, kOther>(values, value, key, end, from);
    __syncthreads();
    Part<C, kOther> scores;
    scores.clear();
    add_products<T>(scores, own, keys, x, first, p.queries, key, end, resident);
    weigh<T>(p, at[kMask], first + warp_rows(), key, scores, row, sums, weights);
    __syncwarp();
    T::Unit::template multiply<false>(sums, weights, T::kScoreStride, values, T::kStride, kOther,
                                      width);
  }
  finish<T>(p, at[kEntry], first + warp_rows(), w.part,
            rows_at<T>(p.rows[kGradient], at[kGradient]), row, sums,
            own + warp_rows() * T::kStride);
}

template <class U, int kWidth>
__global__ void __launch_bounds__(kThreads, 2)
    attend_kernel(MOONLET_GRID_CONSTANT const Problem<typename U::Sum> p) {
  using T = Tiles<U, kWidth>;
  MOONLET_DYNAMIC_SHARED(typename T::Element, memory);
  const int64_t tiles = (p.queries + kOwn - 1) / kOwn;
  for (int64_t i = blockIdx.x; i < p.entries * tiles * p.parts; i += gridDim.x) {
    Work work(i, tiles, p.parts);
    // With is_causal the last tiles see the most keys.
    work.tile = tiles - 1 - work.tile;
    attend<T>(p, work, memory);
  }
}

}  // namespace

void flash_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                     const Tensor& attn_mask, bool is_causal, double scale, Tensor& y,
                     Tensor& logsumexp) {
  if (logsumexp.numel() == 0) return;
  if (!lies_in_rows(y) || !logsumexp.is_contiguous()) {
    Tensor whole = contiguous(y), sums = contiguous(logsumexp);
    flash_attention(query, key, value, attn_mask, is_causal, scale, whole, sums);
    copy_back(y, whole);
    return copy_back(logsumexp, sums);
  }
  const Call call(y, "scaled_dot_product_attention");
  Batch batch(query, key, value, attn_mask, batch_of(y));
  batch.set(kGradient, y);
  visit_units(query.dtype(), tf32_allowed(), [&]<class Unit>() {
    visit_width<Unit>(std::max(key.size(-1), value.size(-1)), [&]<class U, int kWidth>() {
      using C = typename U::Sum;
      auto p = batch.problem<C>(batch.sizes, {}, scale, is_causal);
      p.parts = parts_of(value.size(-1), kWidth);
      p.logsumexp = logsumexp.elements<C>();
      launch_tiles<C>(call, attend_kernel<U, kWidth>, Tiles<U, kWidth>::kForwardBytes, p.queries,
                      p);
    });
  });
}

}  // namespace moonlet::cuda

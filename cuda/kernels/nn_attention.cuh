// cuda/kernels/nn_attention.cuh: what attention and its gradients share: their arguments as kernels
// take them, tiles of them in shared memory, and the scores of such tiles.
#pragma once

#include <algorithm>
#include <cmath>

#include "cuda/kernels/common/geometry.cuh"
#include "cuda/kernels/common/mma.cuh"
#include "cuda/kernels/common/rows.cuh"
#include "cuda/runtime/device.h"
#include "tensor/functors/functor_math.h"
#include "tensor/kernels_copy.h"
#include "tensor/kernels_create.h"
#include "tensor/kernels_nn.h"
#include "tensor/runtime/float32_precision.h"

namespace moonlet::cuda::attention {

using namespace fn;  // NOLINT(google-build-using-namespace)

inline constexpr int kWarps = 4, kThreads = kWarps * kWarp;
// The rows of a block's own tile, 16 for each warp, and of the tiles that pass by.
inline constexpr int kOwn = 16 * kWarps, kOther = 32;

// The tensors of which each entry of the batch has a part. kGradient is the gradient of the
// results, on the way forward the results; kEntry counts queries; kFirst and kSecond are gradients.
enum Operand { kQuery, kKey, kValue, kMask, kGradient, kEntry, kFirst, kSecond, kOperands };

// A tensor's rows, elements side by side; `packed` says that each begins at a multiple of 16 bytes.
struct Rows {
  char* data = nullptr;
  int64_t stride = 0, columns = 0;
  bool packed = false;
};

enum class MaskKind { kNone, kTruth, kHalf, kBFloat16, kPlain };

struct Mask {
  MaskKind kind = MaskKind::kNone;
  const char* data = nullptr;
  int64_t row = 0, col = 0;
};

// The batch is `entries` that each write a part of the result, and within each of them those that
// add to it, as a tensor is broadcast over them.
template <class C>
struct Problem {
  Geometry<kOperands> apart, shared;
  int64_t entries = 0, within = 1, parts = 1, queries = 0, keys = 0;
  Rows rows[kOperands];
  Mask mask;
  C scale = C(0);
  bool causal = false;
  C* logsumexp = nullptr;
  const C* dots = nullptr;
};

// The tiles of a block in shared memory. Wider rows are taken in parts of kWidth columns.
template <class U, int kColumns>
struct Tiles {
  using Unit = U;
  using Element = typename U::Element;
  using Sum = typename U::Sum;
  static constexpr int kWidth = kColumns;
  static constexpr int kStride = tile_stride<Element>(kWidth);
  static constexpr int kScoreStride = tile_stride<Element>(kOther);
  static constexpr int kOwnSize = kOwn * kStride, kOtherSize = kOther * kStride;
  static constexpr int kScoreSize = kOwn * kScoreStride;
  static constexpr int kForwardBytes = (kOwnSize + 2 * kOtherSize + kScoreSize) * sizeof(Element);
  static constexpr int kBackwardBytes =
      (2 * kOwnSize + 2 * kOtherSize + kScoreSize) * sizeof(Element) + 2 * kOther * sizeof(Sum);
};

__device__ __forceinline__ int warp_rows() { return threadIdx.x / kWarp * 16; }

// Rows [first, end) of x, as many as the tile has at most, from column `from` on; zeros elsewhere.
template <class T, int kRows>
__device__ __forceinline__ void load_tile(typename T::Element* tile, const Rows& x, int64_t first,
                                          int64_t end, int64_t from) {
  using Element = typename T::Element;
  constexpr int kElement = sizeof(Element), kPack = 16 / kElement, kPacks = T::kWidth / kPack;
  static_assert(kRows * kPacks % kThreads == 0);
  // More loads at once would want too many registers.
  [[maybe_unused]] constexpr int kAtOnce = kRows > kOther ? 1 : T::kWidth > 64 ? 2 : 4;
  MOONLET_UNROLL_BY(kAtOnce)
  for (int i = 0; i < kRows * kPacks / kThreads; ++i) {
    const int pack = i * kThreads + threadIdx.x, row = pack / kPacks, col = pack % kPacks * kPack;
    const int64_t left = x.columns - from - col;
    Words<16> words{};
    if (first + row < end && left > 0)
      words = load_pack<kElement>({x.data, Code::kPlain, x.packed},
                                  (first + row) * x.stride + from + col, left);
    if constexpr (std::is_same_v<typename T::Unit, Tf32Unit>) {
      MOONLET_UNROLL
      for (int k = 0; k < kPack; ++k)
        words.v[k] = moonlet::detail::float_bits(to_tf32(moonlet::detail::bits_float(words.v[k])));
    }
    store_words(reinterpret_cast<char*>(tile + row * T::kStride + col), words);
  }
}

// Writes a warp's 16 rows, each value after f(value, upper), by way of `staging`, its own rows of a
// tile.
template <class T, class F>
__device__ __forceinline__ void store_part(Part<typename T::Sum, T::kWidth>& part,
                                           typename T::Element* staging, const Rows& y,
                                           int64_t first, int64_t end, int64_t from, const F& f) {
  using Element = typename T::Element;
  constexpr int kElement = sizeof(Element), kPack = 16 / kElement, kPacks = T::kWidth / kPack;
  __syncwarp();
  part.each([&](typename T::Sum v, int upper, int col) {
    staging[(row_in_warp() + 8 * upper) * T::kStride + col] = convert<Element>(f(v, upper));
  });
  __syncwarp();
  for (int pack = threadIdx.x % kWarp; pack < 16 * kPacks; pack += kWarp) {
    const int row = pack / kPacks, col = pack % kPacks * kPack;
    const int64_t left = y.columns - from - col;
    if (first + row < end && left > 0)
      store_pack<kElement>(
          y.data, y.packed, (first + row) * y.stride + from + col, left,
          load_words<16>(reinterpret_cast<const char*>(staging + row * T::kStride + col)));
  }
  __syncwarp();
}

// The depth of a product of rows from column `from` on, whose rest is zeros.
template <class T>
__device__ __forceinline__ int depth_from(const Rows& x, int64_t from) {
  const int64_t left = min(x.columns - from, int64_t{T::kWidth});
  return static_cast<int>((left + 15) / 16 * 16);
}

// Where the rows of two operands begin, of a block's own and of those that pass by.
struct Pair {
  Rows own, other;
};

// c += own's rows times other's. Tiles that hold whole rows are there already (`resident`), else
// they are loaded part by part.
template <class T>
__device__ __forceinline__ void add_products(Part<typename T::Sum, kOther>& c,
                                             typename T::Element* own, typename T::Element* other,
                                             const Pair& x, int64_t first_own, int64_t end_own,
                                             int64_t first_other, int64_t end_other,
                                             bool resident) {
  for (int64_t from = 0; from < x.own.columns; from += T::kWidth) {
    if (!resident) {
      __syncthreads();
      load_tile<T, kOwn>(own, x.own, first_own, end_own, from);
      load_tile<T, kOther>(other, x.other, first_other, end_other, from);
      __syncthreads();
    }
    T::Unit::template multiply<true>(c, own + warp_rows() * T::kStride, T::kStride, other,
                                     T::kStride, depth_from<T>(x.own, from), kOther);
  }
}

template <class C>
__device__ __forceinline__ C hidden() {
  return C(-HUGE_VAL);
}

template <class C>
__device__ __forceinline__ C masked(const Mask& m, int64_t position, C score) {
  switch (m.kind) {
    case MaskKind::kTruth: return m.data[position] != 0 ? score : hidden<C>();
    case MaskKind::kHalf: return score + widened(reinterpret_cast<const half*>(m.data)[position]);
    case MaskKind::kBFloat16:
      return score + widened(reinterpret_cast<const bfloat16*>(m.data)[position]);
    case MaskKind::kPlain: return score + reinterpret_cast<const C*>(m.data)[position];
    default: return score;
  }
}

// The score of a query and a key, minus infinity where it is not seen.
template <class C>
__device__ __forceinline__ C seen_score(const Problem<C>& p, int64_t mask, int64_t query,
                                        int64_t key, C product) {
  if (query >= p.queries || key >= p.keys || (p.causal && key > query)) return hidden<C>();
  return masked(p.mask, mask + query * p.mask.row + key * p.mask.col, product * p.scale);
}

// Of the four threads that hold a row.
template <class C, class Combine>
__device__ __forceinline__ C combine_row(C v, const Combine& combine) {
  v = combine(v, __shfl_xor_sync(kAllLanes, v, 1));
  return combine(v, __shfl_xor_sync(kAllLanes, v, 2));
}

template <class T>
__device__ __forceinline__ Rows rows_at(const Rows& x, int64_t offset) {
  Rows out = x;
  out.data += offset * static_cast<int64_t>(sizeof(typename T::Element));
  return out;
}

// Where an entry's part of each operand begins, as by offsets(): its loops are unrolled, so that no
// array is indexed.
__device__ __forceinline__ Offsets<kOperands> positions(const Geometry<kOperands>& g,
                                                        int64_t entry) {
  Offsets<kOperands> out;
  MOONLET_UNROLL
  for (int t = 0; t < kOperands; ++t) out.at[t] = 0;
  for (int d = g.rank - 1; d >= 0; --d) {
    const int64_t rest = entry % g.sizes[d];
    entry /= g.sizes[d];
    MOONLET_UNROLL
    for (int t = 0; t < kOperands; ++t) out.at[t] += rest * g.strides[t][d];
  }
  return out;
}

// Which part of which tile of which entry a block computes.
struct Work {
  int64_t entry, tile, part;
  __device__ Work(int64_t number, int64_t tiles, int64_t parts)
      : entry(number / parts / tiles), tile(number / parts % tiles), part(number % parts) {}
};

// On the host -------------------------------------------------------------------------------------

inline Dims batch_of(const Tensor& x) { return {x.sizes().data(), x.dim() - 2}; }

// x with the elements of a row side by side.
inline bool lies_in_rows(const Tensor& x) { return x.size(-1) <= 1 || x.stride(-1) == 1; }
inline Tensor in_rows(const Tensor& x) { return lies_in_rows(x) ? x : contiguous(x); }

inline Rows rows_of(const Tensor& x) {
  const auto bytes = static_cast<int64_t>(size_of(x.dtype()));
  Rows out{x.raw(), x.stride(-2), x.size(-1), aligned_to(x.raw(), 16)};
  for (int d = 0; d < x.dim() - 1; ++d)
    out.packed = out.packed && (x.size(d) == 1 || x.stride(d) * bytes % 16 == 0);
  return out;
}

// Tensors over a batch, each with its strides over the whole of it.
struct Batch {
  Dims sizes;
  Dims strides[kOperands];
  Rows rows[kOperands];
  Mask mask;
  Tensor kept[kOperands];  // copies that kernels read
  int64_t queries, keys;

  Batch(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& given_mask,
        const Dims& whole)
      : sizes(whole), queries(query.size(-2)), keys(key.size(-2)) {
    for (Dims& each : strides) each = Dims::filled(sizes.size(), 0);
    read(kQuery, query);
    read(kKey, key);
    read(kValue, value);
    strides[kEntry] = contiguous_strides(sizes);
    for (int d = 0; d < sizes.size(); ++d) strides[kEntry][d] *= queries;
    if (given_mask.defined()) read_mask(given_mask, compute_dtype(query.dtype()));
  }

  // The operand is x, whose rows lie in rows.
  void set(Operand o, const Tensor& x) {
    rows[o] = rows_of(x);
    strides[o] = broadcast_strides(batch_of(x), {x.strides().data(), x.dim() - 2}, sizes);
  }
  void read(Operand o, const Tensor& x) {
    kept[o] = in_rows(x);
    set(o, kept[o]);
  }

  template <class C>
  Problem<C> problem(const Dims& apart, const Dims& shared, double scale, bool causal) const {
    Problem<C> out;
    out.apart = over(apart);
    out.shared = over(shared);
    out.entries = numel_of(apart, "attention");
    out.within = numel_of(shared, "attention");
    out.queries = queries;
    out.keys = keys;
    std::copy(rows, rows + kOperands, out.rows);
    out.mask = mask;
    // Products of no columns are 0, whatever the scale.
    out.scale = rows[kQuery].columns == 0 ? C(0) : static_cast<C>(scale);
    out.causal = causal;
    return out;
  }

 private:
  Geometry<kOperands> over(const Dims& part) const {
    return [&]<size_t... kAt>(std::index_sequence<kAt...>) {
      return geometry(part, strides[kAt]...);
    }
    (std::make_index_sequence<kOperands>());
  }

  void read_mask(const Tensor& given, DType compute) {
    const DType t = given.dtype();
    const bool known =
        t == DType::Bool || t == DType::Float16 || t == DType::BFloat16 || t == compute;
    const Tensor& x = kept[kMask] = known ? given : converted(given, compute);
    Dims all = sizes;
    all.push_back(queries);
    all.push_back(keys);
    Dims lies = broadcast_strides(x.sizes(), x.strides(), all);
    mask = {x.dtype() == compute  ? MaskKind::kPlain
            : t == DType::Bool    ? MaskKind::kTruth
            : t == DType::Float16 ? MaskKind::kHalf
                                  : MaskKind::kBFloat16,
            x.raw(), lies[sizes.size()], lies[sizes.size() + 1]};
    lies.resize(sizes.size());
    // The kernels count the mask's strides in its own elements.
    strides[kMask] = lies;
  }
};

// Calls f.template operator()<U, kWidth>() for rows of so many columns: registers hold the sums of
// kWidth columns, which take twice as many for wide elements.
template <class U, class F>
void visit_width(int64_t columns, F&& f) {
  constexpr int kElement = sizeof(typename U::Element);
  if constexpr (kElement == 8)
    return f.template operator()<U, 32>();
  else if constexpr (kElement == 4)
    return f.template operator()<U, 64>();
  else
    return columns <= 64 ? f.template operator()<U, 64>() : f.template operator()<U, 128>();
}

inline int64_t parts_of(int64_t columns, int width) {
  return std::max<int64_t>(1, (columns + width - 1) / width);
}

// Blocks loop, so that no grid is too large.
template <class C>
void launch_tiles(const Call& call, void (*kernel)(Problem<C>), int bytes, int64_t rows,
                  const Problem<C>& p) {
  const int64_t blocks = p.entries * ((rows + kOwn - 1) / kOwn) * p.parts;
  if (blocks == 0) return;
  ensure(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
         call.op());
  const auto grid = static_cast<unsigned>(std::min<int64_t>(blocks, int64_t{1} << 30));
  MOONLET_LAUNCH(kernel, grid, kThreads, static_cast<size_t>(bytes), call.stream(), p);
  call.done();
}

inline bool tf32_allowed() { return float32_precision() != Float32Precision::Highest; }

}  // namespace moonlet::cuda::attention

// cuda/kernels/attention/nn_attention_tiles.cuh: the device's side of attention and its gradients:
// tiles of their arguments in shared memory, and the scores of such tiles.
#pragma once

#include <cmath>

#include "cuda/kernels/common/async_copy.cuh"
#include "cuda/kernels/common/geometry.cuh"
#include "cuda/kernels/common/mma.cuh"
#include "cuda/kernels/common/rows.cuh"
#include "tensor/functors/functor_math.h"
#include "tensor/functors/random_transforms.h"

namespace moonlet::cuda::attention {

using namespace fn;  // NOLINT(google-build-using-namespace)

inline constexpr int kWarps = 4, kThreads = kWarps * kWarp;
// The rows of a block's own tile, 16 for each warp, and of the tiles that pass by.
inline constexpr int kOwn = 16 * kWarps, kOther = 32;

// The tensors of which each entry of the batch has a part. kGradient is the gradient of the
// results, on the way forward the results; kEntry counts queries; kFirst and kSecond are gradients;
// kStates are what dropout draws from.
enum Operand {
  kQuery,
  kKey,
  kValue,
  kMask,
  kGradient,
  kEntry,
  kFirst,
  kSecond,
  kStates,
  kOperands
};

// The dimensions of a batch and the operands' strides over them. All loops over them are unrolled,
// so that no argument of a kernel is read at an index.
inline constexpr int kBatchDims = 4;
struct BatchGeometry {
  int rank = 0;
  int64_t sizes[kBatchDims] = {}, strides[kOperands][kBatchDims] = {};
};

// A tensor's rows, elements side by side; `packed` says that each begins at a multiple of 16 bytes.
struct Rows {
  char* data = nullptr;
  int64_t stride = 0, columns = 0;
  bool packed = false;
};

// What is added to scores, of the compute type or, if `narrow`, a 16-bit float; or, if `truth`,
// whether they are seen. These are apart, so that no table of branches comes of them.
struct Mask {
  const char* data = nullptr;  // null without a mask
  bool truth = false, narrow = false;
  Code code = Code::kPlain;
  int64_t row = 0, col = 0;
};

// The batch is `entries` that each write a part of the result, and within each of them those that
// add to it, as a tensor is broadcast over them. With several `splits` the keys of an entry are
// shared out in ranges of so many, whose results (splits, all queries, columns) and logarithms of
// sums (splits, all queries) are combined afterwards.
template <class C>
struct Problem {
  BatchGeometry apart, shared;
  int64_t entries = 0, within = 1, parts = 1, queries = 0, keys = 0;
  int64_t splits = 1, range = 0;
  C *split_results = nullptr, *split_sums = nullptr;
  Rows rows[kOperands];
  Mask mask;
  C scale = C(0);
  bool causal = false;
  C* logsumexp = nullptr;
  const C* dots = nullptr;
  const int64_t* states = nullptr;  // null without dropout
  int64_t row_blocks = 0;           // of random numbers for the scores of a query
  draws::Under dropped{0};
  C kept = C(1);  // what dropout multiplies with what stays
};

// The tiles of a block in shared memory. Wider rows are taken in parts of kWidth columns. Tiles
// pass by in pairs: one is computed with while the next one arrives.
template <class U, int kColumns>
struct Tiles {
  using Unit = U;
  using Element = typename U::Element;
  using Sum = typename U::Sum;
  static constexpr int kWidth = kColumns, kRows = kOther;
  static constexpr bool kWhole = false;  // whether rows are never wider
  static constexpr int kStride = tile_stride<Element>(kWidth);
  static constexpr int kScoreStride = tile_stride<Element>(kOther);
  static constexpr int kOwnSize = kOwn * kStride, kOtherSize = kOther * kStride;
  static constexpr int kPairSize = 2 * kOtherSize;
  static constexpr int kScoreSize = U::kHolds ? 0 : kOwn * kScoreStride;
  // Registers hold the sums of so many columns of a block's own rows on the way back.
  static constexpr int kSums = kWidth > 128 ? kWidth / 2 : kWidth;
  static constexpr int kForwardBytes = (kOwnSize + 2 * kPairSize + kScoreSize) * sizeof(Element);
  static constexpr int kBackwardBytes =
      (2 * kOwnSize + 2 * kPairSize + kScoreSize) * sizeof(Element) + 4 * kOther * sizeof(Sum);

  // Where an element of a tile lies.
  static __device__ __forceinline__ constexpr int position(int row, int col) {
    return row * kStride + col;
  }
};

// Tiles
// --------------------------------------------------------------------------------------------

__device__ __forceinline__ int warp_rows() { return threadIdx.x / kWarp * 16; }

// The packs of a tile that a thread brings: those at a column, of each kStep-th row.
template <class T>
struct OwnPacks {
  static constexpr int kPack = 16 / sizeof(typename T::Element), kPacks = T::kWidth / kPack,
                       kStep = kThreads / kPacks;
  int row = threadIdx.x / kPacks, col = threadIdx.x % kPacks * kPack;

  // Calls f(row) for those of kRows.
  template <int kRows, class F>
  __device__ __forceinline__ void each(const F& f) const {
    if (kThreads % kPacks != 0 && row >= kStep) return;
    MOONLET_UNROLL
    for (int step = 0; step < kRows; step += kStep)
      if (kRows % kStep == 0 || row + step < kRows) f(row + step);
  }
};

// Begins to bring rows [first, end) of x, which are packed, as many as the tile has at most, from
// column `from` on, with zeros elsewhere.
template <class T, int kRows>
__device__ __forceinline__ void fetch_tile(typename T::Element* tile, const Rows& x, int64_t first,
                                           int64_t end, int64_t from) {
  constexpr int kElement = sizeof(typename T::Element);
  const OwnPacks<T> packs;
  const int rows = static_cast<int>(min(end - first, int64_t{kRows}));
  const int64_t stride = x.stride * kElement, left = (x.columns - from - packs.col) * kElement;
  const auto bytes = static_cast<int>(min(max(left, int64_t{0}), int64_t{16}));
  const char* at = x.data + (first + packs.row) * stride + (from + packs.col) * kElement;
  packs.template each<kRows>([&](int row) {
    copy_async<16>(tile + T::position(row, packs.col), at, row < rows ? bytes : 0);
    at += OwnPacks<T>::kStep * stride;
  });
}

// Once a thread's copies have arrived: rounds what it brought of a tile to what products read.
template <class T, int kRows>
__device__ __forceinline__ void round_tile(typename T::Element* tile) {
  if constexpr (std::is_same_v<typename T::Unit, Tf32Unit>) {
    const OwnPacks<T> packs;
    packs.template each<kRows>([&](int row) {
      char* at = reinterpret_cast<char*>(tile + row * T::kStride + packs.col);
      Words<16> words = load_words<16>(at);
      MOONLET_UNROLL
      for (int k = 0; k < 4; ++k)
        words.v[k] = moonlet::detail::float_bits(to_tf32(moonlet::detail::bits_float(words.v[k])));
      store_words(at, words);
    });
  }
}

// Writes kCols columns of a warp's 16 rows, each value after f(value, upper), by way of `staging`,
// its own rows of a tile.
template <class T, int kCols, class F>
__device__ __forceinline__ void store_part(Part<typename T::Sum, kCols>& part,
                                           typename T::Element* staging, const Rows& y,
                                           int64_t first, int64_t end, int64_t from, const F& f) {
  using Element = typename T::Element;
  constexpr int kElement = sizeof(Element), kPack = 16 / kElement, kPacks = kCols / kPack;
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

// Scores
// -------------------------------------------------------------------------------------------

// Where the rows of two operands begin, of a block's own and of those that pass by.
struct Pair {
  Rows own, other;
};

// c += own's rows times other's. Tiles that hold whole rows are there already (`resident`), else
// they are brought part by part.
template <class T>
__device__ __forceinline__ void add_products(Part<typename T::Sum, kOther>& c,
                                             typename T::Element* own, typename T::Element* other,
                                             const Pair& x, int64_t first_own, int64_t end_own,
                                             int64_t first_other, int64_t end_other,
                                             bool resident) {
  constexpr int kTurns = T::Unit::kHolds ? 4 : 1;
  for (int64_t from = 0; from < x.own.columns; from += T::kWidth) {
    if (!resident) {
      __syncthreads();
      fetch_tile<T, kOwn>(own, x.own, first_own, end_own, from);
      fetch_tile<T, kOther>(other, x.other, first_other, end_other, from);
      wait_copies();
      round_tile<T, kOwn>(own);
      round_tile<T, kOther>(other);
      __syncthreads();
    }
    T::Unit::template multiply<true, kTurns>(c, own + warp_rows() * T::kStride, T::kStride, other,
                                             T::kStride, T::kWidth, kOther);
  }
}

template <class C>
__device__ __forceinline__ C hidden() {
  return C(-HUGE_VAL);
}

// Scores are counted in units of which the power is one instruction: float32 in powers of 2.
template <class C>
inline constexpr C kUnits = C(1);
template <>
inline constexpr float kUnits<float> = 1.44269504088896341f;

__device__ __forceinline__ double power(double v) { return vexp(v); }
__device__ __forceinline__ float power(float v) {
#ifdef MOONLET_CUDA_EMULATED
  return vexp2(v);
#else
  float out;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(v));
  return out;
#endif
}

// Which scores of a warp's tile are seen, where some may not be: in each of a thread's two rows the
// columns [low, high).
struct Window {
  int low[2], high[2];

  // A tile of rows from `own` and columns from `other` on.
  template <bool kByKeys, int kCols, class C>
  static __device__ Window of(const Problem<C>& p, int64_t own, int64_t other) {
    const auto inside = [](int64_t v) {
      return static_cast<int>(min(max(v, int64_t{0}), int64_t{kCols}));
    };
    Window out;
    const int last = inside((kByKeys ? p.queries : p.keys) - other);
    MOONLET_UNROLL
    for (int upper = 0; upper < 2; ++upper) {
      const int64_t row = own + row_in_warp() + 8 * upper;
      out.low[upper] = kByKeys && p.causal ? inside(row - other) : 0;
      out.high[upper] = !kByKeys && p.causal ? min(last, inside(row + 1 - other)) : last;
    }
    return out;
  }
};

// Whether a tile of scores has some that are not seen: at the end of the rows that pass by and,
// with is_causal, where a key is behind a query.
template <bool kByKeys, int kCols, class C>
__device__ __forceinline__ bool at_border(const Problem<C>& p, int64_t own, int64_t other) {
  if (other + kCols > (kByKeys ? p.queries : p.keys)) return true;
  return p.causal && (kByKeys ? own + 15 > other : other + kCols - 1 > own);
}

// Calls v = f(v, position in the mask) for a tile of scores. Those outside read the mask's last.
template <bool kByKeys, class C, int kCols, class F>
__device__ __forceinline__ void each_masked(const Problem<C>& p, int64_t mask, int64_t own,
                                            int64_t other, Part<C, kCols>& scores, const F& f) {
  const int64_t along = kByKeys ? p.mask.col : p.mask.row,
                across = kByKeys ? p.mask.row : p.mask.col,
                last_own = (kByKeys ? p.keys : p.queries) - 1;
  const auto last =
      static_cast<int>(min((kByKeys ? p.queries : p.keys) - other, int64_t{kCols})) - 1;
  int64_t start[2];
  MOONLET_UNROLL
  for (int upper = 0; upper < 2; ++upper)
    start[upper] = mask + min(own + row_in_warp() + 8 * upper, last_own) * along + other * across;
  scores.each([&](C& v, int upper, int col) { v = f(v, start[upper] + min(col, last) * across); });
}

// What a mask does to a tile of scores; what kind it is, is asked once.
template <bool kByKeys, class C, int kCols>
__device__ __forceinline__ void add_mask(const Problem<C>& p, int64_t mask, int64_t own,
                                         int64_t other, Part<C, kCols>& scores) {
  const Mask& m = p.mask;
  if (m.truth) {
    each_masked<kByKeys>(p, mask, own, other, scores,
                         [&](C v, int64_t at) { return m.data[at] != 0 ? v : hidden<C>(); });
  } else if (!m.narrow) {
    each_masked<kByKeys>(p, mask, own, other, scores, [&](C v, int64_t at) {
      return v + kUnits<C> * reinterpret_cast<const C*>(m.data)[at];
    });
  } else {
    each_masked<kByKeys>(p, mask, own, other, scores, [&](C v, int64_t at) {
      return v + kUnits<C> * decoded<C, 2>(load_words<2>(m.data + 2 * at).v[0], m.code);
    });
  }
}

// The products of a warp's tile, of rows from `own` and columns from `other` on, become scores,
// minus infinity where a query does not see a key.
template <bool kByKeys, class C, int kCols>
__device__ __forceinline__ void score(const Problem<C>& p, int64_t mask, int64_t own, int64_t other,
                                      Part<C, kCols>& scores) {
  const C factor = p.scale * kUnits<C>;
  scores.each([&](C& v, int, int) { v *= factor; });
  if (p.mask.data != nullptr) add_mask<kByKeys>(p, mask, own, other, scores);
  if (!at_border<kByKeys, kCols>(p, own, other)) return;
  const Window seen = Window::of<kByKeys, kCols>(p, own, other);
  scores.each([&](C& v, int upper, int col) {
    if (col < seen.low[upper] || col >= seen.high[upper]) v = hidden<C>();
  });
}

// Where the random numbers of an entry's scores begin: in shared memory, as registers are few.
using State = SharedArray<uint64_t, 2>;
// Between barriers, as others read it.
template <class C>
__device__ __forceinline__ void read_state(const Problem<C>& p, int64_t offset, uint64_t* state) {
  if (p.states != nullptr && threadIdx.x < 2)
    state[threadIdx.x] = static_cast<uint64_t>(p.states[offset + threadIdx.x]);
}

// Of lanes that differ in the bits `lanes` alone: what belongs to the other one changes for what
// belongs to this one, in groups of kShift bits.
template <int kShift>
__device__ __forceinline__ uint32_t exchange_bits(uint32_t bits, int lanes) {
  constexpr uint32_t kLow = kShift == 1 ? 0x55555555 : 0x33333333;
  const uint32_t other = __shfl_xor_sync(kAllLanes, bits, lanes);
  if (threadIdx.x & lanes) return (bits & (kLow << kShift)) | ((other >> kShift) & kLow);
  return (bits & kLow) | ((other & kLow) << kShift);
}

// Which scores of a warp's tile, of rows from `own` and columns from `other` on, dropout drops: bit
// 4 n + i for number i of the thread's n-th. A block of random numbers is for four keys of a query,
// which several lanes hold, or the rows of several lanes: each draws some of them.
template <bool kByKeys, int kCols, class C>
__device__ __forceinline__ uint32_t dropped_scores(const Problem<C>& p, const uint64_t* state,
                                                   int64_t own, int64_t other) {
  static_assert(kCols <= 64);
  const Philox rng{state[0], state[1]};
  const int turn = threadIdx.x % 4, row = row_in_warp(), quarter = row % 4;
  const int64_t query = kByKeys ? other + 2 * turn + quarter % 2 : own + row + 8 * (turn % 2),
                keys = kByKeys ? own + row - quarter + quarter / 2 * 8 : other + turn / 2 * 4;
  uint32_t bits = 0;
  MOONLET_UNROLL
  for (int n = 0; n < kCols / 8; ++n) {
    const int64_t block = kByKeys ? (query + 8 * n) * p.row_blocks + keys / 4
                                  : query * p.row_blocks + keys / 4 + 2 * n;
    const PhiloxBlock drawn = rng.block(static_cast<uint64_t>(block));
    MOONLET_UNROLL
    for (int k = 0; k < 4; ++k) bits |= (drawn.v[k] <= p.dropped.last ? 1u : 0u) << (4 * n + k);
  }
  if (kByKeys) return exchange_bits<2>(exchange_bits<1>(bits, 4), 8);
  return exchange_bits<2>(bits, 1);
}

// Zeros where a bit of dropped_scores says so, else the value times `kept`.
template <class C, int kCols>
__device__ __forceinline__ void drop(Part<C, kCols>& part, uint32_t bits, C kept) {
  MOONLET_UNROLL
  for (int n = 0; n < kCols / 8; ++n) MOONLET_UNROLL
  for (int i = 0; i < 4; ++i)
    part.v[n][i] = (bits >> (4 * n + i) & 1) != 0 ? C(0) : part.v[n][i] * kept;
}

// sums += a warp's scores times the rows that pass by, which lie in `other`; `memory` is for its
// rows of scores.
template <class T, int kCols>
__device__ __forceinline__ void add_scored(Part<typename T::Sum, kCols>& sums,
                                           Part<typename T::Sum, kOther>& scores,
                                           typename T::Element* memory,
                                           const typename T::Element* other) {
  if constexpr (T::Unit::kHolds) {
    T::Unit::multiply_held(sums, scores, other, T::kStride);
  } else {
    __syncwarp();
    scores.each([&](typename T::Sum v, int upper, int col) {
      memory[(row_in_warp() + 8 * upper) * T::kScoreStride + col] = v;
    });
    __syncwarp();
    T::Unit::template multiply<false>(sums, memory, T::kScoreStride, other, T::kStride, kOther,
                                      kCols);
  }
}

// Of the four threads that hold a row.
template <class C, class Combine>
__device__ __forceinline__ C combine_row(C v, const Combine& combine) {
  v = combine(v, __shfl_xor_sync(kAllLanes, v, 1));
  return combine(v, __shfl_xor_sync(kAllLanes, v, 2));
}

// Work
// ---------------------------------------------------------------------------------------------

template <class T>
__device__ __forceinline__ Rows rows_at(const Rows& x, int64_t offset) {
  Rows out = x;
  out.data += offset * static_cast<int64_t>(sizeof(typename T::Element));
  return out;
}

// Where an entry's part of each operand begins.
__device__ __forceinline__ Offsets<kOperands> positions(const BatchGeometry& g, int64_t entry) {
  Offsets<kOperands> out;
  MOONLET_UNROLL
  for (int t = 0; t < kOperands; ++t) out.at[t] = 0;
  MOONLET_UNROLL
  for (int d = kBatchDims - 1; d > 0; --d) {
    if (d >= g.rank) continue;
    const int64_t rest = entry % g.sizes[d];
    entry /= g.sizes[d];
    MOONLET_UNROLL
    for (int t = 0; t < kOperands; ++t) out.at[t] += rest * g.strides[t][d];
  }
  MOONLET_UNROLL
  for (int t = 0; t < kOperands; ++t) out.at[t] += entry * g.strides[t][0];
  return out;
}

// Which part of which tile of which entry a block computes, and of which range of the keys.
struct Work {
  int64_t entry, tile;
  int part, split;
  __device__ Work(int64_t number, int64_t tiles, int64_t parts, int64_t splits = 1)
      : entry(number / splits / parts / tiles),
        tile(number / splits / parts % tiles),
        part(static_cast<int>(number / splits % parts)),
        split(static_cast<int>(number % splits)) {}
};

}  // namespace moonlet::cuda::attention

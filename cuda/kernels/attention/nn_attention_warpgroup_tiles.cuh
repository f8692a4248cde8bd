// cuda/kernels/attention/nn_attention_warpgroup_tiles.cuh: tiles of 16-bit floats in shared memory
// as products of a warpgroup read them, and such products.
#pragma once

#include "cuda/kernels/attention/nn_attention_backward.cuh"
#include "cuda/kernels/attention/nn_attention_warpgroup.cuh"
#include "cuda/kernels/common/wgmma.cuh"

namespace moonlet::cuda::attention {

// Tiles of 64 rows, as wide as the head, in blocks of 64 columns. The rows of results are staged
// where keys and values were.
template <class U, int kColumns>
struct WarpgroupTiles {
  using Unit = U;
  using Element = typename U::Element;
  using Sum = float;
  static constexpr int kWidth = kColumns, kBlocks = kWidth / kSwizzledRow, kRows = kWarpgroupKeys;
  static constexpr bool kWhole = true;
  static constexpr int kStride = tile_stride<Element>(kWidth);
  static constexpr int kTileSize = kBlocks * kSwizzledTile, kPairSize = 2 * kTileSize;
  static constexpr int kOwnSize = kTileSize, kOtherSize = kTileSize, kSums = kWidth;
  static constexpr int kScoreStride = 0, kScoreSize = 0;
  static constexpr int kForwardBytes =
      2 * kPairSize * static_cast<int>(sizeof(Element)) + kSwizzledAlign;
  static constexpr int kBackwardBytes = kForwardBytes +
                                        2 * kTileSize * static_cast<int>(sizeof(Element)) +
                                        4 * kRows * static_cast<int>(sizeof(Sum));
  static_assert(kOwn == 64 && kWarpgroupKeys == 64 && kOwn * kStride <= 2 * kPairSize);

  static __device__ __forceinline__ constexpr int position(int row, int col) {
    return col / kSwizzledRow * kSwizzledTile + swizzled(row, col % kSwizzledRow);
  }
};

#ifdef MOONLET_HAS_WGMMA

// Rows of a warp as the first factor, 16 columns after another.
template <int kCols>
struct Factors {
  uint32_t v[kCols / 16][4];
};

// Scores lie in their registers as the first factor does.
template <class Element>
__device__ __forceinline__ Factors<kWarpgroupKeys> narrowed(
    const Part<float, kWarpgroupKeys>& scores) {
  Factors<kWarpgroupKeys> out;
  MOONLET_UNROLL
  for (int n = 0; n < kWarpgroupKeys / 8; ++n) MOONLET_UNROLL
  for (int upper = 0; upper < 2; ++upper)
    out.v[n / 2][n % 2 * 2 + upper] =
        narrowed_pair(Element(), scores.v[n][2 * upper], scores.v[n][2 * upper + 1]);
  return out;
}

// sums = a's rows times those of a tile, and sums += scores times the rows of a tile.
template <class T, class F>
__device__ __forceinline__ void multiply_rows(Part<float, kWarpgroupKeys>& sums, const F& a,
                                              const typename T::Element* rows) {
  using Element = typename T::Element;
  const uint64_t b = describe_tile(rows);
  multiply_warpgroup<true, false>(Element(), sums.v, a(0), b);
  MOONLET_UNROLL
  for (int k = 16; k < T::kWidth; k += 16)
    multiply_warpgroup<true, true>(Element(), sums.v, a(k), further(b, T::position(0, k)));
}
template <class T>
__device__ __forceinline__ void add_values(Part<float, T::kWidth>& sums,
                                           const Factors<kWarpgroupKeys>& scores,
                                           const typename T::Element* values) {
  const uint64_t b = describe_tile(values);
  begin_products(sums);
  MOONLET_UNROLL
  for (int block = 0; block < T::kBlocks; ++block) MOONLET_UNROLL
  for (int k = 0; k < kWarpgroupKeys; k += 16)
    multiply_warpgroup<false, true>(typename T::Element(), sums.v + 8 * block, scores.v[k / 16],
                                    further(b, T::position(k, block * kSwizzledRow)));
  end_products(sums);
}

// Of the way back.
template <class U, int kColumns>
struct Products<WarpgroupTiles<U, kColumns>> {
  using T = WarpgroupTiles<U, kColumns>;
  using Element = typename T::Element;

  // A block's two tiles times the two that pass by.
  static __device__ __forceinline__ void multiply(Part<float, T::kRows>& first,
                                                  Part<float, T::kRows>& second,
                                                  Element* const (&own)[2], const Element* pair) {
    const uint64_t a[] = {describe_tile(own[0]), describe_tile(own[1])};
    begin_products(first, second);
    multiply_rows<T>(
        first, [&](int k) { return further(a[0], T::position(0, k)); }, pair);
    multiply_rows<T>(
        second, [&](int k) { return further(a[1], T::position(0, k)); }, pair + T::kTileSize);
    end_products(first, second);
  }
  static __device__ __forceinline__ Factors<T::kRows> factors(const Part<float, T::kRows>& scores) {
    return narrowed<Element>(scores);
  }
  template <int kCols>
  static __device__ __forceinline__ void add(Part<float, kCols>& sums,
                                             const Factors<T::kRows>& scores, Element*,
                                             const Element* other) {
    add_values<T>(sums, scores, other);
  }
  static __device__ __forceinline__ void show() { show_to_products(); }
};

#endif

// Calls f.template operator()<T>() with the tiles for rows of so many columns.
template <class F>
void visit_warpgroup_tiles(DType dtype, int64_t columns, F&& f) {
  const auto visit = [&]<class U>() {
    if (columns <= 64)
      f.template operator()<WarpgroupTiles<U, 64>>();
    else
      f.template operator()<WarpgroupTiles<U, 128>>();
  };
  if (dtype == DType::Float16)
    visit.template operator()<HalfUnit<half>>();
  else
    visit.template operator()<HalfUnit<bfloat16>>();
}

}  // namespace moonlet::cuda::attention

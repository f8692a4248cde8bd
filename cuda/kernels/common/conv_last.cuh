// cuda/kernels/common/conv_last.cuh: convolution of images whose channels lie side by side, both
// ways and for the gradient of the weight, as products of tiles that are gathered along the
// channels, 16 bytes at a time where groups have so many: nothing is copied to planes and back.
#pragma once

#include "cuda/kernels/common/conv_shape.cuh"
#include "cuda/kernels/common/mma.cuh"
#include "cuda/kernels/common/typed.cuh"

namespace moonlet::cuda {

// A block's tile of the result, and the depth that is in shared memory at a time.
inline constexpr int kConvWarps = 4, kConvThreads = kConvWarps * kWarp;
inline constexpr int kConvRows = 16 * kConvWarps, kConvColumns = 64, kConvDepth = 32;

template <class U>
__device__ __forceinline__ typename U::Element rounded(typename U::Element v) {
  if constexpr (std::is_same_v<U, Tf32Unit>)
    return to_tf32(v);
  else
    return v;
}

// What is done to a sum before it is stored.
template <class C>
struct Epilogue {
  const C* bias = nullptr;  // a number for each channel of the result
  bool relu = false;        // 0 in the place of what is less; what is no number stays
  __device__ __forceinline__ C shift(int64_t channel) const {
    return bias != nullptr ? bias[channel] : C(0);
  }
  __device__ __forceinline__ C clipped(C sum) const { return relu && sum <= C(0) ? C(0) : sum; }
  __device__ __forceinline__ C operator()(C sum, int64_t channel) const {
    return clipped(sum + shift(channel));
  }
};

// The depth is cut in `pieces` of `length`, each with its own results.
struct Pieces {
  int64_t count, length, step;
};

// Which images a result is made of: their positions and channels, and those of the result.
struct LastAcross {
  __device__ static const Grid3& to(const ConvShape& s) { return s.out; }
  __device__ static const Grid3& from(const ConvShape& s) { return s.in; }
  __host__ __device__ static int64_t ins(const ConvShape& s) { return s.ins; }
  __host__ __device__ static int64_t outs(const ConvShape& s) { return s.outs; }
  __device__ static int64_t seen(const ConvShape& s, const Axes& at, const Axes& tap) {
    return seen_position(s, at, tap);
  }
};
struct LastBack {
  __device__ static const Grid3& to(const ConvShape& s) { return s.in; }
  __device__ static const Grid3& from(const ConvShape& s) { return s.out; }
  __host__ __device__ static int64_t ins(const ConvShape& s) { return s.outs; }
  __host__ __device__ static int64_t outs(const ConvShape& s) { return s.ins; }
  __device__ static int64_t seen(const ConvShape& s, const Axes& at, const Axes& tap) {
    return seeing_position(s, at, tap);
  }
};

// A position of the result: where its image begins in the other one, and its coordinates.
struct LastRow {
  int64_t image;
  Axes at;
};
template <class Way>
__device__ __forceinline__ LastRow last_row(const ConvShape& s, int64_t row) {
  int64_t rest;
  const int64_t image = Way::to(s).all(row, rest);
  return {image * Way::from(s).volume, Way::to(s).at(rest)};
}

// Copies kCount elements, whose bytes lie so, or zeros where `from` is null.
template <class U, int kCount>
__device__ __forceinline__ void put_elements(typename U::Element* to,
                                             const typename U::Element* from) {
  using E = typename U::Element;
  if constexpr (kCount == 1) {
    *to = from == nullptr ? E() : rounded<U>(*from);
  } else {
    Words<16> words{};
    if (from != nullptr) words = load_words<16>(reinterpret_cast<const char*>(from));
    if constexpr (std::is_same_v<U, Tf32Unit>) {
      Floats<E> v = unpacked<E>(words);
      MOONLET_UNROLL
      for (int k = 0; k < kCount; ++k) v.v[k] = to_tf32(v.v[k]);
      words = packed<E>(v);
    }
    store_words<16>(reinterpret_cast<char*>(to), words);
  }
}

// The same, each `step` elements behind the one before.
template <class U, int kCount>
__device__ __forceinline__ void spread_elements(typename U::Element* to, int step,
                                                const typename U::Element* from) {
  using E = typename U::Element;
  alignas(16) E held[kCount];
  put_elements<U, kCount>(held, from);
  MOONLET_UNROLL
  for (int k = 0; k < kCount; ++k) to[k * step] = held[k];
}

// Rows are positions of the result, columns its channels, the depth taps with the channels of the
// other side in them. `weight` lies as (groups, columns, taps, channels); kPack elements are read
// at once.
template <class U, class Way, int kPack>
__global__ void __launch_bounds__(kConvThreads, 3)
    conv_last_kernel(MOONLET_GRID_CONSTANT const ConvShape s, Split channels,
                     const typename U::Element* x, const typename U::Element* weight,
                     Epilogue<typename U::Sum> epilogue, typename U::Element* y) {
  using E = typename U::Element;
  constexpr int kStride = tile_stride<E>(kConvDepth), kAcross = kConvDepth / kPack,
                kDown = kConvThreads / kAcross;
  __shared__ SharedArray<E, kConvRows * kStride> left;
  __shared__ SharedArray<E, kConvColumns * kStride> right;
  __shared__ SharedArray<LastRow, kConvRows> positions;
  E *const a = left.get(), *const b = right.get();
  const int64_t rows = s.batch * Way::to(s).volume, outs = Way::outs(s), ins = Way::ins(s);
  const int64_t depth = ins * s.kernel.volume, down = (rows + kConvRows - 1) / kConvRows,
                along = (outs + kConvColumns - 1) / kConvColumns;
  const int deep = threadIdx.x % kAcross * kPack, first = threadIdx.x / kAcross;
  for (int64_t i = blockIdx.x; i < down * along * s.groups; i += gridDim.x) {
    const int64_t row = i / along % down * kConvRows, column = i % along * kConvColumns,
                  group = i / along / down;
    __syncthreads();
    for (int m = threadIdx.x; m < kConvRows; m += kConvThreads)
      positions.get()[m] = last_row<Way>(s, min(row + m, rows - 1));
    Part<typename U::Sum, kConvColumns> sums;
    sums.clear();
    for (int64_t k = 0; k < depth; k += kConvDepth) {
      __syncthreads();
      const bool inside = k + deep < depth;
      int64_t channel = 0;
      const int64_t at_tap = channels(inside ? k + deep : 0, channel);
      const Axes tap = s.kernel.at(at_tap);
      MOONLET_UNROLL_BY(4)
      for (int m = first; m < kConvRows; m += kDown) {
        const LastRow& of = positions.get()[m];
        const int64_t at = inside && row + m < rows ? Way::seen(s, of.at, tap) : -1;
        put_elements<U, kPack>(
            a + m * kStride + deep,
            at < 0 ? nullptr : x + ((of.image + at) * s.groups + group) * ins + channel);
      }
      MOONLET_UNROLL_BY(4)
      for (int n = first; n < kConvColumns; n += kDown)
        put_elements<U, kPack>(b + n * kStride + deep,
                               inside && column + n < outs
                                   ? weight + (group * outs + column + n) * depth + k + deep
                                   : nullptr);
      __syncthreads();
      U::template multiply<true>(sums, a + threadIdx.x / kWarp * 16 * kStride, kStride, b, kStride,
                                 kConvDepth, kConvColumns);
    }
    const int64_t my_row = row + threadIdx.x / kWarp * 16 + row_in_warp();
    sums.each([&](typename U::Sum v, int upper, int col) {
      const int64_t m = my_row + 8 * upper, n = column + col;
      if (m >= rows || n >= outs) return;
      y[(m * s.groups + group) * outs + n] = convert<E>(epilogue(v, group * outs + n));
    });
  }
}

// A tile of gradients of a group: rows are its output channels from `row` on, the depth positions
// from `k` on, zeros beyond `end`. Channels are neighbours in memory, positions in the tile;
// threads that read packs are neighbours along the positions, so that their writes meet in no bank.
template <class U, int kGradPack>
__device__ __forceinline__ void gather_gradients(const ConvShape& s,
                                                 const typename U::Element* grad, int64_t group,
                                                 int64_t k, int64_t end, int64_t row,
                                                 typename U::Element* to) {
  constexpr int kStride = tile_stride<typename U::Element>(kConvDepth),
                kParts = kConvRows / kGradPack;
  MOONLET_UNROLL_BY(4)
  for (int e = threadIdx.x; e < kParts * kConvDepth; e += kConvThreads) {
    const int d = kGradPack > 1 ? e % kConvDepth : e / kParts,
              m = (kGradPack > 1 ? e / kConvDepth : e % kParts) * kGradPack;
    spread_elements<U, kGradPack>(to + m * kStride + d, kStride,
                                  k + d < end && row + m < s.outs
                                      ? grad + ((k + d) * s.groups + group) * s.outs + row + m
                                      : nullptr);
  }
}

// The gradient of the weight, into parts that lie as (groups, output channels, taps, channels):
// rows are output channels, columns taps with channels, the depth positions of all results. Of x
// kPack elements are read at once, of `grad` kGradPack.
template <class U, int kPack, int kGradPack>
__global__ void __launch_bounds__(kConvThreads, 3)
    conv_last_weight_kernel(MOONLET_GRID_CONSTANT const ConvShape s, Split channels, Pieces pieces,
                            const typename U::Element* x, const typename U::Element* grad,
                            typename U::Sum* y) {
  using E = typename U::Element;
  constexpr int kStride = tile_stride<E>(kConvDepth), kWide = tile_stride<E>(kConvColumns),
                kAcross = kConvColumns / kPack, kDown = kConvThreads / kAcross;
  __shared__ SharedArray<E, kConvRows * kStride> left;
  __shared__ SharedArray<E, kConvDepth * kWide> right;
  __shared__ SharedArray<LastRow, kConvDepth> positions;
  E *const a = left.get(), *const b = right.get();
  const int64_t rows = s.outs, columns = s.taps(), depth = s.batch * s.out.volume;
  const int64_t down = (rows + kConvRows - 1) / kConvRows,
                along = (columns + kConvColumns - 1) / kConvColumns;
  const int wide = threadIdx.x % kAcross * kPack, first = threadIdx.x / kAcross;
  for (int64_t i = blockIdx.x; i < down * along * s.groups * pieces.count; i += gridDim.x) {
    const int64_t row = i % down * kConvRows, column = i / down % along * kConvColumns;
    const int64_t group = i / down / along % s.groups, piece = i / down / along / s.groups;
    const int64_t begin = piece * pieces.length, end = min(begin + pieces.length, depth);
    const bool mine = column + wide < columns;
    int64_t channel = 0;
    const int64_t at_tap = channels(mine ? column + wide : 0, channel);
    const Axes tap = s.kernel.at(at_tap);
    Part<typename U::Sum, kConvColumns> sums;
    sums.clear();
    for (int64_t k = begin; k < end; k += kConvDepth) {
      __syncthreads();
      for (int d = threadIdx.x; d < kConvDepth; d += kConvThreads)
        positions.get()[d] = last_row<LastAcross>(s, min(k + d, depth - 1));
      gather_gradients<U, kGradPack>(s, grad, group, k, end, row, a);
      __syncthreads();
      MOONLET_UNROLL_BY(4)
      for (int d = first; d < kConvDepth; d += kDown) {
        const LastRow& of = positions.get()[d];
        const int64_t at = mine && k + d < end ? seen_position(s, of.at, tap) : -1;
        put_elements<U, kPack>(
            b + d * kWide + wide,
            at < 0 ? nullptr : x + ((of.image + at) * s.groups + group) * s.ins + channel);
      }
      __syncthreads();
      U::template multiply<false>(sums, a + threadIdx.x / kWarp * 16 * kStride, kStride, b, kWide,
                                  kConvDepth, kConvColumns);
    }
    const int64_t my_row = row + threadIdx.x / kWarp * 16 + row_in_warp();
    sums.each([&](typename U::Sum v, int upper, int col) {
      const int64_t m = my_row + 8 * upper, n = column + col;
      if (m < rows && n < columns) y[piece * pieces.step + (group * rows + m) * columns + n] = v;
    });
  }
}

// Whether packs of T can be read along the channels of a group, of both tensors.
template <class T>
bool channels_have_packs(int64_t channels, const void* x, const void* other) {
  return channels % kPackOf<T> == 0 && aligned_to(x, 16) && aligned_to(other, 16);
}

}  // namespace moonlet::cuda

// cuda/kernels/common/scan.cuh: inclusive running combinations along one dimension. Lines of
// contiguous elements are scanned by lanes of a warp or by a block, lines side by side by a thread
// each; where there are few lines, each is cut into pieces, whose totals are scanned first. How a
// line is cut depends on shapes alone.
#pragma once

#include <algorithm>

#include "cuda/kernels/common/geometry.cuh"
#include "cuda/kernels/common/packs.cuh"
#include "cuda/kernels/common/team.cuh"
#include "cuda/runtime/device.h"

namespace moonlet::cuda {

// Op: `C start()`, which changes nothing; `C combine(C, C)`; `C load(at, along)` and `store(at, C)`
// for the element number `at`, which is the `along`-th of its line, from 0; kItems, how many
// elements of a line a thread takes at once. With kElement bytes to an element, not 0, these are
// read and written as packs by `PackSource source()` and `char* target()`.
struct ScanByElements {
  enum { kElement = 0, kItems = 4 };
};

// The element numbers from `at` on, of which there are `count`.
template <class C, class Op>
__device__ __forceinline__ void read_items(const Op& op, int64_t at, int64_t along, int64_t count,
                                           C (&v)[Op::kItems]) {
  if constexpr (Op::kElement > 0) {
    const PackSource source = op.source();
    Words<16> words{};
    if (count > 0) words = load_pack<Op::kElement>(source, at, count);
    MOONLET_UNROLL
    for (int k = 0; k < Op::kItems; ++k)
      v[k] = k < count ? decoded<C, Op::kElement>(bits_at<Op::kElement>(words, k), source.code)
                       : op.start();
  } else {
    MOONLET_UNROLL
    for (int k = 0; k < Op::kItems; ++k) v[k] = k < count ? op.load(at + k, along + k) : op.start();
  }
}

template <class C, class Op>
__device__ __forceinline__ void write_items(const Op& op, int64_t at, int64_t count,
                                            const C (&v)[Op::kItems]) {
  if constexpr (Op::kElement > 0) {
    if (count <= 0) return;
    const PackSource source = op.source();
    Words<16> words{};
    MOONLET_UNROLL
    for (int k = 0; k < Op::kItems; ++k)
      set_bits<Op::kElement>(words, k, encoded<C, Op::kElement>(v[k], source.code));
    store_pack<Op::kElement>(op.target(), source.aligned, at, count, words);
  } else {
    MOONLET_UNROLL
    for (int k = 0; k < Op::kItems; ++k)
      if (k < count) op.store(at + k, v[k]);
  }
}

template <class C, class Op>
__device__ __forceinline__ void run_items(const Op& op, C (&v)[Op::kItems]) {
  MOONLET_UNROLL
  for (int k = 1; k < Op::kItems; ++k) v[k] = op.combine(v[k - 1], v[k]);
}

template <class C, class Op>
__device__ __forceinline__ void put_before(const Op& op, const C& before, C (&v)[Op::kItems]) {
  MOONLET_UNROLL
  for (int k = 0; k < Op::kItems; ++k) v[k] = op.combine(before, v[k]);
}

// The value of the lane `by` before this one among `width`; its own where there is none.
template <class T>
__device__ __forceinline__ T from_earlier_lane(const T& value, int by, int width) {
  return by_words(value, [=](uint32_t word) { return __shfl_up_sync(kAllLanes, word, by, width); });
}

// The combination of the values of `width` lanes up to this one. Every lane of the warp calls it.
template <class C, class Op>
__device__ __forceinline__ C lanes_upto(const Op& op, C value, int width) {
  const int lane = threadIdx.x % width;
  for (int by = 1; by < width; by *= 2) {
    const C other = from_earlier_lane(value, by, width);
    if (lane >= by) value = op.combine(other, value);
  }
  return value;
}

// Contiguous lines, each by `team` lanes, a power of two.
template <class C, class Op>
__global__ void __launch_bounds__(kBlock)
    scan_lanes_kernel(int64_t lines, int64_t size, int team, Op op) {
  const int me = threadIdx.x % team, teams = kBlock / team;
  for (int64_t first = int64_t{blockIdx.x} * teams; first < lines;
       first += int64_t{gridDim.x} * teams) {
    const int64_t line = first + threadIdx.x / team;
    C carry = op.start();
    for (int64_t tile = 0; tile < size; tile += team * Op::kItems) {
      const int64_t i = tile + me * Op::kItems, count = line < lines ? size - i : 0;
      C v[Op::kItems];
      read_items<C>(op, line * size + i, i, count, v);
      run_items<C>(op, v);
      const C upto = lanes_upto<C>(op, v[Op::kItems - 1], team);
      const C before = from_earlier_lane(upto, 1, team);
      put_before<C>(op, me == 0 ? carry : op.combine(carry, before), v);
      write_items<C>(op, line * size + i, count, v);
      carry = op.combine(carry, from_lane(upto, team - 1, team));
    }
  }
}

// How lines are cut.
struct Pieces {
  int64_t count = 1, length = 0;
};

// Contiguous lines, each piece by a block: its total alone, or the scan behind the pieces before
// it, whose totals have been scanned.
template <bool kTotals, class C, class Op>
__global__ void __launch_bounds__(kBlock)
    scan_blocks_kernel(int64_t lines, int64_t size, Pieces pieces, Op op, C* totals) {
  constexpr int kWarps = kBlock / kWarp;
  __shared__ SharedArray<C, kWarps> memory;
  C* warps = memory.get();
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  for (int64_t job = blockIdx.x; job < lines * pieces.count; job += gridDim.x) {
    const int64_t line = job / pieces.count, begin = job % pieces.count * pieces.length;
    const int64_t end = begin + pieces.length < size ? begin + pieces.length : size;
    C carry = kTotals || begin == 0 ? op.start() : totals[job - 1];
    for (int64_t tile = begin; tile < end; tile += kBlock * Op::kItems) {
      const int64_t i = tile + threadIdx.x * Op::kItems, at = line * size + i;
      C v[Op::kItems];
      read_items<C>(op, at, i, end - i, v);
      run_items<C>(op, v);
      const C upto = lanes_upto<C>(op, v[Op::kItems - 1], kWarp);
      const C earlier = from_earlier_lane(upto, 1, kWarp);
      if (lane == kWarp - 1) warps[warp] = upto;
      __syncthreads();
      C before = carry;
      for (int w = 0; w < kWarps; ++w) {
        if (w == warp) before = carry;
        carry = op.combine(carry, warps[w]);
      }
      if constexpr (!kTotals) {
        put_before<C>(op, lane == 0 ? before : op.combine(before, earlier), v);
        write_items<C>(op, at, end - i, v);
      }
      __syncthreads();
    }
    if (kTotals && threadIdx.x == 0) totals[job] = carry;
  }
}

// Lines side by side, each piece by a thread.
template <bool kTotals, class C, class Op>
__global__ void __launch_bounds__(kBlock)
    scan_columns_kernel(DimSplit s, Pieces pieces, Op op, C* totals) {
  constexpr int kFlight = 4;
  const int64_t lines = s.outer * s.inner;
  for (MOONLET_EACH(job, lines * pieces.count)) {
    const int64_t line = job % lines, piece = job / lines, begin = piece * pieces.length;
    const int64_t end = begin + pieces.length < s.size ? begin + pieces.length : s.size;
    const int64_t base = line / s.inner * s.size * s.inner + line % s.inner;
    const int64_t total = line * pieces.count + piece;
    C carry = kTotals || piece == 0 ? op.start() : totals[total - 1];
    for (int64_t i = begin; i < end; i += kFlight) {
      C v[kFlight];
      MOONLET_UNROLL
      for (int k = 0; k < kFlight; ++k)
        v[k] = i + k < end ? op.load(base + (i + k) * s.inner, i + k) : op.start();
      MOONLET_UNROLL
      for (int k = 0; k < kFlight; ++k) {
        carry = op.combine(carry, v[k]);
        if (!kTotals && i + k < end) op.store(base + (i + k) * s.inner, carry);
      }
    }
    if (kTotals) totals[total] = carry;
  }
}

// The scan of the pieces' totals.
template <class C, class Op>
struct TotalsOf : ScanByElements {
  Op op;
  C* totals;
  TotalsOf(const Op& whose, C* of) : op(whose), totals(of) {}
  __device__ C start() const { return op.start(); }
  __device__ C combine(const C& a, const C& b) const { return op.combine(a, b); }
  __device__ C load(int64_t at, int64_t) const { return totals[at]; }
  __device__ void store(int64_t at, const C& v) const { totals[at] = v; }
};

// Lines up to this size are the work of lanes.
inline constexpr int64_t kLanesSize = 1024;

// Lines without pieces.
template <class C, class Op>
void scan_whole_lines(const Call& call, int64_t lines, int64_t size, const Op& op) {
  if (size <= kLanesSize) {
    const int team = lanes_for((size + Op::kItems - 1) / Op::kItems);
    MOONLET_LAUNCH((scan_lanes_kernel<C, Op>), blocks_for(lines * team), kBlock, 0, call.stream(),
                   lines, size, team, op);
  } else {
    MOONLET_LAUNCH((scan_blocks_kernel<false, C, Op>), blocks_for(lines * kBlock), kBlock, 0,
                   call.stream(), lines, size, Pieces{1, size}, op, static_cast<C*>(nullptr));
  }
  call.done();
}

// Calls launch(kTotals, totals) with room for the pieces' totals: for these, then for the scan.
template <class C, class Op, class Launch>
void scan_pieces(const Call& call, int64_t lines, const Pieces& pieces, const Op& op,
                 const Launch& launch) {
  const Tensor room =
      call.scratch({lines * pieces.count * static_cast<int64_t>(sizeof(C))}, DType::UInt8);
  auto* totals = reinterpret_cast<C*>(room.raw());
  launch(std::true_type(), totals);
  call.done();
  scan_whole_lines<C>(call, lines, pieces.count, TotalsOf<C, Op>(op, totals));
  launch(std::false_type(), totals);
  call.done();
}

// At most `wanted` pieces, of a multiple of `unit` elements and at least `least` units.
inline Pieces pieces_of(int64_t size, int64_t wanted, int64_t unit, int64_t least) {
  const int64_t units = (size + unit - 1) / unit;
  const int64_t length = std::max((units + wanted - 1) / wanted, least) * unit;
  return {(size + length - 1) / length, length};
}

// Blocks that fill a large device.
inline constexpr int64_t kEnoughBlocks = 512;

template <class C, class Op>
void scan_lines(const Call& call, int64_t lines, int64_t size, const Op& op) {
  const Pieces pieces =
      pieces_of(size, (kEnoughBlocks + lines - 1) / lines, int64_t{kBlock} * Op::kItems, 4);
  if (size <= kLanesSize || pieces.count == 1) return scan_whole_lines<C>(call, lines, size, op);
  scan_pieces<C>(call, lines, pieces, op, [&](auto is_totals, C* totals) {
    MOONLET_LAUNCH((scan_blocks_kernel<decltype(is_totals)::value, C, Op>),
                   blocks_for(lines * pieces.count * kBlock), kBlock, 0, call.stream(), lines, size,
                   pieces, op, totals);
  });
}

template <class C, class Op>
void scan_columns(const Call& call, const DimSplit& s, const Op& op) {
  const int64_t lines = s.outer * s.inner;
  const Pieces pieces = pieces_of(s.size, (kEnoughBlocks * kBlock + lines - 1) / lines, 1, 32);
  if (pieces.count == 1) {
    MOONLET_LAUNCH((scan_columns_kernel<false, C, Op>), blocks_for(lines), kBlock, 0, call.stream(),
                   s, pieces, op, static_cast<C*>(nullptr));
    return call.done();
  }
  scan_pieces<C>(call, lines, pieces, op, [&](auto is_totals, C* totals) {
    MOONLET_LAUNCH((scan_columns_kernel<decltype(is_totals)::value, C, Op>),
                   blocks_for(lines * pieces.count), kBlock, 0, call.stream(), s, pieces, op,
                   totals);
  });
}

template <class C, class Op>
void scan_by(const Call& call, const DimSplit& s, const Op& op) {
  if (s.outer * s.inner == 0 || s.size == 0) return;
  if (s.inner == 1)
    scan_lines<C>(call, s.outer, s.size, op);
  else
    scan_columns<C>(call, s, op);
}

}  // namespace moonlet::cuda

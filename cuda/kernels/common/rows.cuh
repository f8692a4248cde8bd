// cuda/kernels/common/rows.cuh: rows of dense elements that a team of threads keeps in registers
// while it goes over them several times: lanes of a warp for short rows, a block for long ones.
#pragma once

#include "cuda/kernels/common/geometry.cuh"
#include "cuda/kernels/common/packs.cuh"
#include "cuda/kernels/common/team.cuh"
#include "cuda/runtime/device.h"

namespace moonlet::cuda {

// Packs that a thread holds of each tensor.
inline constexpr int kHeld = 4;

// How rows are shared out; a team is lanes of a warp (a power of two) or the block.
struct RowPlan {
  int64_t rows, size;
  int team;
};

// False when a block cannot hold a row of elements of so many bytes.
inline bool plan_rows(int64_t rows, int64_t size, int bytes, RowPlan& out) {
  const int64_t packs = (size * bytes + 15) / 16;
  if (rows == 0 || packs == 0 || packs > int64_t{kBlock} * kHeld) return false;
  out = {rows, size, packs > kWarp * kHeld ? kBlock : lanes_for(packs)};
  return true;
}

// The elements of a row that one thread holds.
template <class C, int kElement>
struct HeldRow {
  static constexpr int kCount = 16 / kElement;
  Words<16> packs[kHeld];

  // Element 0 of pack h of thread `me`, which counts from the row's start.
  __device__ static int64_t position(const RowPlan& p, int me, int h) {
    return (int64_t{h} * p.team + me) * kCount;
  }
  __device__ void load(const RowPlan& p, const PackSource& x, int64_t row, int me) {
    MOONLET_UNROLL
    for (int h = 0; h < kHeld; ++h) {
      const int64_t i = position(p, me, h);
      if (i < p.size) packs[h] = load_pack<kElement>(x, row * p.size + i, p.size - i);
    }
  }
  __device__ C at(const PackSource& x, int h, int k) const {
    return decoded<C, kElement>(bits_at<kElement>(packs[h], k), x.code);
  }
};

// Calls f(h, k, i) for the elements i of a row that a thread holds.
template <int kElement, class F>
__device__ __forceinline__ void each_held(const RowPlan& p, int me, const F& f) {
  constexpr int kCount = 16 / kElement;
  MOONLET_UNROLL
  for (int h = 0; h < kHeld; ++h) {
    const int64_t first = (int64_t{h} * p.team + me) * kCount;
    MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k)
      if (first + k < p.size) f(h, k, first + k);
  }
}

// Writes f(h, k, i) to the elements of a row that a thread holds.
template <class C, int kElement, class F>
__device__ __forceinline__ void store_held(const RowPlan& p, const PackSource& like, char* y,
                                           int64_t row, int me, const F& f) {
  constexpr int kCount = 16 / kElement;
  MOONLET_UNROLL
  for (int h = 0; h < kHeld; ++h) {
    const int64_t first = (int64_t{h} * p.team + me) * kCount;
    if (first >= p.size) continue;
    Words<16> out{};
    MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k)
      if (first + k < p.size)
        set_bits<kElement>(out, k, encoded<C, kElement>(f(h, k, first + k), like.code));
    store_pack<kElement>(y, like.aligned, row * p.size + first, p.size - first, out);
  }
}

// For all rows, by the teams of all blocks: `for (MOONLET_EACH_ROW(p, row, me))` gives each thread
// its row, which may be beyond the last one, as all threads of a warp stay together.
#define MOONLET_EACH_ROW(p, row, me)                                                             \
  int64_t me = threadIdx.x % (p).team,                                                           \
          row = static_cast<int64_t>(blockIdx.x) * (kBlock / (p).team) + threadIdx.x / (p).team, \
          row_of_block = row - threadIdx.x / (p).team;                                           \
  row_of_block < (p).rows;                                                                       \
  row += static_cast<int64_t>(gridDim.x) * (kBlock / (p).team),                                  \
      row_of_block += static_cast<int64_t>(gridDim.x) * (kBlock / (p).team)

// A contiguous tensor's rows of `size` elements.
inline PackSource row_source(const Tensor& x, int64_t size) {
  const auto bytes = static_cast<int64_t>(size_of(x.dtype()));
  return {x.raw(), code_of(x.dtype()), aligned_to(x.raw(), 16) && size * bytes % 16 == 0};
}

struct AddUp {
  template <class C>
  __device__ C operator()(const C& a, const C& b) const {
    return a + b;
  }
};
// NaN wins.
struct TakeLargest {
  template <class C>
  __device__ C operator()(const C& a, const C& b) const {
    return a != a || a > b ? a : b;
  }
};

}  // namespace moonlet::cuda

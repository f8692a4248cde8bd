// cuda/kernels/common/columns.cuh: lines across memory, as the columns of matrices, whose elements
// side by side threads take in packs.
#pragma once

#include "cuda/kernels/common/floats.cuh"
#include "cuda/kernels/common/geometry.cuh"
#include "cuda/kernels/common/team.cuh"
#include "cuda/runtime/device.h"

namespace moonlet::cuda {

// Lines across memory: `lanes` threads stand on packs of columns, the teams of a block take turns
// along the lines.
struct Columns {
  int64_t outer, size, inner, tiles;
  int lanes;
  bool whole;  // all packs are, and lie at multiples of 16 bytes
};

inline Columns columns_of(const DimSplit& s, int kCount) {
  const int64_t packs = (s.inner + kCount - 1) / kCount;
  int lanes = lanes_for(packs);
  // Short lines keep few teams busy.
  while (lanes >= kWarp && lanes < kBlock && lanes < packs && kBlock / lanes * 4 > s.size)
    lanes *= 2;
  return {s.outer, s.size, s.inner, (packs + lanes - 1) / lanes, lanes, false};
}

// Where a thread is in a tile of columns, of which `column` is the first among all; `valid` are its
// own, maybe none.
struct ColumnPosition {
  int64_t base, column;
  int team, teams, valid;
};
template <int kCount>
__device__ __forceinline__ ColumnPosition column_position(const Columns& c, int64_t job) {
  const int64_t outer = job / c.tiles;
  const int64_t column = ((job - outer * c.tiles) * c.lanes + threadIdx.x % c.lanes) * kCount;
  const int64_t left = c.inner - column;
  return {outer * c.size * c.inner + column, outer * c.inner + column,
          static_cast<int>(threadIdx.x) / c.lanes, kBlock / c.lanes,
          static_cast<int>(left < 0        ? 0
                           : left < kCount ? left
                                           : kCount)};
}

// The combination of the teams' values of each column, at every team.
template <class T, int kCount, class Combine>
__device__ __forceinline__ void combine_teams(T* values, T* shared, const Columns& c,
                                              const ColumnPosition& position,
                                              const Combine& combine) {
  if (position.teams == 1) return;
  MOONLET_UNROLL
  for (int k = 0; k < kCount; ++k) {
    T* mine = shared + threadIdx.x;
    *mine = values[k];
    __syncthreads();
    for (int half_way = position.teams / 2; half_way > 0; half_way /= 2) {
      if (position.team < half_way) *mine = combine(*mine, mine[half_way * c.lanes]);
      __syncthreads();
    }
    values[k] = shared[threadIdx.x % c.lanes];
    __syncthreads();
  }
}

template <class T>
__device__ __forceinline__ void store_columns(char* p, bool whole, int valid,
                                              const Floats<T>& pack) {
  if (whole) return store_words(p, packed<T>(pack));
  MOONLET_UNROLL
  for (int k = 0; k < pack.kCount; ++k)
    if (k < valid) store_float<T>(p + k * sizeof(T), pack.v[k]);
}

}  // namespace moonlet::cuda

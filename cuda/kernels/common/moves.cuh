// cuda/kernels/common/moves.cuh: elements that are moved as they are, in the widest packs that
// slices allow.
#pragma once

#include <initializer_list>

#include "cuda/kernels/common/divide.cuh"
#include "cuda/kernels/common/elements.cuh"
#include "cuda/kernels/common/packs.cuh"

namespace moonlet::cuda {

// Calls f.template operator()<T>(packs) for slices of `inner` elements of `bytes` bytes: T moves a
// pack of them, and a slice has so many. Packs lie at multiples of their size from all `arrays`.
template <class F>
void visit_moves(int64_t inner, std::initializer_list<const void*> arrays, size_t bytes, F&& f) {
  const int64_t slice = inner * static_cast<int64_t>(bytes);
  const auto fits = [&](int64_t pack) {
    if (slice % pack != 0) return false;
    for (const void* p : arrays)
      if (!aligned_to(p, pack)) return false;
    return true;
  };
  if (fits(16)) return f.template operator()<Bytes16>(slice / 16);
  if (fits(8)) return f.template operator()<uint64_t>(slice / 8);
  if (fits(4)) return f.template operator()<uint32_t>(slice / 4);
  if (fits(2)) return f.template operator()<uint16_t>(slice / 2);
  f.template operator()<uint8_t>(slice);
}

// Numbers of jobs, counted as I, as (outer, position, pack).
template <class I>
struct MoveJobs {
  Divisor<I> by_packs, by_positions;
  MoveJobs(int64_t positions, int64_t packs) : by_packs(packs), by_positions(positions) {}
  struct Job {
    I outer, position, pack;
  };
  __device__ __forceinline__ Job job(I i) const {
    Job out;
    out.pack = i;
    out.position = by_packs.split(out.pack);
    out.outer = by_positions.split(out.position);
    return out;
  }
};

// Calls f.template operator()<I>() with the type that so many jobs are counted in.
template <class F>
void visit_counts(int64_t jobs, F&& f) {
  if (jobs < kDividerLimit)
    f.template operator()<int32_t>();
  else
    f.template operator()<int64_t>();
}

}  // namespace moonlet::cuda

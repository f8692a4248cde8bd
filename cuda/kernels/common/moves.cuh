// cuda/kernels/common/moves.cuh: elements that are moved as they are, in the widest packs that
// slices allow.
#pragma once

#include <initializer_list>

#include "cuda/kernels/common/geometry.cuh"
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

// Numbers of jobs as (outer, position, pack), which `offsets` takes apart.
inline Geometry<3> jobs_of(int64_t outer, int64_t positions, int64_t packs) {
  return geometry(Dims{outer, positions, packs}, Dims{1, 0, 0}, Dims{0, 1, 0}, Dims{0, 0, 1});
}

}  // namespace moonlet::cuda

// cuda/kernels/common/chunks.cuh: one launch for many tensors: a table of where they lie, in the
// device's memory, and which of them a block works on.
#pragma once

#include <cstdint>

#include "cuda/runtime/launch.h"

namespace moonlet::cuda {

// The position whose chunks block `block` is of: the last that begins at or before it. A position
// has `first_block`, the number of the block that takes its first chunk.
template <class Position>
__device__ __forceinline__ int64_t position_of(const Position* table, int64_t positions,
                                               int64_t block) {
  int64_t low = 0, high = positions;
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    if (table[middle].first_block <= block)
      low = middle;
    else
      high = middle;
  }
  return low;
}

}  // namespace moonlet::cuda

// cuda/kernels/scatter.h: writes to positions that may come several times, in the order of the
// source, so that results repeat.
#pragma once

#include "cuda/runtime/device.h"
#include "tensor/functors/scatter_fold.h"

namespace moonlet::cuda {

// What entries do at their positions: what is there counts unless include_self is false, and each
// entry is multiplied by `scale` first.
struct ScatterJoin {
  ScatterJoin(ScatterFold given, bool keeps = true, Scalar factor = int64_t{1})
      : fold(given), include_self(keeps), scale(factor) {}
  ScatterFold fold;
  bool include_self;
  Scalar scale;
};

// x is contiguous, seen as (outer, size, inner); `source` contiguous, of x's dtype, seen as
// (outer, count, inner); `positions` holds `count` int64 positions from 0, all valid. Writes source
// entry e to position positions[e], or joins it there, entries in their order (in x's compute
// type); of those put the last for a position stays. A position of -1 is left out.
void scatter_ordered(const Call& call, Tensor& x, int64_t outer, int64_t size, int64_t inner,
                     const Tensor& positions, const Tensor& source, const ScatterJoin& join);

}  // namespace moonlet::cuda

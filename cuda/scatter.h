// cuda/scatter.h: writes to positions that may come several times, in the order of the source, so
// that results repeat.
#pragma once

#include "cuda/device.h"
#include "tensor/scatter_fold.h"

namespace moonlet::cuda {

// x is contiguous, seen as (outer, places, inner); `source` contiguous, of x's dtype, seen as
// (outer, count, inner); `positions` holds `count` int64 places from 0, all valid. Writes source
// entry e to place positions[e], or joins it there, entries in their order (in x's compute type);
// of those put the last for a place stays. A position of -1 is left out. What is at a place that
// entries come to counts unless include_self is false.
void scatter_ordered(const Call& call, Tensor& x, int64_t outer, int64_t places, int64_t inner,
                     const Tensor& positions, const Tensor& source, ScatterFold fold,
                     bool include_self = true);

}  // namespace moonlet::cuda

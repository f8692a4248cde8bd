// tensor/shapes/random.h: argument checks and result shapes of the random composites.
#pragma once

#include "tensor/shapes/result.h"

namespace moonlet::shapes {

Result randperm(int64_t n, Device device);
// int64 positions: (num_samples,) of (n,), (rows, num_samples) of (rows, n).
Result multinomial(const Tensor& probs, int64_t num_samples, bool replacement);

}  // namespace moonlet::shapes

// autograd/formulas/pool.h: what the derivatives of pooling need.
#pragma once

#include "tensor/tensor.h"

namespace moonlet::formulas {

// The last two of `sizes`.
Dims plane_of(const Dims& sizes);

}  // namespace moonlet::formulas

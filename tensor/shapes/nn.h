// tensor/shapes/nn.h: the shape that attention gives, for its kernels and its composites.
#pragma once

#include "tensor/core/tensor.h"

namespace moonlet::shapes {

// (..., l, v) for query (..., l, e), key (..., s, e), value (..., s, v) and a mask that broadcasts
// to
// (..., l, s), or none; an error names `op`.
Dims attended(const char* op, const Tensor& query, const Tensor& key, const Tensor& value,
              const Tensor& mask);

}  // namespace moonlet::shapes

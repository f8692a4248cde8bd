// tensor/shapes/reduce.h: the shape that reducing some dimensions leaves, and the dtype of sums.
#pragma once

#include <optional>

#include "tensor/core/tensor.h"

namespace moonlet::shapes {

// `sizes` without the dims (keepdim: with size 1 there). `dims` is wrapped.
Dims reduced_sizes(const Dims& sizes, const Dims& dims, bool keepdim);
// `dtype`, or else that of x; integers and booleans are summed in int64.
DType sum_dtype(const Tensor& x, std::optional<DType> dtype);

}  // namespace moonlet::shapes

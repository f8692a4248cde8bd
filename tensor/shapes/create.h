// tensor/shapes/create.h: result shapes of ranges and of ops that place elements around diagonals.
#pragma once

#include <optional>

#include "tensor/tensor.h"

namespace moonlet::shapes {

// start, start + step, ... up to and including stop; with only `start`, 1 up to it. int64 when all
// numbers are integers and no dtype is given.
Tensor arange(Scalar start, std::optional<Scalar> stop, Scalar step, std::optional<DType> dtype,
              std::optional<Device> device);
// The first value of that range.
Scalar arange_first(Scalar start, std::optional<Scalar> stop);
// `steps` numbers.
Tensor linspace(int64_t steps, Options options);
// Same shape as x, which must have two dimensions or more.
Tensor triangle(const char* op, const Tensor& x);
// The square matrix that holds the 1-D x on its diagonal number `offset`.
Tensor diag_embed(const Tensor& x, int64_t offset);

}  // namespace moonlet::shapes

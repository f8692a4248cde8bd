// tensor/shapes/create.h: argument checks and result shapes of the ranges, which are composites.
#pragma once

#include <optional>

#include "tensor/shapes/result.h"

namespace moonlet::shapes {

// start, start + step, ... up to and including stop; with only `start`, 1 up to it. int64 when all
// numbers are integers and no dtype is given.
Result arange(Scalar start, std::optional<Scalar> stop, Scalar step, std::optional<DType> dtype,
              std::optional<Device> device);
// The first value of that range.
Scalar arange_first(Scalar start, std::optional<Scalar> stop);
// `steps` numbers.
Result linspace(int64_t steps, Options options);

}  // namespace moonlet::shapes

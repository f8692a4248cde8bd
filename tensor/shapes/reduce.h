// tensor/shapes/reduce.h: the shape that reducing some dimensions leaves.
#pragma once

#include "tensor/tensor.h"

namespace moonlet::shapes {

// `sizes` without the dims (keepdim: with size 1 there). `dims` is wrapped here.
Dims reduced_sizes(const Dims& sizes, const Dims& dims, bool keepdim, const char* op);

}  // namespace moonlet::shapes

// tensor/shapes/nn.h: how the results of image ops lie in memory.
#pragma once

#include "tensor/shapes/result.h"

namespace moonlet::shapes {

// Whether images (n, c, h, w) lie channels last and not in row-major order.
bool lies_channels_last(const Tensor& images);

// A result of those sizes in x's options: channels last when `x` or `filter` lies so and not in
// row-major order, else row-major.
Result images(const char* op, const Dims& sizes, const Tensor& x, const Tensor& filter = {});

}  // namespace moonlet::shapes

// tensor/shapes/images.h: what the ops on images share: their windows, and how their results lie in
// memory.
#pragma once

#include <limits>

#include "tensor/shapes/result.h"

namespace moonlet::shapes {

// Keeps products of window arguments far inside int64 and oneDNN's int32.
constexpr int64_t kWindowLimit = std::numeric_limits<int32_t>::max() / 4;

// Throws unless `value` holds two numbers from `least` to kWindowLimit.
void check_pair(const char* op, const char* argument, const Dims& value, int64_t least);
// How many windows fit into `size` elements with `padding` more at either end.
int64_t window_count(const char* op, int64_t size, int64_t kernel, int64_t stride, int64_t padding,
                     int64_t dilation, bool ceil_mode);
// Throws unless a tensor of those sizes can be.
void check_sizes(const char* op, const Dims& size);

// Whether images (n, c, h, w) lie channels last and not in row-major order.
bool lies_channels_last(const Tensor& images);

// A result of those sizes in x's options: channels last when `x` or `filter` lies so and not in
// row-major order, else row-major.
Result images(const char* op, const Dims& sizes, const Tensor& x, const Tensor& filter = {});

}  // namespace moonlet::shapes

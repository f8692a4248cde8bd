// tensor/shapes/window.h: what the ops on images share: their windows, and how their results lie in
// memory. Shape functions and composites check their arguments with them.
#pragma once

#include <limits>

#include "tensor/shapes/result.h"

namespace moonlet::shapes {

// Keeps products of window arguments far inside int64 and oneDNN's int32.
constexpr int64_t kWindowLimit = std::numeric_limits<int32_t>::max() / 4;

// Throws unless `value` holds `count` numbers from `least` to kWindowLimit.
void check_window(const char* op, const char* argument, const Dims& value, int count,
                  int64_t least);
// How many windows fit into `size` elements with `padding` more at either end.
int64_t window_count(const char* op, int64_t size, int64_t kernel, int64_t stride, int64_t padding,
                     int64_t dilation, bool ceil_mode);
// Throws unless a tensor of those sizes can be.
void check_sizes(const char* op, const Dims& size);
// Throws unless the last `dims` dimensions of `sizes` are those of an image with channels (c, ...)
// or a batch of them (n, c, ...), none empty.
void check_images(const char* op, const Dims& sizes, int dims);
// The dtype of positions in images of those sizes, in which there is room for positions beside
// them.
DType grid_position_dtype(const Dims& size);
// "(n, c, h, w)": how the sizes of a batch in 1, 2 or 3 dimensions are written.
const char* images_text(int dims);

// The sizes of the convolution of `x` (n, c, ...) with `weight` (o, c / groups, ...), and of the
// transposed one, whose weight is (c, o / groups, ...); the dimensions are as many as strides.
Dims conv_sizes(const char* op, const Dims& x, const Dims& weight, const Dims& stride,
                const Dims& padding, const Dims& dilation, int64_t groups);
Dims conv_transpose_sizes(const char* op, const Dims& x, const Dims& weight, const Dims& stride,
                          const Dims& padding, const Dims& output_padding, int64_t groups,
                          const Dims& dilation);

// What padding "same" adds to either end of a dimension at stride 1, so that a convolution keeps
// its size: the larger half behind.
struct SamePadding {
  int64_t before, after;
};
SamePadding same_padding(const char* op, int64_t kernel, int64_t dilation);

// The stride of a pooling: one for each dimension, the window's sizes where none is given.
Dims pool_stride(const Dims& kernel, const Dims& stride);
// The sizes of `x` pooled over windows of as many dimensions as `kernel` has, and over as many
// windows as `output_size` says.
Dims pool_sizes(const char* op, const Dims& x, const Dims& kernel, const Dims& stride,
                const Dims& padding, const Dims& dilation, bool ceil_mode);
Dims adaptive_sizes(const char* op, const Dims& x, const Dims& output_size);

// Whether images (n, c, h, w) lie channels last and not in row-major order.
bool lies_channels_last(const Tensor& images);

// A result of those sizes in x's options: channels last when `x` or `filter` lies so and not in
// row-major order, else row-major.
Result images(const char* op, const Dims& sizes, const Tensor& x, const Tensor& filter = {});

}  // namespace moonlet::shapes

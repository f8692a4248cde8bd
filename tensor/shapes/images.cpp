// tensor/shapes/images.cpp: checks and layouts that the ops on images share.
#include "tensor/shapes/images.h"

namespace moonlet::shapes {

void check_pair(const char* op, const char* argument, const Dims& value, int64_t least) {
  check(value.size() == 2, op, ": ", argument, " is ", value, ", two numbers are wanted");
  for (int64_t v : value)
    check(v >= least && v <= kWindowLimit, op, ": ", argument, " is ", value, ", at least ", least,
          " is wanted");
}

int64_t window_count(const char* op, int64_t size, int64_t kernel, int64_t stride, int64_t padding,
                     int64_t dilation, bool ceil_mode) {
  const int64_t reach = checked_mul(dilation, kernel - 1, op) + 1;
  const int64_t room = size + 2 * padding - reach;
  check(room >= 0, op, ": a window of ", reach, " does not fit into ", size, " with padding ",
        padding);
  int64_t count = (room + (ceil_mode ? stride - 1 : 0)) / stride + 1;
  // The last window must start inside the input or its left padding.
  if (ceil_mode && (count - 1) * stride >= size + padding) --count;
  return count;
}

void check_sizes(const char* op, const Dims& size) { numel_of(size, op); }

bool lies_channels_last(const Tensor& t) {
  return t.defined() && !t.is_contiguous() &&
         is_contiguous(t.sizes(), t.strides(), MemoryFormat::ChannelsLast);
}

Result images(const char* op, const Dims& sizes, const Tensor& x, const Tensor& filter) {
  Result out{sizes, options_of(x)};
  if (lies_channels_last(x) || lies_channels_last(filter))
    out.strides = format_strides(MemoryFormat::ChannelsLast, sizes, op);
  return out;
}

}  // namespace moonlet::shapes

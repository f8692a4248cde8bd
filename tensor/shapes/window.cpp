// tensor/shapes/window.cpp: checks and layouts that the ops on images share.
#include "tensor/shapes/window.h"

namespace moonlet::shapes {

void check_window(const char* op, const char* argument, const Dims& value, int count,
                  int64_t least) {
  check(value.size() == count, op, ": ", argument, " is ", value, ", ", count,
        count == 1 ? " number is expected" : " numbers are expected");
  for (int64_t v : value)
    check(v >= least && v <= kWindowLimit, op, ": ", argument, " is ", value, ", ", least, " to ",
          kWindowLimit, " is expected");
}

int64_t window_count(const char* op, int64_t size, int64_t kernel, int64_t stride, int64_t padding,
                     int64_t dilation, bool ceil_mode) {
  const int64_t reach = checked_mul(dilation, kernel - 1, op) + 1;
  // Rounded up, the last window may end outside.
  const int64_t room = size + 2 * padding - reach + (ceil_mode ? stride - 1 : 0);
  check(room >= 0, op, ": a window of ", reach, " does not fit into ", size, " with padding ",
        padding);
  int64_t count = room / stride + 1;
  // The last window must start inside the input or its left padding.
  if (ceil_mode && (count - 1) * stride >= size + padding) --count;
  return count;
}

void check_sizes(const char* op, const Dims& size) { numel_of(size, op); }

const char* images_text(int dims) {
  return dims == 1 ? "(n, c, l)" : dims == 2 ? "(n, c, h, w)" : "(n, c, d, h, w)";
}

void check_images(const char* op, const Dims& sizes, int dims) {
  check(sizes.size() == dims + 1 || sizes.size() == dims + 2, op, ": x has shape ", sizes, ", ",
        images_text(dims), " or that without n is expected");
  for (int i = sizes.size() - dims; i < sizes.size(); ++i)
    check(sizes[i] >= 1, op, ": x has shape ", sizes, ", its ", dims == 1 ? "lines" : "planes",
          " are empty");
}

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

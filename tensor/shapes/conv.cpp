// tensor/shapes/conv.cpp: argument checks and result shapes of convolution.
#include <algorithm>

#include "tensor/shapes/window.h"
#include "tensor/shapes_conv.h"

namespace moonlet::shapes {

namespace {

const char* weight_text(int dims) {
  return dims == 1 ? "(o, c, k)" : dims == 2 ? "(o, c, kh, kw)" : "(o, c, kd, kh, kw)";
}

// What holds for the convolution and the transposed one.
void check_conv(const char* op, const Dims& x, const Dims& weight, const Dims& stride,
                const Dims& padding, const Dims& dilation, int64_t groups) {
  const int dims = stride.size();
  check(x.size() == dims + 2, op, ": x has shape ", x, ", ", images_text(dims), " is expected");
  check(weight.size() == dims + 2, op, ": weight has shape ", weight, ", ", weight_text(dims),
        " is expected");
  check_window(op, "stride", stride, dims, 1);
  check_window(op, "padding", padding, dims, 0);
  check_window(op, "dilation", dilation, dims, 1);
  check(groups >= 1 && groups <= kWindowLimit, op, ": groups is ", groups, ", 1 to ", kWindowLimit,
        " is expected");
  check(weight[0] % groups == 0, op, ": ", weight[0], " channels of the weight ", weight,
        " do not divide into ", groups, " groups");
  for (int i = 2; i < weight.size(); ++i)
    check(weight[i] >= 1 && weight[i] <= kWindowLimit, op, ": the weight ", weight,
          " has an empty or too large window");
  check(weight[1] <= kWindowLimit, op, ": the weight ", weight, " has too many channels");
}

// Throws unless there are 1 to 3 strides.
void check_axes(const char* op, const Dims& stride) {
  check(stride.size() >= 1 && stride.size() <= 3, op, ": stride is ", stride,
        ", 1 to 3 numbers are expected");
}

// What scripts call the convolution with so many strides.
const char* conv_name(const Dims& stride) {
  constexpr const char* kNames[] = {"conv1d", "conv2d", "conv3d"};
  check_axes("native_conv", stride);
  return kNames[stride.size() - 1];
}

// A result of those sizes: channels last when `x` or `filter` lies so and not in row-major order,
// else row-major.
Result volumes(const char* op, const Dims& sizes, const Tensor& x, const Tensor& filter) {
  if (sizes.size() != 5) return images(op, sizes, x, filter);
  constexpr auto kLast = MemoryFormat::ChannelsLast3d;
  const auto lies_last = [](const Tensor& t) {
    return !t.is_contiguous() && is_contiguous(t.sizes(), t.strides(), kLast);
  };
  Result out{sizes, options_of(x)};
  if (lies_last(x) || lies_last(filter)) out.strides = format_strides(kLast, sizes, op);
  return out;
}

}  // namespace

SamePadding same_padding(const char* op, int64_t kernel, int64_t dilation) {
  const int64_t total = checked_mul(dilation, kernel - 1, op);
  return {total / 2, total - total / 2};
}

Dims conv_sizes(const char* op, const Dims& x, const Dims& weight, const Dims& stride,
                const Dims& padding, const Dims& dilation, int64_t groups) {
  check_conv(op, x, weight, stride, padding, dilation, groups);
  check(weight[1] * groups == x[1], op, ": x has shape ", x, ", the weight ", weight, " with ",
        groups, " groups wants ", weight[1] * groups, " channels");
  Dims out{x[0], weight[0]};
  for (int i = 0; i < stride.size(); ++i)
    out.push_back(
        window_count(op, x[2 + i], weight[2 + i], stride[i], padding[i], dilation[i], false));
  return out;
}

Dims conv_transpose_sizes(const char* op, const Dims& x, const Dims& weight, const Dims& stride,
                          const Dims& padding, const Dims& output_padding, int64_t groups,
                          const Dims& dilation) {
  check_conv(op, x, weight, stride, padding, dilation, groups);
  check_images(op, x, stride.size());
  check_window(op, "output_padding", output_padding, stride.size(), 0);
  check(weight[0] == x[1], op, ": x has shape ", x, ", the weight ", weight, " wants ", weight[0],
        " channels");
  Dims out{x[0], weight[1] * groups};
  for (int i = 0; i < stride.size(); ++i) {
    check(output_padding[i] < std::max(stride[i], dilation[i]), op, ": output_padding ",
          output_padding, " is not smaller than stride ", stride, " or dilation ", dilation);
    const int64_t reach = checked_mul(dilation[i], weight[2 + i] - 1, op);
    const int64_t size =
        checked_mul(x[2 + i] - 1, stride[i], op) - 2 * padding[i] + reach + output_padding[i] + 1;
    check(size >= 1, op, ": padding ", padding, " leaves nothing of shape ", x);
    out.push_back(size);
  }
  check_sizes(op, out);
  return out;
}

Result native_conv(const Tensor& x, const Tensor& weight, const Tensor& bias, const Dims& stride,
                   const Dims& padding, const Dims& dilation, int64_t groups) {
  const char* op = conv_name(stride);
  const Dims out = conv_sizes(op, x.sizes(), weight.sizes(), stride, padding, dilation, groups);
  if (bias.defined()) check_shape(op, "bias", bias.sizes(), {weight.size(0)});
  return volumes(op, out, x, weight);
}

Result native_conv_relu(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const Dims& stride, const Dims& padding, const Dims& dilation,
                        int64_t groups) {
  return native_conv(x, weight, bias, stride, padding, dilation, groups);
}

Result native_conv_transpose(const Tensor& x, const Tensor& weight, const Tensor& bias,
                             const Dims& size, const Dims& stride, const Dims& padding,
                             const Dims& dilation, int64_t groups) {
  const char* op = "native_conv_transpose";
  check_axes(op, stride);
  check_sizes(op, size);
  check_shape(op, "x", x.sizes(),
              conv_sizes(op, size, weight.sizes(), stride, padding, dilation, groups));
  if (bias.defined()) check_shape(op, "bias", bias.sizes(), {size[1]});
  return volumes(op, size, x, weight);
}

Result native_conv_grad_weight(const Tensor& grad, const Tensor& x, const Dims& size,
                               const Dims& stride, const Dims& padding, const Dims& dilation,
                               int64_t groups) {
  const char* op = "native_conv_grad_weight";
  check_axes(op, stride);
  check_sizes(op, size);
  check_shape(op, "grad", grad.sizes(),
              conv_sizes(op, x.sizes(), size, stride, padding, dilation, groups));
  return {size, options_of(grad)};
}

}  // namespace moonlet::shapes

// tensor/shapes/conv.cpp: argument checks and result shapes of convolution.
#include "tensor/shapes/images.h"
#include "tensor/shapes_conv.h"

namespace moonlet::shapes {

namespace {

void conv_arguments(const char* op, const Dims& x, const Dims& weight, const Dims& stride,
                    const Dims& padding, const Dims& dilation, int64_t groups) {
  check(x.size() == 4, op, ": x has shape ", x, ", (n, c, h, w) is wanted");
  check(weight.size() == 4, op, ": weight has shape ", weight, ", (o, c, kh, kw) is wanted");
  check_pair(op, "stride", stride, 1);
  check_pair(op, "padding", padding, 0);
  check_pair(op, "dilation", dilation, 1);
  check(groups >= 1 && groups <= kWindowLimit, op, ": groups is ", groups, ", 1 to ", kWindowLimit,
        " is wanted");
  check(weight[0] % groups == 0, op, ": ", weight[0], " output channels do not divide into ",
        groups, " groups");
  check(weight[1] <= kWindowLimit && weight[1] * groups == x[1], op, ": x has shape ", x,
        ", the weight ", weight, " with ", groups, " groups wants ", weight[1] * groups,
        " channels");
  check(weight[2] >= 1 && weight[3] >= 1, op, ": the weight ", weight, " has an empty window");
}

Dims conv_result(const char* op, const Dims& x, const Dims& weight, const Dims& stride,
                 const Dims& padding, const Dims& dilation, int64_t groups) {
  conv_arguments(op, x, weight, stride, padding, dilation, groups);
  return {x[0], weight[0],
          window_count(op, x[2], weight[2], stride[0], padding[0], dilation[0], false),
          window_count(op, x[3], weight[3], stride[1], padding[1], dilation[1], false)};
}

}  // namespace

Result conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Dims& stride,
              const Dims& padding, const Dims& dilation, int64_t groups) {
  const Dims out =
      conv_result("conv2d", x.sizes(), weight.sizes(), stride, padding, dilation, groups);
  if (bias.defined()) expect_shape("conv2d", "bias", bias.sizes(), {weight.size(0)});
  return images("conv2d", out, x, weight);
}

Result conv2d_grad_x(const Tensor& grad, const Tensor& weight, const Dims& size, const Dims& stride,
                     const Dims& padding, const Dims& dilation, int64_t groups) {
  const char* op = "conv2d_grad_x";
  check_sizes(op, size);
  expect_shape(op, "grad", grad.sizes(),
               conv_result(op, size, weight.sizes(), stride, padding, dilation, groups));
  return images(op, size, grad, weight);
}

Result conv2d_grad_weight(const Tensor& grad, const Tensor& x, const Dims& size, const Dims& stride,
                          const Dims& padding, const Dims& dilation, int64_t groups) {
  const char* op = "conv2d_grad_weight";
  check_sizes(op, size);
  expect_shape(op, "grad", grad.sizes(),
               conv_result(op, x.sizes(), size, stride, padding, dilation, groups));
  return {size, options_of(grad)};
}

}  // namespace moonlet::shapes

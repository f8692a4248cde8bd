// tensor/shapes/nn.cpp: argument checks and result shapes of convolution, pooling, softmax and
// normalisation.
#include "tensor/shapes/nn.h"

#include <limits>

#include "tensor/shapes_nn.h"

namespace moonlet::shapes {

namespace {
void same_shape(const char* op, const Tensor& a, const Tensor& b) {
  check(a.sizes() == b.sizes(), op, ": shapes differ: ", a.sizes(), " and ", b.sizes());
}

// Keeps products of window arguments far inside int64 and oneDNN's int32.
constexpr int64_t kWindowLimit = std::numeric_limits<int32_t>::max() / 4;

void pair(const char* op, const char* argument, const Dims& value, int64_t least) {
  check(value.size() == 2, op, ": ", argument, " is ", value, ", two numbers are wanted");
  for (int64_t v : value)
    check(v >= least && v <= kWindowLimit, op, ": ", argument, " is ", value, ", at least ", least,
          " is wanted");
}

int64_t windows(const char* op, int64_t size, int64_t kernel, int64_t stride, int64_t padding,
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

void conv_arguments(const char* op, const Dims& x, const Dims& weight, const Dims& stride,
                    const Dims& padding, const Dims& dilation, int64_t groups) {
  check(x.size() == 4, op, ": x has shape ", x, ", (n, c, h, w) is wanted");
  check(weight.size() == 4, op, ": weight has shape ", weight, ", (o, c, kh, kw) is wanted");
  pair(op, "stride", stride, 1);
  pair(op, "padding", padding, 0);
  pair(op, "dilation", dilation, 1);
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
  return {x[0], weight[0], windows(op, x[2], weight[2], stride[0], padding[0], dilation[0], false),
          windows(op, x[3], weight[3], stride[1], padding[1], dilation[1], false)};
}

void expect_shape(const char* op, const char* argument, const Dims& got, const Dims& wanted) {
  check(got == wanted, op, ": ", argument, " has shape ", got, ", ", wanted, " is wanted");
}

void nonnegative(const char* op, const Dims& size) { numel_of(size, op); }

Dims pool(const char* op, const Dims& x, const Dims& kernel, const Dims& stride_given,
          const Dims& padding, const Dims& dilation, bool ceil_mode) {
  check(x.size() == 3 || x.size() == 4, op, ": x has shape ", x,
        ", (n, c, h, w) or (c, h, w) is wanted");
  Dims stride = stride_given.empty() ? kernel : stride_given;
  if (stride.size() == 1) stride.push_back(stride[0]);
  pair(op, "kernel_size", kernel, 1);
  pair(op, "stride", stride, 1);
  pair(op, "padding", padding, 0);
  pair(op, "dilation", dilation, 1);
  for (int i = 0; i < 2; ++i)
    check(padding[i] <= kernel[i] / 2, op, ": padding ", padding,
          " is more than half of kernel_size ", kernel);
  Dims out = x;
  for (int i = 0; i < 2; ++i) {
    const int at = x.size() - 2 + i;
    check(x[at] >= 1, op, ": x has shape ", x, ", its planes are empty");
    out[at] = windows(op, x[at], kernel[i], stride[i], padding[i], dilation[i], ceil_mode);
  }
  return out;
}

void leading_equal(const char* op, const Dims& a, const Dims& b) {
  bool fits = a.size() == b.size() && a.size() >= 2;
  for (int i = 0; fits && i + 2 < a.size(); ++i) fits = a[i] == b[i];
  check(fits, op, ": shapes ", a, " and ", b, " differ in more than their planes");
}
}  // namespace

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
  nonnegative(op, size);
  expect_shape(op, "grad", grad.sizes(),
               conv_result(op, size, weight.sizes(), stride, padding, dilation, groups));
  return images(op, size, grad, weight);
}

Result conv2d_grad_weight(const Tensor& grad, const Tensor& x, const Dims& size, const Dims& stride,
                          const Dims& padding, const Dims& dilation, int64_t groups) {
  const char* op = "conv2d_grad_weight";
  nonnegative(op, size);
  expect_shape(op, "grad", grad.sizes(),
               conv_result(op, x.sizes(), size, stride, padding, dilation, groups));
  return {size, options_of(grad)};
}

std::array<Result, 2> max_pool2d_with_indices(const Tensor& x, const Dims& kernel,
                                              const Dims& stride, const Dims& padding,
                                              const Dims& dilation, bool ceil_mode) {
  const Dims sizes = pool("max_pool2d", x.sizes(), kernel, stride, padding, dilation, ceil_mode);
  return {images("max_pool2d", sizes, x), Result{sizes, {DType::Int64, x.device()}}};
}

Result max_pool2d_grad_x(const Tensor& grad, const Tensor& indices, const Dims& size) {
  const char* op = "max_pool2d_grad_x";
  expect_shape(op, "indices", indices.sizes(), grad.sizes());
  leading_equal(op, grad.sizes(), size);
  nonnegative(op, size);
  return images(op, size, grad);
}

Result max_pool2d_grad_x_grad_grad(const Tensor& grad, const Tensor& indices) {
  leading_equal("max_pool2d_grad_x_grad_grad", grad.sizes(), indices.sizes());
  return {indices.sizes(), options_of(grad)};
}

Result avg_pool2d(const Tensor& x, const Dims& kernel, const Dims& stride, const Dims& padding,
                  bool ceil_mode, bool) {
  return images("avg_pool2d",
                pool("avg_pool2d", x.sizes(), kernel, stride, padding, {1, 1}, ceil_mode), x);
}

Result avg_pool2d_grad_x(const Tensor& grad, const Dims& size, const Dims& kernel,
                         const Dims& stride, const Dims& padding, bool ceil_mode, bool) {
  const char* op = "avg_pool2d_grad_x";
  nonnegative(op, size);
  expect_shape(op, "grad", grad.sizes(),
               pool(op, size, kernel, stride, padding, {1, 1}, ceil_mode));
  return images(op, size, grad);
}

Result adaptive_avg_pool2d(const Tensor& x, const Dims& output_size) {
  const char* op = "adaptive_avg_pool2d";
  check(x.dim() == 3 || x.dim() == 4, op, ": x has shape ", x.sizes(),
        ", (n, c, h, w) or (c, h, w) is wanted");
  check(output_size.size() == 2 && output_size[0] >= 1 && output_size[1] >= 1, op,
        ": output_size is ", output_size, ", two positive numbers are wanted");
  check(x.size(-1) >= 1 && x.size(-2) >= 1, op, ": x has shape ", x.sizes(),
        ", its planes are empty");
  Dims out = x.sizes();
  out[out.size() - 2] = output_size[0];
  out.back() = output_size[1];
  return images(op, out, x);
}

Result adaptive_avg_pool2d_grad_x(const Tensor& grad, const Dims& size) {
  const char* op = "adaptive_avg_pool2d_grad_x";
  nonnegative(op, size);
  leading_equal(op, grad.sizes(), size);
  check(grad.numel() == 0 || numel_of(size, op) > 0, op, ": planes of ", size, " are empty");
  return images(op, size, grad);
}

Result softmax(const Tensor& x, int64_t) { return like(x); }
Result log_softmax(const Tensor& x, int64_t) { return like(x); }

Result softmax_grad_x(const Tensor& grad, const Tensor& result, int64_t) {
  same_shape("softmax_grad_x", grad, result);
  return like(grad);
}
Result log_softmax_grad_x(const Tensor& grad, const Tensor& result, int64_t) {
  same_shape("log_softmax_grad_x", grad, result);
  return like(grad);
}

namespace {
// x's sizes with the last `dims` of them 1.
Dims layer_norm_stats(const char* op, const Tensor& x, int64_t dims) {
  check(dims >= 1 && dims <= x.dim(), op, ": ", dims, " dimensions of ", x.sizes());
  Dims out = x.sizes();
  for (int64_t i = out.size() - dims; i < out.size(); ++i) out[static_cast<int>(i)] = 1;
  return out;
}

// The sizes of the weight, after checking the arguments of a gradient of layer_norm.
Dims layer_norm_grad(const char* op, const Tensor& grad, const Tensor& x, const Tensor& mean,
                     const Tensor& rstd, int64_t dims) {
  same_shape(op, grad, x);
  const Dims stats = layer_norm_stats(op, x, dims);
  expect_shape(op, "mean", mean.sizes(), stats);
  expect_shape(op, "rstd", rstd.sizes(), stats);
  return {x.sizes().data() + x.dim() - dims, static_cast<int>(dims)};
}
}  // namespace

std::array<Result, 3> native_layer_norm(const Tensor& x, const Dims& normalized_shape,
                                        const Tensor& weight, const Tensor& bias, double) {
  const char* op = "layer_norm";
  const int dims = normalized_shape.size();
  bool fits = dims >= 1 && dims <= x.dim();
  for (int i = 0; fits && i < dims; ++i) fits = x.size(x.dim() - dims + i) == normalized_shape[i];
  check(fits, op, ": x has shape ", x.sizes(), ", which does not end in ", normalized_shape);
  for (const auto& [t, name] : {std::pair{&weight, "weight"}, std::pair{&bias, "bias"}})
    if (t->defined()) expect_shape(op, name, t->sizes(), normalized_shape);
  const Result stats{layer_norm_stats(op, x, dims), options_of(x)};
  return {like(x), stats, stats};
}

Result layer_norm_grad_x(const Tensor& grad, const Tensor& x, const Tensor& mean,
                         const Tensor& rstd, const Tensor& weight, int64_t dims, double) {
  const char* op = "layer_norm_grad_x";
  const Dims normalized = layer_norm_grad(op, grad, x, mean, rstd, dims);
  if (weight.defined()) expect_shape(op, "weight", weight.sizes(), normalized);
  return like(x);
}

Result layer_norm_grad_weight(const Tensor& grad, const Tensor& x, const Tensor& mean,
                              const Tensor& rstd, int64_t dims, double) {
  return {layer_norm_grad("layer_norm_grad_weight", grad, x, mean, rstd, dims), options_of(x)};
}

namespace {
void channels(const char* op, const char* argument, const Tensor& t, const Tensor& x) {
  if (!t.defined()) return;
  check(t.dim() == 1 && t.size(0) == x.size(1), op, ": ", argument, " has shape ", t.sizes(), ", (",
        x.size(1), ",) is wanted");
}

// (1, c, 1, ...)
Dims batch_norm_stats(const char* op, const Tensor& x) {
  check(x.dim() >= 2, op, ": x has shape ", x.sizes(), ", (n, c, ...) is wanted");
  Dims out = Dims::filled(x.dim(), 1);
  out[1] = x.size(1);
  return out;
}

void batch_norm_grad(const char* op, const Tensor& grad, const Tensor& x, const Tensor& mean,
                     const Tensor& rstd) {
  same_shape(op, grad, x);
  const Dims stats = batch_norm_stats(op, x);
  expect_shape(op, "mean", mean.sizes(), stats);
  expect_shape(op, "rstd", rstd.sizes(), stats);
}
}  // namespace

std::array<Result, 3> native_batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                        const Tensor& running_mean, const Tensor& running_var,
                                        double, double) {
  const char* op = "batch_norm";
  const Result stats{batch_norm_stats(op, x), options_of(x)};
  channels(op, "weight", weight, x);
  channels(op, "bias", bias, x);
  channels(op, "running_mean", running_mean, x);
  channels(op, "running_var", running_var, x);
  check(x.numel() == 0 || x.numel() / x.size(1) > 1, op,
        ": more than one value per channel is wanted in training, x has shape ", x.sizes());
  return {images(op, x.sizes(), x), stats, stats};
}

Result batch_norm_grad_x(const Tensor& grad, const Tensor& x, const Tensor& mean,
                         const Tensor& rstd, const Tensor& weight, double) {
  batch_norm_grad("batch_norm_grad_x", grad, x, mean, rstd);
  channels("batch_norm_grad_x", "weight", weight, x);
  return images("batch_norm_grad_x", x.sizes(), x);
}

Result batch_norm_grad_weight(const Tensor& grad, const Tensor& x, const Tensor& mean,
                              const Tensor& rstd, double) {
  batch_norm_grad("batch_norm_grad_weight", grad, x, mean, rstd);
  return {{x.size(1)}, options_of(x)};
}

}  // namespace moonlet::shapes

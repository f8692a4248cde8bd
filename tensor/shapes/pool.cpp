// tensor/shapes/pool.cpp: argument checks and result shapes of pooling.
#include "tensor/shapes/images.h"
#include "tensor/shapes_pool.h"

namespace moonlet::shapes {

namespace {

Dims pool(const char* op, const Dims& x, const Dims& kernel, const Dims& stride_given,
          const Dims& padding, const Dims& dilation, bool ceil_mode) {
  check(x.size() == 3 || x.size() == 4, op, ": x has shape ", x,
        ", (n, c, h, w) or (c, h, w) is wanted");
  Dims stride = stride_given.empty() ? kernel : stride_given;
  if (stride.size() == 1) stride.push_back(stride[0]);
  check_pair(op, "kernel_size", kernel, 1);
  check_pair(op, "stride", stride, 1);
  check_pair(op, "padding", padding, 0);
  check_pair(op, "dilation", dilation, 1);
  for (int i = 0; i < 2; ++i)
    check(padding[i] <= kernel[i] / 2, op, ": padding ", padding,
          " is more than half of kernel_size ", kernel);
  Dims out = x;
  for (int i = 0; i < 2; ++i) {
    const int at = x.size() - 2 + i;
    check(x[at] >= 1, op, ": x has shape ", x, ", its planes are empty");
    out[at] = window_count(op, x[at], kernel[i], stride[i], padding[i], dilation[i], ceil_mode);
  }
  return out;
}

void leading_equal(const char* op, const Dims& a, const Dims& b) {
  bool fits = a.size() == b.size() && a.size() >= 2;
  for (int i = 0; fits && i + 2 < a.size(); ++i) fits = a[i] == b[i];
  check(fits, op, ": shapes ", a, " and ", b, " differ in more than their planes");
}
}  // namespace

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
  check_sizes(op, size);
  return images(op, size, grad);
}

Result max_pool2d_grad_x_grad_grad(const Tensor& x, const Tensor& indices) {
  leading_equal("max_pool2d_grad_x_grad_grad", x.sizes(), indices.sizes());
  return {indices.sizes(), options_of(x)};
}

Result avg_pool2d(const Tensor& x, const Dims& kernel, const Dims& stride, const Dims& padding,
                  bool ceil_mode, bool) {
  return images("avg_pool2d",
                pool("avg_pool2d", x.sizes(), kernel, stride, padding, {1, 1}, ceil_mode), x);
}

Result avg_pool2d_grad_x(const Tensor& grad, const Dims& size, const Dims& kernel,
                         const Dims& stride, const Dims& padding, bool ceil_mode, bool) {
  const char* op = "avg_pool2d_grad_x";
  check_sizes(op, size);
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
  check_sizes(op, size);
  leading_equal(op, grad.sizes(), size);
  check(grad.numel() == 0 || numel_of(size, op) > 0, op, ": planes of ", size, " are empty");
  return images(op, size, grad);
}

}  // namespace moonlet::shapes

// tensor/shapes/pool.cpp: argument checks and result shapes of pooling.
#include "tensor/core/dispatch.h"
#include "tensor/shapes/window.h"
#include "tensor/shapes_pool.h"

namespace moonlet::shapes {

namespace {

void check_same_leading(const char* op, const Dims& a, const Dims& b) {
  bool fits = a.size() == b.size() && a.size() >= 2;
  for (int i = 0; fits && i + 2 < a.size(); ++i) fits = a[i] == b[i];
  check(fits, op, ": shapes ", a, " and ", b, " differ in more than their planes");
}

// Values and their positions, which lie alike.
std::array<Result, 2> maxima(const char* op, const Dims& sizes, const Tensor& x) {
  const Result values = images(op, sizes, x);
  return {values, Result{sizes, {DType::Int64, x.device()}, values.strides}};
}
}  // namespace

Dims pool_stride(const Dims& kernel, const Dims& stride) {
  Dims out = stride.empty() ? kernel : stride;
  while (out.size() < kernel.size() && stride.size() == 1) out.push_back(out[0]);
  return out;
}

Dims pool_sizes(const char* op, const Dims& x, const Dims& kernel, const Dims& stride_given,
                const Dims& padding, const Dims& dilation, bool ceil_mode) {
  const int dims = kernel.size();
  const Dims stride = pool_stride(kernel, stride_given);
  check_window(op, "kernel_size", kernel, dims, 1);
  check_window(op, "stride", stride, dims, 1);
  check_window(op, "padding", padding, dims, 0);
  check_window(op, "dilation", dilation, dims, 1);
  for (int i = 0; i < dims; ++i)
    check(padding[i] <= kernel[i] / 2, op, ": padding ", padding,
          " is more than half of kernel_size ", kernel);
  check_images(op, x, dims);
  Dims out = x;
  for (int i = 0; i < dims; ++i) {
    const int at = x.size() - dims + i;
    out[at] = window_count(op, x[at], kernel[i], stride[i], padding[i], dilation[i], ceil_mode);
  }
  return out;
}

Dims adaptive_sizes(const char* op, const Dims& x, const Dims& output_size) {
  const int dims = output_size.size();
  check_images(op, x, dims);
  check_window(op, "output_size", output_size, dims, 0);
  Dims out = x;
  for (int i = 0; i < dims; ++i) out[x.size() - dims + i] = output_size[i];
  return out;
}

std::array<Result, 2> max_pool2d_with_indices(const Tensor& x, const Dims& kernel,
                                              const Dims& stride, const Dims& padding,
                                              const Dims& dilation, bool ceil_mode) {
  const Dims sizes =
      pool_sizes("max_pool2d", x.sizes(), kernel, stride, padding, dilation, ceil_mode);
  return maxima("max_pool2d", sizes, x);
}

Result max_pool2d_grad_x(const Tensor& grad, const Tensor& indices, const Dims& size) {
  const char* op = "max_pool2d_grad_x";
  check_shape(op, "indices", indices.sizes(), grad.sizes());
  check_same_leading(op, grad.sizes(), size);
  check_sizes(op, size);
  return images(op, size, grad);
}

Result max_pool2d_grad_x_grad_grad(const Tensor& x, const Tensor& indices) {
  check_same_leading("max_pool2d_grad_x_grad_grad", x.sizes(), indices.sizes());
  return {indices.sizes(), options_of(x)};
}

namespace {
void check_divisor(const char* op, std::optional<int64_t> divisor) {
  check(!divisor || *divisor != 0, op, ": divisor_override is 0");
}
}  // namespace

Result avg_pool2d(const Tensor& x, const Dims& kernel, const Dims& stride, const Dims& padding,
                  bool ceil_mode, bool, std::optional<int64_t> divisor) {
  const char* op = "avg_pool2d";
  check_divisor(op, divisor);
  return images(op, pool_sizes(op, x.sizes(), kernel, stride, padding, {1, 1}, ceil_mode), x);
}

Result avg_pool2d_grad_x(const Tensor& grad, const Dims& size, const Dims& kernel,
                         const Dims& stride, const Dims& padding, bool ceil_mode, bool,
                         std::optional<int64_t> divisor) {
  const char* op = "avg_pool2d_grad_x";
  check_sizes(op, size);
  check_divisor(op, divisor);
  check_shape(op, "grad", grad.sizes(),
              pool_sizes(op, size, kernel, stride, padding, {1, 1}, ceil_mode));
  return images(op, size, grad);
}

Result adaptive_avg_pool2d(const Tensor& x, const Dims& output_size) {
  const char* op = "adaptive_avg_pool2d";
  return images(op, adaptive_sizes(op, x.sizes(), output_size), x);
}

std::array<Result, 2> adaptive_max_pool2d(const Tensor& x, const Dims& output_size) {
  const char* op = "adaptive_max_pool2d";
  const Dims sizes = adaptive_sizes(op, x.sizes(), output_size);
  return maxima(op, sizes, x);
}

Result adaptive_avg_pool2d_grad_x(const Tensor& grad, const Dims& size) {
  const char* op = "adaptive_avg_pool2d_grad_x";
  check_sizes(op, size);
  check_same_leading(op, grad.sizes(), size);
  check(grad.numel() == 0 || numel_of(size, op) > 0, op, ": planes of ", size, " are empty");
  return images(op, size, grad);
}

std::array<Result, 2> native_fractional_max_pool(const Tensor& x, const Tensor& random_samples,
                                                 const Dims& kernel, const Dims& output_size) {
  const char* op = "native_fractional_max_pool";
  const int dims = x.dim() - 1;
  check(dims == 2 || dims == 3, op, ": x has shape ", x.sizes(), ", (n, h, w) or (n, d, h, w) is ",
        "expected");
  check_dtype(op, "random_samples", random_samples, dtypes::floating);
  check_window(op, "kernel_size", kernel, dims, 1);
  check_window(op, "output_size", output_size, dims, 1);
  check_shape(op, "random_samples", random_samples.sizes(), {x.size(0), dims});
  Dims sizes{x.size(0)};
  for (int i = 0; i < dims; ++i) {
    check(output_size[i] + kernel[i] - 1 <= x.size(1 + i), op, ": ", output_size[i], " windows of ",
          kernel[i], " do not fit into ", x.size(1 + i));
    sizes.push_back(output_size[i]);
  }
  return {Result{sizes, options_of(x)}, Result{sizes, {DType::Int64, x.device()}}};
}

}  // namespace moonlet::shapes

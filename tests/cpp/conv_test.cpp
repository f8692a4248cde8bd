// tests/cpp/conv_test.cpp: the two implementations of convolution against each other, and the
// adjoint relation between convolution and its gradients.
#include "tests/cpp/catch2.h"

#include <cmath>

#include "tensor/cpu/conv.h"

using namespace moonlet;

namespace {
Tensor filled(const Dims& sizes, DType dtype) {
  Tensor t = empty_plain(sizes, {dtype, {}});
  visit<dtypes::floating>(dtype, [&]<class T>() {
    for (int64_t i = 0; i < t.numel(); ++i)
      t.data<T>()[i] = static_cast<T>(std::sin(static_cast<float>(i) * 1.7f));
  });
  return t;
}

double inner(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.numel(); ++i) sum += a.data<double>()[i] * b.data<double>()[i];
  return sum;
}

double largest_difference(const Tensor& a, const Tensor& b) {
  double most = 0;
  for (int64_t i = 0; i < a.numel(); ++i)
    most = std::max<double>(most, std::abs(a.data<float>()[i] - b.data<float>()[i]));
  return most;
}

cpu::ConvShape shape(int64_t groups, int64_t stride, int64_t pad, int64_t dilation) {
  const int64_t size = 9, kernel = 3;
  const int64_t out = (size + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
  return {2,      groups, 4,      size,   size, 6,   out,      out,
          kernel, kernel, stride, stride, pad,  pad, dilation, dilation};
}

struct Arguments {
  Tensor x, weight, grad;
};
Arguments arguments(const cpu::ConvShape& s, DType dtype) {
  return {
      filled({s.batch, s.in_channels, s.in_height, s.in_width}, dtype),
      filled({s.out_channels, s.in_channels / s.groups, s.kernel_height, s.kernel_width}, dtype),
      filled({s.batch, s.out_channels, s.out_height, s.out_width}, dtype)};
}
}  // namespace

TEST_CASE("the gradients of a convolution are its adjoints") {
  for (const auto& s : {shape(1, 1, 0, 1), shape(2, 2, 1, 1), shape(1, 1, 2, 2)}) {
    const auto a = arguments(s, DType::Float64);
    Tensor y = empty_plain(a.grad.sizes(), options_of(a.grad)),
           gx = empty_plain(a.x.sizes(), options_of(a.x)),
           gw = empty_plain(a.weight.sizes(), options_of(a.weight));
    cpu::conv2d_gemm(s, a.x, a.weight, {}, y);
    cpu::conv2d_grad_x_gemm(s, a.grad, a.weight, gx);
    cpu::conv2d_grad_weight_gemm(s, a.grad, a.x, gw);
    CHECK(inner(gx, a.x) == Approx(inner(y, a.grad)));
    CHECK(inner(gw, a.weight) == Approx(inner(y, a.grad)));
  }
}

TEST_CASE("oneDNN and the built-in convolution agree") {
  for (const auto& s : {shape(1, 1, 0, 1), shape(2, 2, 1, 1), shape(1, 1, 2, 2)}) {
    const auto a = arguments(s, DType::Float32);
    const Tensor bias = filled({s.out_channels}, DType::Float32);
    Tensor y = empty_plain(a.grad.sizes(), options_of(a.grad)),
           gx = empty_plain(a.x.sizes(), options_of(a.x)),
           gw = empty_plain(a.weight.sizes(), options_of(a.weight));
    Tensor y2 = empty_plain(y.sizes(), options_of(y)),
           gx2 = empty_plain(gx.sizes(), options_of(gx)),
           gw2 = empty_plain(gw.sizes(), options_of(gw));
    cpu::conv2d_gemm(s, a.x, a.weight, bias, y);
    cpu::conv2d_grad_x_gemm(s, a.grad, a.weight, gx);
    cpu::conv2d_grad_weight_gemm(s, a.grad, a.x, gw);
    if (cpu::conv2d_onednn(s, a.x, a.weight, bias, y2)) CHECK(largest_difference(y, y2) < 1e-4);
    if (cpu::conv2d_grad_x_onednn(s, a.grad, a.weight, gx2))
      CHECK(largest_difference(gx, gx2) < 1e-4);
    if (cpu::conv2d_grad_weight_onednn(s, a.grad, a.x, gw2))
      CHECK(largest_difference(gw, gw2) < 1e-4);
  }
}

// tensor/cpu/conv.cpp: the CPU kernels of conv2d and of its two gradients: brings the arguments
// into plain layout and picks the implementation.
#include "tensor/cpu/conv.h"

#include <optional>

#include "tensor/cpu/contiguous.h"
#include "tensor/cpu/gemm_onednn.h"
#include "tensor/shapes/window.h"

namespace moonlet::cpu {
namespace {

ConvShape shape_of(const Dims& x, const Dims& weight, const Dims& y, const Dims& stride,
                   const Dims& padding, const Dims& dilation, int64_t groups) {
  return {x[0],       groups,     x[1],        x[2],       x[3],      y[1],
          y[2],       y[3],       weight[2],   weight[3],  stride[0], stride[1],
          padding[0], padding[1], dilation[0], dilation[1]};
}

ConvShape shape_in(ConvShape s, DType dtype) {
  s.dtype = dtype;
  return s;
}

void zero(Tensor& t) { zero_bytes(t.raw(), t.numel() * static_cast<int64_t>(size_of(t.dtype()))); }

// Runs body(a, b, y) on contiguous tensors of a dtype that has kernels, and stops when it
// says that it has computed y. The 16-bit types compute in float32, but bfloat16 by oneDNN where
// the processor has that.
template <class Body>
void computed(const Tensor& a, const Tensor& b, Tensor& y, Body&& body) {
  const auto in = [&](DType dtype) {
    Tensor whole = workspace(y, dtype);
    const bool done = body(converted(a, dtype), converted(b, dtype), whole);
    if (done) write_back(y, whole);
    return done;
  };
  if (y.dtype() == DType::BFloat16 && multiplies_bfloat16() && in(y.dtype())) return;
  in(compute_dtype(y.dtype()));
}

// What oneDNN may compute in.
bool in_onednn(DType dtype) { return dtype == DType::Float32 || dtype == DType::BFloat16; }

// x, or a copy of it that is channels last.
Tensor channels_last(const Tensor& x) {
  if (is_contiguous(x.sizes(), x.strides(), MemoryFormat::ChannelsLast)) return x;
  Tensor out = empty_like_plain(x, MemoryFormat::ChannelsLast, options_of(x), "conv2d");
  copy_into(out, x);
  return out;
}

// The shape of a convolution that oneDNN may compute without a detour over row-major images.
std::optional<ConvShape> as_channels_last(ConvShape s, const Tensor& images) {
  if (images.dtype() != DType::Float32 || !shapes::lies_channels_last(images)) return std::nullopt;
  s.channels_last = true;
  return s;
}

// y[:, c] = bias[c], for a convolution that sums over nothing.
void fill_channels(const Tensor& bias, Tensor& y) {
  zero(y);
  if (!bias.defined()) return;
  Tensor wide = alias(bias, y.sizes(), {0, bias.stride(0), 0, 0}, bias.offset());
  copy_into(y, wide);
}

}  // namespace

void native_conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Dims& stride,
                   const Dims& padding, const Dims& dilation, int64_t groups, Tensor& y) {
  if (y.numel() == 0) return;
  if (x.numel() == 0 || weight.numel() == 0) return fill_channels(bias, y);
  const ConvShape s =
      shape_of(x.sizes(), weight.sizes(), y.sizes(), stride, padding, dilation, groups);
  if (const auto last = as_channels_last(s, y))
    if (conv2d_onednn(*last, channels_last(x), contiguous(weight), converted(bias, y.dtype()), y))
      return;
  computed(x, weight, y, [&](const Tensor& image, const Tensor& filter, Tensor& out) {
    const DType dtype = out.dtype();
    const Tensor offset = converted(bias, compute_dtype(dtype));
    if (in_onednn(dtype) && conv2d_onednn(shape_in(s, dtype), image, filter, offset, out))
      return true;
    if (dtype == DType::BFloat16) return false;
    conv2d_gemm(s, image, filter, offset, out);
    return true;
  });
}

void conv2d_grad_x(const Tensor& grad, const Tensor& weight, const Dims& size, const Dims& stride,
                   const Dims& padding, const Dims& dilation, int64_t groups, Tensor& y) {
  if (y.numel() == 0) return;
  if (grad.numel() == 0 || weight.numel() == 0) return zero(y);
  const ConvShape s =
      shape_of(size, weight.sizes(), grad.sizes(), stride, padding, dilation, groups);
  if (const auto last = as_channels_last(s, y))
    if (conv2d_grad_x_onednn(*last, channels_last(grad), contiguous(weight), y)) return;
  computed(grad, weight, y, [&](const Tensor& slope, const Tensor& filter, Tensor& out) {
    // oneDNN pads the channels to a vector, which is slow for images of few of them.
    const bool few = s.in_channels / s.groups < 4;
    const DType dtype = out.dtype();
    if (!few && in_onednn(dtype) && conv2d_grad_x_onednn(shape_in(s, dtype), slope, filter, out))
      return true;
    if (dtype == DType::BFloat16) return false;
    conv2d_grad_x_gemm(s, slope, filter, out);
    return true;
  });
}

void conv2d_grad_weight(const Tensor& grad, const Tensor& x, const Dims& size, const Dims& stride,
                        const Dims& padding, const Dims& dilation, int64_t groups, Tensor& y) {
  if (y.numel() == 0) return;
  if (grad.numel() == 0 || x.numel() == 0) return zero(y);
  const ConvShape s = shape_of(x.sizes(), size, grad.sizes(), stride, padding, dilation, groups);
  if (const auto last = as_channels_last(s, x); last && y.is_contiguous())
    if (conv2d_grad_weight_onednn(*last, channels_last(grad), x, y)) return;
  computed(grad, x, y, [&](const Tensor& slope, const Tensor& image, Tensor& out) {
    const DType dtype = out.dtype();
    if (in_onednn(dtype) && conv2d_grad_weight_onednn(shape_in(s, dtype), slope, image, out))
      return true;
    if (dtype == DType::BFloat16) return false;
    conv2d_grad_weight_gemm(s, slope, image, out);
    return true;
  });
}

}  // namespace moonlet::cpu

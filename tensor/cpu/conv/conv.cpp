// tensor/cpu/conv/conv.cpp: the CPU kernels of convolution, of the transposed one and of the
// gradient of their weight: bring the arguments into plain layout and pick the implementation.
#include "tensor/cpu/conv/conv.h"

#include <optional>

#include "tensor/core/views.h"
#include "tensor/cpu/common/contiguous.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/conv/conv_direct.h"
#include "tensor/cpu/gemm/gemm_onednn.h"
#include "tensor/kernels_conv.h"
#include "tensor/kernels_shape.h"
#include "tensor/raw_activation.h"
#include "tensor/shapes/window.h"

namespace moonlet::cpu {
namespace {

// Lines and images as volumes (n, c, d, h, w) whose first axes have size 1; weights too.
Tensor as_volumes(const Tensor& t) {
  Dims sizes = t.sizes(), strides = t.strides();
  while (sizes.size() < 2 + ConvShape::kAxes) {
    sizes.insert(2, 1);
    strides.insert(2, strides[1]);
  }
  return alias(t, sizes, strides, t.offset());
}

ConvShape::Axes axes_of(const Dims& given, int64_t fill) {
  ConvShape::Axes out{fill, fill, fill};
  std::copy(given.begin(), given.end(), out.end() - given.size());
  return out;
}
ConvShape::Axes axes_of(const Tensor& volumes) {
  return {volumes.size(2), volumes.size(3), volumes.size(4)};
}

// The arguments beside the tensors.
struct Window {
  const Dims &stride, &padding, &dilation;
  int64_t groups;
};

ConvShape shape_of(const Tensor& x, const Tensor& weight, const Tensor& y, const Window& w) {
  return {x.size(0),
          w.groups,
          x.size(1),
          y.size(1),
          axes_of(x),
          axes_of(y),
          axes_of(weight),
          axes_of(w.stride, 1),
          axes_of(w.padding, 0),
          axes_of(w.dilation, 1)};
}

ConvShape shape_in(ConvShape s, DType dtype) {
  s.dtype = dtype;
  return s;
}

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

// Whether to ask oneDNN, in that dtype. Products are faster where there is too little to do for
// oneDNN's several calls, and where an image is its own columns, which need no other layout.
bool suits_onednn(const ConvShape& s, DType dtype) {
  if (dtype == DType::BFloat16) return true;
  const double filters =
      double(s.out_channels) * double(s.in_channels / s.groups * volume(s.kernel));
  const bool little = filters * double(volume(s.out)) * double(s.batch) < 0x1p16;
  return dtype == DType::Float32 && !little && !(s.groups == 1 && s.is_pointwise());
}

bool is_channels_last(const Tensor& x) {
  return is_contiguous(x.sizes(), x.strides(), MemoryFormat::ChannelsLast3d);
}

// x, or a copy of it that is channels last.
Tensor channels_last(const Tensor& x) {
  if (is_channels_last(x)) return x;
  Tensor out =
      empty_strided(x.sizes(), format_strides(MemoryFormat::ChannelsLast3d, x.sizes(), "conv"),
                    options_of(x), "conv");
  copy_into(out, x);
  return out;
}

// The shape of a convolution that oneDNN may compute without a detour over row-major images.
std::optional<ConvShape> as_channels_last(ConvShape s, const Tensor& images) {
  if (images.dtype() != DType::Float32 || images.is_contiguous() || !is_channels_last(images))
    return std::nullopt;
  s.channels_last = true;
  return s;
}

// y[:, c] = bias[c], or 0 without one.
void fill_channels(const Tensor& bias, Tensor& y) {
  if (!bias.defined())
    return zero_bytes(y.raw(), y.numel() * static_cast<int64_t>(size_of(y.dtype())));
  copy_into(y, alias(bias, y.sizes(), {0, bias.stride(0), 0, 0, 0}, bias.offset()));
}

// y[:, c] += bias[c] for a contiguous y of float32 or, channels last, one of these.
void add_channels(const Tensor& bias, Tensor& y) {
  const int64_t channels = y.size(1), inner = y.numel() / y.size(0) / channels;
  const bool last = !y.is_contiguous();
  const float* const offsets = bias.elements<float>();
  float* const out = y.elements<float>();
  const int64_t rows = y.size(0) * (last ? inner : channels), width = last ? channels : inner;
  parallel_for(rows, grain_for(width), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float* const row = out + i * width;
      if (last)
        for (int64_t j = 0; j < width; ++j) row[j] += offsets[j];
      else
        for (int64_t j = 0; j < width; ++j) row[j] += offsets[i % channels];
    }
  });
}

// A convolution with few output channels is faster as a transposed one of its windows turned round,
// that one as a convolution, and the gradient of its weight with images and gradients exchanged:
// each way pads those channels to a vector, but there they are the input's. Only windows that move
// by single steps see as much from either side.
bool exchanges_roles(const ConvShape& s) {
  constexpr int64_t kFew = thresholds::conv::kFewChannels, kMany = thresholds::conv::kManyChannels;
  if (s.groups != 1 || s.out_channels >= kFew || s.in_channels < kMany || s.is_pointwise())
    return false;
  for (size_t i = 0; i < ConvShape::kAxes; ++i) {
    const int64_t reach = (s.kernel[i] - 1) * s.dilation[i];
    if (s.stride[i] != 1 || reach < s.pad[i] || s.in[i] != s.out[i] + reach - 2 * s.pad[i])
      return false;
  }
  return true;
}

// The padding with which a convolution goes back from its output to its input.
Dims exchanged_padding(const ConvShape& s) {
  Dims out;
  for (size_t i = 0; i < ConvShape::kAxes; ++i)
    out.push_back((s.kernel[i] - 1) * s.dilation[i] - s.pad[i]);
  return out;
}
Dims dilation_of(const ConvShape& s) { return {s.dilation[0], s.dilation[1], s.dilation[2]}; }

// Filters (o, i, k) as (i, o, -k).
void turn_filters(const Tensor& filters, Tensor& y) {
  flip(views::transpose(filters, 0, 1), {2, 3, 4}, y);
}
Tensor turned_filters(const Tensor& filters) {
  Dims sizes = filters.sizes();
  std::swap(sizes[0], sizes[1]);
  Tensor out = empty_plain(sizes, options_of(filters), "conv");
  turn_filters(filters, out);
  return out;
}

// The way forward of volumes that are not empty.
void convolve(const ConvShape& s, const Tensor& x, const Tensor& weight, const Tensor& bias,
              Tensor& y) {
  if (const auto last = as_channels_last(s, y))
    if (conv_onednn(*last, channels_last(x), contiguous(weight), converted(bias, y.dtype()), y))
      return;
  if (exchanges_roles(s)) {
    native_conv_transpose(x, turned_filters(weight), bias, y.sizes(), {1, 1, 1},
                          exchanged_padding(s), dilation_of(s), 1, y);
    if (s.relu) raw::relu_(y);
    return;
  }
  computed(x, weight, y, [&](const Tensor& image, const Tensor& filter, Tensor& out) {
    const DType dtype = out.dtype();
    const Tensor offset = converted(bias, compute_dtype(dtype));
    if (!prefers_direct(ConvPass::Forward, s, dtype) && suits_onednn(s, dtype) &&
        conv_onednn(shape_in(s, dtype), image, filter, offset, out))
      return true;
    if (dtype == DType::BFloat16) return false;
    if (takes_direct(s, dtype))
      conv_direct(s, image, filter, offset, out);
    else
      conv_gemm(s, image, filter, offset, out);
    return true;
  });
}

void convolve(const Tensor& input, const Tensor& filters, const Tensor& bias, const Window& window,
              bool relu, Tensor& result) {
  if (result.numel() == 0) return;
  const Tensor x = as_volumes(input), weight = as_volumes(filters);
  Tensor y = as_volumes(result);
  if (x.numel() == 0 || weight.numel() == 0) {
    fill_channels(bias, y);
    if (relu) raw::relu_(y);
    return;
  }
  ConvShape s = shape_of(x, weight, y, window);
  s.relu = relu;
  convolve(s, x, weight, bias, y);
}

}  // namespace

void native_conv(const Tensor& x, const Tensor& weight, const Tensor& bias, const Dims& stride,
                 const Dims& padding, const Dims& dilation, int64_t groups, Tensor& result) {
  convolve(x, weight, bias, {stride, padding, dilation, groups}, false, result);
}

void native_conv_relu(const Tensor& x, const Tensor& weight, const Tensor& bias, const Dims& stride,
                      const Dims& padding, const Dims& dilation, int64_t groups, Tensor& result) {
  convolve(x, weight, bias, {stride, padding, dilation, groups}, true, result);
}

void native_conv_transpose(const Tensor& input, const Tensor& filters, const Tensor& bias,
                           const Dims& /*size*/, const Dims& stride, const Dims& padding,
                           const Dims& dilation, int64_t groups, Tensor& result) {
  if (result.numel() == 0) return;
  const Tensor x = as_volumes(input), weight = as_volumes(filters);
  Tensor y = as_volumes(result);
  if (x.numel() == 0 || weight.numel() == 0) return fill_channels(bias, y);
  const ConvShape s = shape_of(y, weight, x, {stride, padding, dilation, groups});
  const auto by_onednn = [&](const ConvShape& shape, const Tensor& image, const Tensor& filter,
                             const Tensor& offset, Tensor& out) {
    if (!conv_transpose_onednn(shape, image, filter, out)) return false;
    if (offset.defined()) add_channels(offset, out);
    return true;
  };
  if (const auto last = as_channels_last(s, y))
    if (by_onednn(*last, channels_last(x), contiguous(weight), converted(bias, y.dtype()), y))
      return;
  if (exchanges_roles(s))
    return native_conv(x, turned_filters(weight), bias, {1, 1, 1}, exchanged_padding(s),
                       dilation_of(s), 1, y);
  computed(x, weight, y, [&](const Tensor& image, const Tensor& filter, Tensor& out) {
    // oneDNN pads the channels to a vector, which is slow for images of few of them.
    const bool few = s.in_channels < 4;
    const DType dtype = out.dtype();
    if (dtype == DType::BFloat16 && bias.defined()) return false;
    const Tensor offset = converted(bias, dtype);
    if (!few && !prefers_direct(ConvPass::InputGrad, s, dtype) && suits_onednn(s, dtype) &&
        by_onednn(shape_in(s, dtype), image, filter, offset, out))
      return true;
    if (dtype == DType::BFloat16) return false;
    if (takes_direct(s, dtype) && conv_transpose_direct(s, image, filter, offset, out)) return true;
    conv_transpose_gemm(s, image, filter, offset, out);
    return true;
  });
}

void native_conv_grad_weight(const Tensor& gradients, const Tensor& input, const Dims& /*size*/,
                             const Dims& stride, const Dims& padding, const Dims& dilation,
                             int64_t groups, Tensor& result) {
  if (result.numel() == 0) return;
  const Tensor grad = as_volumes(gradients), x = as_volumes(input);
  Tensor y = as_volumes(result);
  if (x.numel() == 0 || grad.numel() == 0) return fill_channels({}, y);
  const ConvShape s = shape_of(x, y, grad, {stride, padding, dilation, groups});
  if (const auto last = as_channels_last(s, x); last && y.is_contiguous())
    if (conv_grad_weight_onednn(*last, channels_last(grad), x, y)) return;
  if (exchanges_roles(s)) {
    Tensor turned =
        empty_plain({y.size(1), y.size(0), y.size(2), y.size(3), y.size(4)}, options_of(y), "conv");
    native_conv_grad_weight(x, grad, turned.sizes(), {1, 1, 1}, exchanged_padding(s),
                            dilation_of(s), 1, turned);
    return turn_filters(turned, y);
  }
  computed(grad, x, y, [&](const Tensor& gradient, const Tensor& image, Tensor& out) {
    const DType dtype = out.dtype();
    if (!prefers_direct(ConvPass::WeightGrad, s, dtype) && suits_onednn(s, dtype) &&
        conv_grad_weight_onednn(shape_in(s, dtype), gradient, image, out))
      return true;
    if (dtype == DType::BFloat16) return false;
    if (takes_direct(s, dtype) && conv_grad_weight_direct(s, gradient, image, out)) return true;
    conv_grad_weight_gemm(s, gradient, image, out);
    return true;
  });
}

}  // namespace moonlet::cpu

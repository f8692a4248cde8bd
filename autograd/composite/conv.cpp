// autograd/composite/conv.cpp: convolutions in one to three dimensions and the transposed ones, all
// by the convolution of real images in two.
#include <algorithm>
#include <string>

#include "autograd/uses_composite_conv.h"
#include "tensor/shapes/window.h"

namespace moonlet {

namespace {

// f(x) for a batch; an input without the batch's dimension is a batch of one.
template <class F>
Tensor batched(const Tensor& x, int dims, F&& f) {
  return x.dim() == dims + 1 ? squeeze(f(unsqueeze(x, 0)), {0}) : f(x);
}

// f(x, weight, bias), which is linear in x and in weight: by the real and imaginary parts of
// complex ones.
template <class F>
Tensor by_parts(const Tensor& x, const Tensor& weight, const Tensor& bias, F&& f) {
  if (!is_complex(x.dtype())) return f(x, weight, bias);
  const Tensor x_re = real(x), x_im = imag(x), w_re = real(weight), w_im = imag(weight);
  const Tensor b_re = bias.defined() ? real(bias) : bias, b_im = bias.defined() ? imag(bias) : bias;
  const Tensor re = sub(f(x_re, w_re, b_re), f(x_im, w_im, Tensor()));
  const Tensor im = add(f(x_re, w_im, b_im), f(x_im, w_re, Tensor()));
  return view_as_complex(stack({re, im}, -1));
}

Dims with_front(int64_t first, const Dims& rest) {
  Dims out = rest;
  out.insert(0, first);
  return out;
}
Dims without_front(const Dims& dims) { return {dims[1], dims[2]}; }

// The weight (o, c, kd, kh, kw) as one of images whose channels hold the depth: (o, c kd, kh, kw).
Tensor flat_weight(const Tensor& weight) {
  return reshape(weight,
                 {weight.size(0), weight.size(1) * weight.size(2), weight.size(3), weight.size(4)});
}

// Brings the dimensions 1 and 2 of x into the other order.
Tensor swapped(const Tensor& x) { return transpose(x, 1, 2); }

// "same" or "valid" as padding; where "same" is odd, the input grows by one at the end first.
struct NamedPadding {
  Tensor x;
  Dims padding;
};
NamedPadding named_padding(const char* op, const Tensor& x, const Tensor& weight,
                           const Dims& stride, std::string_view name, const Dims& dilation) {
  const int dims = stride.size();
  NamedPadding out{x, Dims::filled(dims, 0)};
  check(name == "valid" || name == "same", op,
        ": padding is numbers, \"same\" or \"valid\", got \"", name, "\"");
  if (name == "valid") return out;
  check(weight.dim() == dims + 2, op, ": weight has shape ", weight.sizes(), ", ", dims + 2,
        " dimensions are wanted");
  shapes::check_images(op, x.sizes(), dims);
  shapes::check_window(op, "dilation", dilation, dims, 1);
  std::vector<int64_t> more;
  for (int i = dims - 1; i >= 0; --i) {
    check(stride[i] == 1, op, ": padding \"same\" wants stride 1, got ", stride);
    const int64_t total = checked_mul(dilation[i], weight.size(2 + i) - 1, op);
    out.padding[i] = total / 2;
    more.push_back(0);
    more.push_back(total % 2);
  }
  if (std::find(more.begin(), more.end(), 1) != more.end()) out.x = constant_pad(x, more, 0);
  return out;
}

// The transposed convolution of images, without a bias.
Tensor transposed_images(const Tensor& x, const Tensor& weight, const Dims& size,
                         const Dims& stride, const Dims& padding, const Dims& dilation,
                         int64_t groups) {
  return conv2d_grad_x(x, weight, with_front(x.size(0), with_front(weight.size(1) * groups, size)),
                       stride, padding, dilation, groups);
}

// What a transposed convolution in n dimensions adds to its arguments.
struct Transposed {
  Dims stride, padding, output_padding, dilation;
  int64_t groups;
};

// The frame of the transposed convolutions: core(x, weight, output sizes, padding) computes one
// where the output padding is smaller than the stride.
template <class Core>
Tensor conv_transpose(const char* op, const Tensor& given, const Tensor& weight, const Tensor& bias,
                      const Transposed& t, Core&& core) {
  const int dims = t.stride.size();
  return batched(given, dims, [&](const Tensor& x) {
    const auto sizes = [&](const Dims& padding, const Dims& more) {
      return shapes::conv_transpose_sizes(op, x.sizes(), weight.sizes(), t.stride, padding, more,
                                          t.groups, t.dilation);
    };
    const Dims wanted = sizes(t.padding, t.output_padding), none = Dims::filled(dims, 0);
    if (bias.defined()) shapes::expect_shape(op, "bias", bias.sizes(), {wanted[1]});
    bool far = false;
    for (int i = 0; i < dims; ++i) far = far || t.output_padding[i] >= t.stride[i];
    const Dims& padding = far ? none : t.padding;
    const Dims whole = far ? sizes(none, none) : wanted;
    Dims spatial;
    for (int i = 0; i < dims; ++i) spatial.push_back(whole[2 + i]);
    Tensor y = by_parts(x, weight, Tensor(), [&](const Tensor& a, const Tensor& w, const Tensor&) {
      return core(a, w, spatial, padding);
    });
    if (far) {  // the whole result, cut and padded as the arguments say
      std::vector<int64_t> border;
      for (int i = dims - 1; i >= 0; --i) {
        border.push_back(-t.padding[i]);
        border.push_back(t.output_padding[i] - t.padding[i]);
      }
      y = constant_pad(y, border, 0);
    }
    return bias.defined() ? add(y, reshape(bias, with_front(wanted[1], Dims::filled(dims, 1)))) : y;
  });
}

}  // namespace

Tensor conv2d_composite(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const Dims& stride, const Dims& padding, const Dims& dilation,
                        int64_t groups) {
  return batched(x, 2, [&](const Tensor& images) {
    return by_parts(images, weight, bias, [&](const Tensor& a, const Tensor& w, const Tensor& b) {
      return native_conv2d(a, w, b, stride, padding, dilation, groups);
    });
  });
}

Tensor conv1d_composite(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const Dims& stride, const Dims& padding, const Dims& dilation,
                        int64_t groups) {
  return batched(x, 1, [&](const Tensor& lines) {
    shapes::conv_sizes("conv1d", lines.sizes(), weight.sizes(), stride, padding, dilation, groups);
    return squeeze(conv2d(unsqueeze(lines, 2), unsqueeze(weight, 2), bias, with_front(1, stride),
                          with_front(0, padding), with_front(1, dilation), groups),
                   {2});
  });
}

// The windows along the depth become channels, so that one convolution of images sums over them.
Tensor conv3d_composite(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const Dims& stride, const Dims& padding, const Dims& dilation,
                        int64_t groups) {
  return batched(x, 3, [&](const Tensor& bodies) {
    const Dims size = shapes::conv_sizes("conv3d", bodies.sizes(), weight.sizes(), stride, padding,
                                         dilation, groups);
    const int64_t n = bodies.size(0), c = bodies.size(1), h = bodies.size(3), w = bodies.size(4);
    const Tensor slices = reshape(bodies, {n, c, bodies.size(2), h * w});
    const Tensor windows =
        im2col(slices, {weight.size(2), 1}, {dilation[0], 1}, {padding[0], 0}, {stride[0], 1});
    const int64_t channels = c * weight.size(2), depth = size[2];
    const Tensor images = reshape(swapped(reshape(windows, {n, channels, depth, h * w})),
                                  {n * depth, channels, h, w});
    const Tensor y = conv2d(images, flat_weight(weight), bias, without_front(stride),
                            without_front(padding), without_front(dilation), groups);
    return contiguous(swapped(reshape(y, {n, depth, size[1], size[3], size[4]})));
  });
}

Tensor conv1d_padding_composite(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                const Dims& stride, std::string_view padding, const Dims& dilation,
                                int64_t groups) {
  const auto named = named_padding("conv1d", x, weight, stride, padding, dilation);
  return conv1d(named.x, weight, bias, stride, named.padding, dilation, groups);
}

Tensor conv2d_padding_composite(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                const Dims& stride, std::string_view padding, const Dims& dilation,
                                int64_t groups) {
  const auto named = named_padding("conv2d", x, weight, stride, padding, dilation);
  return conv2d(named.x, weight, bias, stride, named.padding, dilation, groups);
}

Tensor conv3d_padding_composite(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                const Dims& stride, std::string_view padding, const Dims& dilation,
                                int64_t groups) {
  const auto named = named_padding("conv3d", x, weight, stride, padding, dilation);
  return conv3d(named.x, weight, bias, stride, named.padding, dilation, groups);
}

Tensor conv_transpose1d_composite(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                  const Dims& stride, const Dims& padding,
                                  const Dims& output_padding, int64_t groups,
                                  const Dims& dilation) {
  const Transposed t{stride, padding, output_padding, dilation, groups};
  return conv_transpose(
      "conv_transpose1d", x, weight, bias, t,
      [&](const Tensor& a, const Tensor& w, const Dims& size, const Dims& pad) {
        return squeeze(transposed_images(unsqueeze(a, 2), unsqueeze(w, 2), with_front(1, size),
                                         with_front(1, stride), with_front(0, pad),
                                         with_front(1, dilation), groups),
                       {2});
      });
}

Tensor conv_transpose2d_composite(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                  const Dims& stride, const Dims& padding,
                                  const Dims& output_padding, int64_t groups,
                                  const Dims& dilation) {
  const Transposed t{stride, padding, output_padding, dilation, groups};
  return conv_transpose("conv_transpose2d", x, weight, bias, t,
                        [&](const Tensor& a, const Tensor& w, const Dims& size, const Dims& pad) {
                          return transposed_images(a, w, size, stride, pad, dilation, groups);
                        });
}

// As conv3d, the other way: the channels that hold windows along the depth are added up there.
Tensor conv_transpose3d_composite(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                  const Dims& stride, const Dims& padding,
                                  const Dims& output_padding, int64_t groups,
                                  const Dims& dilation) {
  const Transposed t{stride, padding, output_padding, dilation, groups};
  const auto core = [&](const Tensor& a, const Tensor& w, const Dims& size, const Dims& pad) {
    const int64_t n = a.size(0), c = a.size(1), d = a.size(2), plane = size[1] * size[2];
    const Tensor images = reshape(swapped(a), {n * d, c, a.size(3), a.size(4)});
    const Tensor y =
        transposed_images(images, flat_weight(w), without_front(size), without_front(stride),
                          without_front(pad), without_front(dilation), groups);
    const int64_t channels = w.size(1) * groups, taps = w.size(2);
    const Tensor windows = reshape(swapped(reshape(y, {n, d, channels * taps, plane})),
                                   {n, channels * taps, d * plane});
    return reshape(
        col2im(windows, {size[0], plane}, {taps, 1}, {dilation[0], 1}, {pad[0], 0}, {stride[0], 1}),
        {n, channels, size[0], size[1], size[2]});
  };
  return conv_transpose("conv_transpose3d", x, weight, bias, t, core);
}

Tensor conv_tbc_composite(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t pad) {
  check(x.dim() == 3, "conv_tbc: x has shape ", x.sizes(), ", (l, n, c) is wanted");
  check(weight.dim() == 3, "conv_tbc: weight has shape ", weight.sizes(), ", (k, c, o) is wanted");
  return permute(
      conv1d(permute(x, {1, 2, 0}), permute(weight, {2, 1, 0}), bias, {1}, {pad}, {1}, 1),
      {2, 0, 1});
}

}  // namespace moonlet

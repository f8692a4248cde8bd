// autograd/composite/conv.cpp: convolutions in one to three dimensions and the transposed ones: of
// single inputs and of complex numbers, and with a padding that is named.
#include <algorithm>
#include <string>
#include <vector>

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
        " dimensions are expected");
  shapes::check_images(op, x.sizes(), dims);
  shapes::check_window(op, "dilation", dilation, dims, 1);
  std::vector<int64_t> more;
  for (int i = dims - 1; i >= 0; --i) {
    check(stride[i] == 1, op, ": padding \"same\" wants stride 1, got ", stride);
    const auto [before, after] = shapes::same_padding(op, weight.size(2 + i), dilation[i]);
    out.padding[i] = before;
    more.push_back(0);
    more.push_back(after - before);
  }
  if (std::find(more.begin(), more.end(), 1) != more.end()) out.x = constant_pad(x, more, 0);
  return out;
}

// What a transposed convolution in n dimensions adds to its arguments.
struct Transposed {
  Dims stride, padding, output_padding, dilation;
  int64_t groups;
};

// Where the output padding reaches a stride, the whole result is computed, then cut and padded.
bool reaches_stride(const Transposed& t) {
  for (int i = 0; i < t.stride.size(); ++i)
    if (t.output_padding[i] >= t.stride[i]) return true;
  return false;
}

Tensor cut_and_padded(const Tensor& y, const Transposed& t) {
  std::vector<int64_t> border;
  for (int i = t.stride.size() - 1; i >= 0; --i) {
    border.push_back(-t.padding[i]);
    border.push_back(t.output_padding[i] - t.padding[i]);
  }
  return constant_pad(y, border, 0);
}

Tensor with_bias(const Tensor& y, const Tensor& bias) {
  if (!bias.defined()) return y;
  return add(y, reshape(bias, with_front(y.size(1), Dims::filled(y.dim() - 2, 1))));
}

// Exact in integers: a product for each position of the window, with what that position sees.
Tensor conv_of_integers(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const Dims& stride, const Dims& padding, const Dims& dilation,
                        int64_t groups) {
  const int dims = stride.size();
  constexpr const char* kNames[] = {"conv1d", "conv2d", "conv3d"};
  const char* op = kNames[dims - 1];
  const Dims out =
      shapes::conv_sizes(op, x.sizes(), weight.sizes(), stride, padding, dilation, groups);
  if (bias.defined()) shapes::check_shape(op, "bias", bias.sizes(), {out[1]});
  std::vector<int64_t> border;
  for (int i = dims - 1; i >= 0; --i) border.insert(border.end(), 2, padding[i]);
  const Tensor padded = constant_pad(x, border, 0);
  int64_t positions = 1, taps = 1;
  for (int i = 0; i < dims; ++i) {
    positions *= out[2 + i];
    taps *= weight.size(2 + i);
  }
  const int64_t inner = weight.size(1), outer = out[1] / groups;
  const Tensor by_tap = reshape(weight, {groups, outer, inner, taps});
  Tensor sum;
  for (int64_t tap = 0; tap < taps; ++tap) {
    Tensor seen = padded;
    int64_t rest = tap;
    for (int i = dims - 1; i >= 0; --i) {
      const int64_t first = rest % weight.size(2 + i) * dilation[i];
      rest /= weight.size(2 + i);
      seen = slice(seen, 2 + i, first, first + (out[2 + i] - 1) * stride[i] + 1, stride[i]);
    }
    const Tensor part =
        matmul(select(by_tap, 3, tap), reshape(seen, {out[0], groups, inner, positions}));
    sum = sum.defined() ? add(sum, part) : part;
  }
  return with_bias(reshape(sum, out), bias);
}

// The elements of x along dimension d with so many zeros between them.
Tensor spread_out(const Tensor& x, int d, int64_t zeros) {
  if (zeros == 0) return x;
  const int64_t length = (x.size(d) - 1) * (zeros + 1) + 1;
  std::vector<int64_t> behind(2 * static_cast<size_t>(x.dim() - d), 0);
  behind[behind.size() - 1] = zeros;
  return slice(flatten(constant_pad(unsqueeze(x, d + 1), behind, 0), d, d + 1), d, 0, length, 1);
}

// The convolution of x, spread out by the strides, with the turned filters.
Tensor conv_transpose_of_integers(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                  const Transposed& t) {
  const int dims = t.stride.size();
  Tensor spread = x;
  std::vector<int64_t> border;
  for (int i = dims - 1; i >= 0; --i) {
    spread = spread_out(spread, 2 + i, t.stride[i] - 1);
    const int64_t full = t.dilation[i] * (weight.size(2 + i) - 1);
    border.push_back(full - t.padding[i]);
    border.push_back(full - t.padding[i] + t.output_padding[i]);
  }
  const int64_t inner = weight.size(0) / t.groups, outer = weight.size(1);
  Dims grouped = weight.sizes(), turned = weight.sizes(), axes;
  grouped[0] = inner;
  grouped.insert(0, t.groups);
  turned[0] = t.groups * outer;
  turned[1] = inner;
  for (int i = 0; i < dims; ++i) axes.push_back(2 + i);
  const Tensor filters = flip(reshape(transpose(reshape(weight, grouped), 1, 2), turned), axes);
  return conv_of_integers(constant_pad(spread, border, 0), filters, bias, Dims::filled(dims, 1),
                          Dims::filled(dims, 0), t.dilation, t.groups);
}

Tensor conv_transpose(const char* op, const Tensor& given, const Tensor& weight, const Tensor& bias,
                      const Transposed& t) {
  const int dims = t.stride.size();
  return batched(given, dims, [&](const Tensor& x) {
    const auto sizes = [&](const Dims& padding, const Dims& more) {
      return shapes::conv_transpose_sizes(op, x.sizes(), weight.sizes(), t.stride, padding, more,
                                          t.groups, t.dilation);
    };
    const Dims wanted = sizes(t.padding, t.output_padding), none = Dims::filled(dims, 0);
    if (bias.defined()) shapes::check_shape(op, "bias", bias.sizes(), {wanted[1]});
    if (is_integral(x.dtype())) return conv_transpose_of_integers(x, weight, bias, t);
    const auto run = [&](const Tensor& offset, const Dims& size, const Dims& padding) {
      return by_parts(x, weight, offset, [&](const Tensor& a, const Tensor& w, const Tensor& b) {
        return native_conv_transpose(a, w, b, size, t.stride, padding, t.dilation, t.groups);
      });
    };
    if (!reaches_stride(t)) return run(bias, wanted, t.padding);
    return with_bias(cut_and_padded(run(Tensor(), sizes(none, none), none), t), bias);
  });
}

Tensor conv(const Tensor& given, const Tensor& weight, const Tensor& bias, const Dims& stride,
            const Dims& padding, const Dims& dilation, int64_t groups) {
  return batched(given, stride.size(), [&](const Tensor& x) {
    if (is_integral(x.dtype()))
      return conv_of_integers(x, weight, bias, stride, padding, dilation, groups);
    return by_parts(x, weight, bias, [&](const Tensor& a, const Tensor& w, const Tensor& b) {
      return native_conv(a, w, b, stride, padding, dilation, groups);
    });
  });
}

}  // namespace

Tensor conv1d_composite(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const Dims& stride, const Dims& padding, const Dims& dilation,
                        int64_t groups) {
  return conv(x, weight, bias, stride, padding, dilation, groups);
}

Tensor conv2d_composite(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const Dims& stride, const Dims& padding, const Dims& dilation,
                        int64_t groups) {
  return conv(x, weight, bias, stride, padding, dilation, groups);
}

Tensor conv3d_composite(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const Dims& stride, const Dims& padding, const Dims& dilation,
                        int64_t groups) {
  return conv(x, weight, bias, stride, padding, dilation, groups);
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
  return conv_transpose("conv_transpose1d", x, weight, bias,
                        {stride, padding, output_padding, dilation, groups});
}

Tensor conv_transpose2d_composite(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                  const Dims& stride, const Dims& padding,
                                  const Dims& output_padding, int64_t groups,
                                  const Dims& dilation) {
  return conv_transpose("conv_transpose2d", x, weight, bias,
                        {stride, padding, output_padding, dilation, groups});
}

Tensor conv_transpose3d_composite(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                  const Dims& stride, const Dims& padding,
                                  const Dims& output_padding, int64_t groups,
                                  const Dims& dilation) {
  return conv_transpose("conv_transpose3d", x, weight, bias,
                        {stride, padding, output_padding, dilation, groups});
}

Tensor conv_tbc_composite(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t pad) {
  check(x.dim() == 3, "conv_tbc: x has shape ", x.sizes(), ", (l, n, c) is expected");
  check(weight.dim() == 3, "conv_tbc: weight has shape ", weight.sizes(),
        ", (k, c, o) is expected");
  return permute(
      conv1d(permute(x, {1, 2, 0}), permute(weight, {2, 1, 0}), bias, {1}, {pad}, {1}, 1),
      {2, 0, 1});
}

}  // namespace moonlet

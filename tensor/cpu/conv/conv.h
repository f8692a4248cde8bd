// tensor/cpu/conv/conv.h: the two implementations of convolution in up to three dimensions behind
// its kernels: oneDNN and the built-in one on matrix products.
#pragma once

#include <array>

#include "tensor/core/tensor.h"
#include "tensor/cpu/common/thresholds.h"

namespace moonlet::cpu {

// The geometry of one convolution; sizes in elements. The axes are depth, height and width; of
// images and lines the first ones have size 1.
struct ConvShape {
  static constexpr int kAxes = 3;
  using Axes = std::array<int64_t, kAxes>;
  int64_t batch, groups, in_channels, out_channels;
  Axes in, out, kernel, stride, pad, dilation;
  // Images lie as n, d, h, w, c; for oneDNN only.
  bool channels_last = false;
  // Of images and weights; bfloat16 for oneDNN only.
  DType dtype = DType::Float32;
  // Whether what the way forward gives is 0 where it would be less, as relu gives it.
  bool relu = false;

  // Whether each position of the output sees the same position of the input alone.
  bool is_pointwise() const {
    return kernel == Axes{1, 1, 1} && stride == Axes{1, 1, 1} && pad == Axes{0, 0, 0};
  }
};

// The positions of one channel.
inline int64_t volume(const ConvShape::Axes& axes) { return axes[0] * axes[1] * axes[2]; }

// The convolution of x, the transposed one, which gives what the shape calls the input from what it
// calls the output, and the gradient of the weight. All tensors are contiguous (images channels
// last where the shape says so), have five dimensions but the bias, and are not empty. The gemm
// forms take float32 and float64.
void conv_gemm(const ConvShape& s, const Tensor& x, const Tensor& weight, const Tensor& bias,
               Tensor& y);
void conv_transpose_gemm(const ConvShape& s, const Tensor& x, const Tensor& weight,
                         const Tensor& bias, Tensor& y);
void conv_grad_weight_gemm(const ConvShape& s, const Tensor& grad, const Tensor& x, Tensor& y);

inline constexpr double kConvWork = thresholds::conv::kConvWork;

// The same through oneDNN, of the shape's dtype with a bias of float32, by parts of `work` for each
// thread; the transposed one adds none. False when it has no implementation for this shape or is
// not built in, or the processor does not multiply bfloat16, and then what y holds is undefined.
bool conv_onednn(const ConvShape& s, const Tensor& x, const Tensor& weight, const Tensor& bias,
                 Tensor& y, double work = kConvWork);
bool conv_transpose_onednn(const ConvShape& s, const Tensor& x, const Tensor& weight, Tensor& y,
                           double work = kConvWork);
bool conv_grad_weight_onednn(const ConvShape& s, const Tensor& grad, const Tensor& x, Tensor& y,
                             double work = kConvWork);

}  // namespace moonlet::cpu

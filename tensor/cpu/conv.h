// tensor/cpu/conv.h: the two implementations of 2-d convolution behind the conv2d kernels: oneDNN
// and the built-in one on matrix products.
#pragma once

#include "tensor/tensor.h"

namespace moonlet::cpu {

// The geometry of one convolution; sizes in elements.
struct ConvShape {
  int64_t batch, groups;
  int64_t in_channels, in_height, in_width;
  int64_t out_channels, out_height, out_width;
  int64_t kernel_height, kernel_width;
  int64_t stride_y, stride_x, pad_y, pad_x, dilation_y, dilation_x;
  // Images lie as n, h, w, c; for oneDNN only.
  bool channels_last = false;
  // Of images and weights; bfloat16 for oneDNN only.
  DType dtype = DType::Float32;
};

// All tensors are contiguous (images channels last where the shape says so) and not empty. The gemm
// forms take float32 and float64.
void conv2d_gemm(const ConvShape& s, const Tensor& x, const Tensor& weight, const Tensor& bias,
                 Tensor& y);
void conv2d_grad_x_gemm(const ConvShape& s, const Tensor& grad, const Tensor& weight, Tensor& y);
void conv2d_grad_weight_gemm(const ConvShape& s, const Tensor& grad, const Tensor& x, Tensor& y);

// The multiply-adds that a thread of a library may do between two looks at the stop flag: a tenth
// of a second or two.
inline constexpr double kConvWork = 0x1p32;

// The same through oneDNN, of the shape's dtype with a bias of float32, by parts of `work` for each
// thread; false when it has no implementation for this shape or is not built in, or the processor
// does not multiply bfloat16, and then what y holds is undefined.
bool conv2d_onednn(const ConvShape& s, const Tensor& x, const Tensor& weight, const Tensor& bias,
                   Tensor& y, double work = kConvWork);
bool conv2d_grad_x_onednn(const ConvShape& s, const Tensor& grad, const Tensor& weight, Tensor& y,
                          double work = kConvWork);
bool conv2d_grad_weight_onednn(const ConvShape& s, const Tensor& grad, const Tensor& x, Tensor& y,
                               double work = kConvWork);

}  // namespace moonlet::cpu

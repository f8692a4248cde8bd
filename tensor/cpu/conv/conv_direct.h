// tensor/cpu/conv/conv_direct.h: convolution of few channels at a time (depthwise, grouped, first
// layers) without columns: each image is laid out once so that every tap of the window reads it
// from a fixed distance.
#pragma once

#include "tensor/cpu/conv/conv_parts.h"

namespace moonlet::cpu {

// Whether there is a direct form for the shape and dtype, which is faster than products of columns.
bool takes_direct(const ConvShape& s, DType dtype);
// Whether a pass is also faster so than by oneDNN.
bool prefers_direct(ConvPass pass, const ConvShape& s, DType dtype);

// As the forms on matrix products (conv.h). The gradients multiply numbers by zeros that lie behind
// rows, and return false where a weight or a result is not finite: then what y holds is undefined.
void conv_direct(const ConvShape& s, const Tensor& x, const Tensor& weight, const Tensor& bias,
                 Tensor& y);
bool conv_transpose_direct(const ConvShape& s, const Tensor& grad, const Tensor& weight,
                           const Tensor& bias, Tensor& y);
bool conv_grad_weight_direct(const ConvShape& s, const Tensor& grad, const Tensor& x, Tensor& y);

}  // namespace moonlet::cpu

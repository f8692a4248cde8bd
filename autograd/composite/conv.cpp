// autograd/composite/conv.cpp: convolution in one dimension.
#include "autograd/uses_composite_conv.h"

namespace moonlet {

Tensor conv1d_composite(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t stride,
                        int64_t padding, int64_t dilation, int64_t groups) {
  check(x.dim() == 3, "conv1d: x has shape ", x.sizes(), ", (n, c, l) is wanted");
  check(weight.dim() == 3, "conv1d: weight has shape ", weight.sizes(), ", (o, c, k) is wanted");
  return squeeze(conv2d(unsqueeze(x, 2), unsqueeze(weight, 2), bias, {1, stride}, {0, padding},
                        {1, dilation}, groups),
                 {2});
}

}  // namespace moonlet

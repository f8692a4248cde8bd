// cuda/libraries/cudnn_conv.h: convolutions by cuDNN, for the kernels in conv.cu, which do without
// where it is missing, switched off (tensor/runtime/cudnn_settings.h) or has no way.
#pragma once

#include <cstdint>

#include "tensor/core/tensor.h"

namespace moonlet::cuda::cudnn {

// The library's, as 91900 for 9.19.0; 0 where there is none.
int64_t version();

// As the kernels native_conv (with `relu` native_conv_relu), native_conv_transpose and
// native_conv_grad_weight with a result that is not empty. False, with nothing in the result that
// counts, where cuDNN does not do it.
bool conv(const Tensor& x, const Tensor& weight, const Tensor& bias, const Dims& stride,
          const Dims& padding, const Dims& dilation, int64_t groups, bool relu, Tensor& result);
bool conv_transpose(const Tensor& x, const Tensor& weight, const Tensor& bias, const Dims& stride,
                    const Dims& padding, const Dims& dilation, int64_t groups, Tensor& result);
bool conv_grad_weight(const Tensor& grad, const Tensor& x, const Dims& stride, const Dims& padding,
                      const Dims& dilation, int64_t groups, Tensor& result);

}  // namespace moonlet::cuda::cudnn

// cuda/libraries/cudnn_attention.h: attention by cuDNN, for the kernels in nn_attention.cu, which
// do without where it is missing, switched off (tensor/runtime/cudnn_settings.h) or has no way.
// Both give the same logarithms of sums, so that either computes the gradients of the other's
// results.
#pragma once

#include "tensor/core/tensor.h"

namespace moonlet::cuda::cudnn {

// As the kernels flash_attention and flash_attention_grads without a mask. False, with nothing in
// the results that counts, where cuDNN does not do it: it takes float16 and bfloat16, whose rows
// lie at multiples of 16 bytes, and gradients where they need not repeat.
bool attention(const Tensor& query, const Tensor& key, const Tensor& value, bool is_causal,
               double scale, Tensor& y, Tensor& logsumexp);
bool attention_grads(const Tensor& grad, const Tensor& query, const Tensor& key,
                     const Tensor& value, const Tensor& y, const Tensor& logsumexp, bool is_causal,
                     double scale, Tensor& grad_query, Tensor& grad_key, Tensor& grad_value);

}  // namespace moonlet::cuda::cudnn

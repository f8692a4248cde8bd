// autograd/formulas/nn.h: the longer derivatives of network ops. Dims are 0-based.
#pragma once

#include <tuple>

#include "tensor/core/tensor.h"

namespace moonlet::formulas {

// What attention multiplies the values with: softmax(query key^T * scale + mask), computed in at
// least float32; zeros for a query that may see nothing.
Tensor attention_weights(const Tensor& query, const Tensor& key, const Tensor& mask, bool is_causal,
                         double scale);
// native_attention: these weights times the values, for some queries at a time.
Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                 bool is_causal, double scale);
// The gradients of attention with respect to (query, key, value), and to a mask that is added, by
// products and softmax; they may be differentiated again.
std::tuple<Tensor, Tensor, Tensor> attention_grads(const Tensor& g, const Tensor& query,
                                                   const Tensor& key, const Tensor& value,
                                                   const Tensor& mask, bool is_causal,
                                                   double scale);
Tensor attention_grad_mask(const Tensor& g, const Tensor& query, const Tensor& key,
                           const Tensor& value, const Tensor& mask, bool is_causal, double scale);
// Those of flash_attention, which gave y and logsumexp, with respect to (query, key, value).
std::tuple<Tensor, Tensor, Tensor> flash_grads(const Tensor& g, const Tensor& query,
                                               const Tensor& key, const Tensor& value,
                                               const Tensor& mask, const Tensor& y,
                                               const Tensor& logsumexp, bool is_causal,
                                               double scale);

}  // namespace moonlet::formulas

// autograd/formulas_nn.h: derivatives of the products and of network ops that are longer than an
// expression, made of public ops, so that they are differentiable again. Dims are 0-based.
#pragma once

#include <tuple>

#include "tensor/tensor.h"

namespace moonlet::formulas {

// x's conjugate; x itself when it is real, without a copy.
Tensor conjugate(const Tensor& x);
// The last two dimensions swapped, and conjugated when complex.
Tensor adjoint(const Tensor& x);
// linear's weight gradient (out, in) from g (..., out) and x (..., in).
Tensor linear_grad_weight(const Tensor& g, const Tensor& x);
// The sum of x (n, c, ...) over all dimensions but the second: (c).
Tensor channel_sum(const Tensor& x);
// The last two of `sizes`.
Dims plane_of(const Dims& sizes);

// What attention multiplies the values with: softmax(query key^T * scale + mask), computed in at
// least float32; zeros for a query that may see nothing.
Tensor attention_weights(const Tensor& query, const Tensor& key, const Tensor& mask, bool is_causal,
                         double scale);
// The gradients of native_attention with respect to (query, key, value, mask).
std::tuple<Tensor, Tensor, Tensor, Tensor> attention_grads(const Tensor& g, const Tensor& query,
                                                           const Tensor& key, const Tensor& value,
                                                           const Tensor& mask, bool is_causal,
                                                           double scale);

// The gradient of softmax_grad_x with respect to softmax's result.
Tensor softmax_grad_x_grad_result(const Tensor& g, const Tensor& grad, const Tensor& result,
                                  int64_t dim);
// The gradients of log_softmax_grad_x with respect to (grad, result).
std::tuple<Tensor, Tensor> log_softmax_grad_x_grads(const Tensor& g, const Tensor& grad,
                                                    const Tensor& result, int64_t dim);

// The gradients of layer_norm_grad_x with respect to (grad, x, weight) and of
// layer_norm_grad_weight with respect to (grad, x). The path through the statistics is part of x's.
std::tuple<Tensor, Tensor, Tensor> layer_norm_grad_x_grads(const Tensor& g, const Tensor& grad,
                                                           const Tensor& x, const Tensor& mean,
                                                           const Tensor& rstd, const Tensor& weight,
                                                           int64_t dims, double eps);
std::tuple<Tensor, Tensor> layer_norm_grad_weight_grads(const Tensor& g, const Tensor& grad,
                                                        const Tensor& x, const Tensor& mean,
                                                        const Tensor& rstd, int64_t dims,
                                                        double eps);
// The same for batch_norm.
std::tuple<Tensor, Tensor, Tensor> batch_norm_grad_x_grads(const Tensor& g, const Tensor& grad,
                                                           const Tensor& x, const Tensor& mean,
                                                           const Tensor& rstd, const Tensor& weight,
                                                           double eps);
std::tuple<Tensor, Tensor> batch_norm_grad_weight_grads(const Tensor& g, const Tensor& grad,
                                                        const Tensor& x, const Tensor& mean,
                                                        const Tensor& rstd, double eps);

}  // namespace moonlet::formulas

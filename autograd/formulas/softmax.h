// autograd/formulas/softmax.h: the longer derivatives of softmax. Dims are 0-based.
#pragma once

#include <tuple>

#include "tensor/core/tensor.h"

namespace moonlet::formulas {

// The gradient of softmax_grad_x with respect to softmax's result.
Tensor softmax_grad_x_grad_result(const Tensor& g, const Tensor& grad, const Tensor& result,
                                  int64_t dim);
// The gradients of log_softmax_grad_x with respect to (grad, result).
std::tuple<Tensor, Tensor> log_softmax_grad_x_grads(const Tensor& g, const Tensor& grad,
                                                    const Tensor& result, int64_t dim);

}  // namespace moonlet::formulas

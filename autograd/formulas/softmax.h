// autograd/formulas/softmax.h: the longer derivatives of softmax. Dims are 0-based.
#pragma once

#include <tuple>

#include "tensor/tensor.h"

namespace moonlet::formulas {

// The gradient of softmax_backward with respect to softmax's result.
Tensor softmax_backward_result(const Tensor& g, const Tensor& grad, const Tensor& result,
                               int64_t dim);
// The gradients of log_softmax_backward with respect to (grad, result).
std::tuple<Tensor, Tensor> log_softmax_backward_grads(const Tensor& g, const Tensor& grad,
                                                      const Tensor& result, int64_t dim);

}  // namespace moonlet::formulas

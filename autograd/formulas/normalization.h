// autograd/formulas/normalization.h: the gradients of normalisation and their
// derivatives.
#pragma once

#include <tuple>

#include "tensor/core/tensor.h"

namespace moonlet::formulas {

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
// And for group_norm.
std::tuple<Tensor, Tensor, Tensor> group_norm_grad_x_grads(const Tensor& g, const Tensor& grad,
                                                           const Tensor& x, const Tensor& mean,
                                                           const Tensor& rstd, const Tensor& weight,
                                                           int64_t groups, double eps);
std::tuple<Tensor, Tensor> group_norm_grad_weight_grads(const Tensor& g, const Tensor& grad,
                                                        const Tensor& x, const Tensor& mean,
                                                        const Tensor& rstd, int64_t groups,
                                                        double eps);

// The gradients of each with respect to (x, weight, bias): from one op where nothing is recorded
// and the device has it. That of the weight is undefined when the weight is.
std::tuple<Tensor, Tensor, Tensor> layer_norm_backward(const Tensor& grad, const Tensor& x,
                                                       const Tensor& mean, const Tensor& rstd,
                                                       const Tensor& weight, int64_t dims,
                                                       double eps);
std::tuple<Tensor, Tensor, Tensor> batch_norm_backward(const Tensor& grad, const Tensor& x,
                                                       const Tensor& mean, const Tensor& rstd,
                                                       const Tensor& weight, double eps);
std::tuple<Tensor, Tensor, Tensor> group_norm_backward(const Tensor& grad, const Tensor& x,
                                                       const Tensor& mean, const Tensor& rstd,
                                                       const Tensor& weight, int64_t groups,
                                                       double eps);

}  // namespace moonlet::formulas

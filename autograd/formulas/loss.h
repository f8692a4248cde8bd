// autograd/formulas/loss.h: derivatives of losses.
#pragma once

#include <tuple>

#include "tensor/core/scalar.h"
#include "tensor/core/tensor.h"

namespace moonlet::formulas {

// In these `g` is the gradient of a loss's gradient with respect to x, times that which it
// multiplies; they give the gradients with respect to x and target.

// Of a loss that is a parabola, with the gradient of its gradient `g`, where x and target are
// nearer than `width`, and straight elsewhere.
std::tuple<Tensor, Tensor> huber_backward_grads(const Tensor& g, const Tensor& x,
                                                const Tensor& target, const Scalar& width);
std::tuple<Tensor, Tensor> binary_cross_entropy_grads(const Tensor& g, const Tensor& x,
                                                      const Tensor& target);
std::tuple<Tensor, Tensor> soft_margin_grads(const Tensor& g, const Tensor& x,
                                             const Tensor& target);

// The gradient of kl_div along target: log(target) + 1 - x, or -x where target is 0.
Tensor kl_div_target_grad(const Tensor& x, const Tensor& target);

// The gradient of ctc_loss_grad_log_probs by its `grad`, of which each element belongs to an entry:
// the derivative of the losses along g.
Tensor ctc_loss_along(const Tensor& g, const Tensor& grad, const Tensor& log_probs,
                      const Tensor& targets, const std::vector<int64_t>& input_lengths,
                      const std::vector<int64_t>& target_lengths, const Tensor& result,
                      const Tensor& log_alpha, int64_t blank);

// Throws: the gradient of that op has no derivative.
Tensor no_second_derivative(const char* op);

}  // namespace moonlet::formulas

// autograd/formulas/loss.h: derivatives of losses.
#pragma once

#include <tuple>

#include "tensor/scalar.h"
#include "tensor/tensor.h"

namespace moonlet::formulas {

// In these `g` is the gradient of a loss's gradient with respect to x, times that which it
// multiplies; they give the gradients with respect to x and target.

// Of a loss that is a parabola, with the slope of its slope `g`, where x and target are nearer than
// `width`, and straight elsewhere.
std::tuple<Tensor, Tensor> bowl_grads(const Tensor& g, const Tensor& x, const Tensor& target,
                                      const Scalar& width);
std::tuple<Tensor, Tensor> binary_cross_entropy_grads(const Tensor& g, const Tensor& x,
                                                      const Tensor& target);
std::tuple<Tensor, Tensor> soft_margin_grads(const Tensor& g, const Tensor& x,
                                             const Tensor& target);

// The slope of kl_div along target: log(target) + 1 - x, or -x where target is 0.
Tensor kl_div_slope(const Tensor& x, const Tensor& target);

// Throws: the gradient of that op has no derivative.
std::tuple<Tensor, Tensor> no_second_derivative(const char* op);

}  // namespace moonlet::formulas

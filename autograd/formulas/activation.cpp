// autograd/formulas/activation.cpp: the longer derivatives of activations.
#include "autograd/formulas/activation.h"

#include "autograd/formulas/common.h"
#include "autograd/uses_formulas_activation.h"

namespace moonlet::formulas {

Tensor gelu_tanh_grad_x(const Tensor& g, const Tensor& given) {
  const Tensor x = widened(given);
  constexpr double k = 0.7978845608028654, c = 0.044715;
  const Tensor x2 = square(x);
  const Tensor t = tanh(mul(mul(x, add(mul(x2, c), 1.0)), k));
  const Tensor inner = mul(add(mul(x2, 3 * c), 1.0), k);
  const Tensor slope = add(add(t, 1.0), mul(mul(x, sub(1.0, square(t))), inner));
  return mul(g, mul(slope, 0.5));
}

Tensor silu_grad_x_grad_x(const Tensor& g, const Tensor& grad, const Tensor& given) {
  const Tensor x = widened(given);
  const Tensor s = sigmoid(x);
  const Tensor bend = add(mul(x, sub(1.0, mul(s, 2.0))), 2.0);
  return mul(mul(widened(g), grad), moonlet::conj(mul(mul(s, sub(1.0, s)), bend)));
}

Tensor mish_grad_x(const Tensor& g, const Tensor& given) {
  const Tensor x = widened(given);
  const Tensor t = tanh(softplus(x, 1.0, 20.0));
  const Tensor slope = mul(mul(x, sigmoid(x)), sub(1.0, square(t)));
  return mul(g, add(t, slope));
}

}  // namespace moonlet::formulas

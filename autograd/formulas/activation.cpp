// autograd/formulas/activation.cpp: the longer derivatives of activations.
#include "autograd/formulas.h"

#include "autograd/formulas/common.h"
#include "autograd/uses_formulas_activation.h"

namespace moonlet::formulas {

namespace {
// x, but no infinity, which times a slope of 0 is not a number; at the limit the slope is 0
// already.
Tensor limited(const Tensor& x) {
  const Tensor wide = widened(x);
  return is_complex(wide.dtype()) ? wide : clamp(wide, -1e4, 1e4);
}
}  // namespace

Tensor gelu_erf_grad_x_grad_x(const Tensor& g, const Tensor& grad, const Tensor& given) {
  const Tensor x2 = square(limited(given));
  const Tensor second = mul(sub(2.0, x2), 0.3989422804014327);
  return mul(mul(widened(g), grad), mul(exp(mul(x2, -0.5)), second));
}

// For inner = k (x + c x^3): (1 - tanh^2) (inner' + x / 2 inner'' - x tanh inner'^2).
Tensor gelu_tanh_grad_x_grad_x(const Tensor& g, const Tensor& grad, const Tensor& given) {
  const Tensor x = limited(given);
  constexpr double k = 0.7978845608028654, c = 0.044715;
  const Tensor x2 = square(x);
  const Tensor t = tanh(mul(mul(x, add(mul(x2, c), 1.0)), k));
  const Tensor inner = mul(add(mul(x2, 3 * c), 1.0), k);
  const Tensor second = sub(add(inner, mul(x2, 3 * k * c)), mul(mul(x, t), square(inner)));
  return mul(mul(widened(g), grad), mul(sub(1.0, square(t)), second));
}

Tensor silu_grad_x_grad_x(const Tensor& g, const Tensor& grad, const Tensor& given) {
  const Tensor x = limited(given);
  const Tensor s = sigmoid(x);
  const Tensor second = add(mul(x, sub(1.0, mul(s, 2.0))), 2.0);
  return mul(mul(widened(g), grad), moonlet::conj(mul(mul(s, sub(1.0, s)), second)));
}

// For t = tanh(softplus(x)), whose derivative is s (1 - t^2) with s = sigmoid(x).
Tensor mish_grad_x_grad_x(const Tensor& g, const Tensor& grad, const Tensor& given) {
  const Tensor x = limited(given);
  const Tensor s = sigmoid(x), t = tanh(softplus(x, 1.0, 20.0));
  const Tensor slope = mul(s, sub(1.0, square(t)));
  const Tensor second = mul(x, sub(1.0, mul(s, add(mul(t, 2.0), 1.0))));
  return mul(mul(widened(g), grad), mul(slope, add(second, 2.0)));
}

Tensor softplus_grad_x_grad_x(const Tensor& g, const Tensor& grad, const Tensor& given,
                              const Scalar& beta, const Scalar& threshold) {
  const Tensor scaled = mul(widened(given), beta);
  const Tensor second = mul(sigmoid_grad_x(mul(widened(g), grad), sigmoid(scaled)), beta);
  return where(gt(scaled, threshold), 0.0, second);
}

}  // namespace moonlet::formulas

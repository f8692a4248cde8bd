// autograd/formulas/loss.cpp: derivatives of losses.
#include "autograd/formulas.h"

#include "autograd/formulas/common.h"
#include "autograd/uses_formulas_loss.h"

namespace moonlet::formulas {

std::tuple<Tensor, Tensor> huber_backward_grads(const Tensor& g, const Tensor& x,
                                                const Tensor& target, const Scalar& width) {
  const Tensor inside = where(lt(abs(sub(x, target)), width), g, 0.0);
  return {inside, neg(inside)};
}

std::tuple<Tensor, Tensor> binary_cross_entropy_grads(const Tensor& g, const Tensor& given,
                                                      const Tensor& target) {
  const Tensor x = widened(given);
  const Tensor spread = clamp_min(mul(x, sub(1.0, x)), 1e-12);
  const Tensor second = add(sub(square(x), mul(mul(x, target), 2.0)), target);
  return {mul(g, div(second, square(spread))), neg(div(g, spread))};
}

std::tuple<Tensor, Tensor> soft_margin_grads(const Tensor& g, const Tensor& given,
                                             const Tensor& target) {
  const Tensor x = widened(given);
  const Tensor s = sigmoid(neg(mul(x, target)));
  const Tensor second = mul(s, sub(1.0, s));
  return {mul(g, mul(square(target), second)), mul(g, sub(mul(mul(x, target), second), s))};
}

Tensor kl_div_target_grad(const Tensor& given, const Tensor& target) {
  const Tensor x = widened(given), present = gt(target, 0.0);
  return sub(add(log(where(present, target, 1.0)), present), x);
}

Tensor ctc_loss_along(const Tensor& g, const Tensor& grad, const Tensor& log_probs,
                      const Tensor& targets, const std::vector<int64_t>& input_lengths,
                      const std::vector<int64_t>& target_lengths, const Tensor& result,
                      const Tensor& log_alpha, int64_t blank) {
  const Tensor each = ctc_loss_grad_log_probs(ones_like(grad), log_probs, targets, input_lengths,
                                              target_lengths, result, log_alpha, blank);
  return sum(mul(g, each), {0, 2});
}

Tensor no_second_derivative(const char* op) {
  fail(op, ": its gradient cannot be differentiated again");
}

}  // namespace moonlet::formulas

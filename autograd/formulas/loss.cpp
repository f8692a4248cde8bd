// autograd/formulas/loss.cpp: derivatives of losses.
#include "autograd/formulas.h"

#include "autograd/composite/loss.h"
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

namespace {

// What the softmax of each entry of x (n, c, ...) is multiplied by in the gradient of its loss,
// (n, ...): the weight of its target, and that of all classes by label smoothing; 0 where ignored.
Tensor softmax_factors(const Tensor& x, const Tensor& target, const Tensor& weight,
                       int64_t ignore_index, double label_smoothing) {
  const Tensor used = ne(target, ignore_index);
  if (!weight.defined()) return to(used, x.dtype());
  const Tensor classes = reshape(where(used, target, int64_t{1}), {target.numel()});
  const Tensor own = reshape(index_select(weight, 0, classes), target.sizes());
  const Tensor every = mul(sum(weight), label_smoothing / static_cast<double>(weight.numel()));
  return where(used, add(mul(own, 1 - label_smoothing), every), 0.0);
}

}  // namespace

// With p = softmax(x), s the part of an entry in the loss and k its factor, the gradient of x is
// s (k p - b), in which b depends on the target alone: that along g is s k p (g - <g, p>).
std::tuple<Tensor, Tensor> cross_entropy_grad_x_grads(const Tensor& g, const Tensor& grad,
                                                      const Tensor& x, const Tensor& target,
                                                      const Tensor& weight, const Tensor& logsumexp,
                                                      const Tensor& total_weight, int64_t reduction,
                                                      int64_t ignore_index,
                                                      double label_smoothing) {
  const int dim = x.dim() == 1 ? 0 : 1;
  const bool each = grad.dim() > 0;
  const Tensor whole = cross_entropy_grad_x(ones_like(grad), x, target, weight, logsumexp,
                                            total_weight, reduction, ignore_index, label_smoothing);
  Dims summed{dim};
  if (!each) summed = all_dims(x.dim());
  const Tensor along = sum(mul(g, whole), summed);
  Tensor factor = softmax_factors(x, target, weight, ignore_index, label_smoothing);
  factor = mul(factor, grad);
  if (reduction == losses::kMean) factor = div(factor, total_weight);
  const Tensor p = softmax(x, dim);
  return {reshape(along, grad.sizes()), softmax_grad_x(mul(g, unsqueeze(factor, dim)), p, dim)};
}

Tensor no_second_derivative(const char* op) {
  fail(op, ": its gradient cannot be differentiated again");
}

}  // namespace moonlet::formulas

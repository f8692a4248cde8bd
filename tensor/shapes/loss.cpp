// tensor/shapes/loss.cpp: argument checks and result shapes of losses.
#include "tensor/shapes_loss.h"

namespace moonlet::shapes {

namespace {

// The target's sizes for an input (c) or (n, c, ...): () or (n, ...).
Dims target_sizes(const Dims& log_probs) {
  Dims out = log_probs;
  out.erase(log_probs.size() == 1 ? 0 : 1);
  return out;
}

// The loss's sizes. `reduction` is 0 (none), 1 (mean) or 2 (sum).
Dims check_nll(const Dims& log_probs, const Tensor& target, const Tensor& weight,
               int64_t reduction) {
  const char* op = "nll_loss";
  check(log_probs.size() >= 1, op, ": the input has shape ", log_probs, ", (n, c, ...) is wanted");
  const Dims wanted = target_sizes(log_probs);
  check(target.sizes() == wanted, op, ": target has shape ", target.sizes(), ", an input of ",
        log_probs, " wants ", wanted);
  const int64_t classes = log_probs.size() == 1 ? log_probs[0] : log_probs[1];
  if (weight.defined())
    check(weight.dim() == 1 && weight.size(0) == classes, op, ": weight has shape ", weight.sizes(),
          ", (", classes, ",) is wanted");
  check(reduction >= 0 && reduction <= 2, op, ": reduction is ", reduction,
        ", 0, 1 or 2 is wanted");
  return reduction == 0 ? wanted : Dims{};
}

}  // namespace

std::array<Result, 2> native_nll_loss(const Tensor& log_probs, const Tensor& target,
                                      const Tensor& weight, int64_t reduction, int64_t) {
  const Options options = options_of(log_probs);
  return {Result{check_nll(log_probs.sizes(), target, weight, reduction), options},
          Result{{}, options}};
}

Result nll_loss_grad_log_probs(const Tensor& grad, const Tensor& target, const Tensor& weight,
                               const Tensor& total_weight, const Dims& size, int64_t reduction,
                               int64_t) {
  const char* op = "nll_loss_grad_log_probs";
  numel_of(size, op);
  const Dims wanted = check_nll(size, target, weight, reduction);
  check(grad.sizes() == wanted, op, ": grad has shape ", grad.sizes(), ", ", wanted, " is wanted");
  check(total_weight.dim() == 0, op, ": total_weight has shape ", total_weight.sizes(),
        ", () is wanted");
  return {size, options_of(grad)};
}

}  // namespace moonlet::shapes

// tensor/shapes/loss.cpp: argument checks and result shapes of losses.
#include <algorithm>

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
Dims check_nll(const char* op, const Dims& log_probs, const Tensor& target, const Tensor& weight,
               int64_t reduction) {
  check(log_probs.size() >= 1, op, ": the input has shape ", log_probs,
        ", (n, c, ...) is expected");
  const Dims wanted = target_sizes(log_probs);
  check(target.sizes() == wanted, op, ": target has shape ", target.sizes(), ", an input of ",
        log_probs, " wants ", wanted);
  const int64_t classes = log_probs.size() == 1 ? log_probs[0] : log_probs[1];
  if (weight.defined())
    check(weight.dim() == 1 && weight.size(0) == classes, op, ": weight has shape ", weight.sizes(),
          ", (", classes, ",) is expected");
  check(reduction >= 0 && reduction <= 2, op, ": reduction is ", reduction,
        ", 0, 1 or 2 is expected");
  return reduction == 0 ? wanted : Dims{};
}

}  // namespace

std::array<Result, 2> native_nll_loss(const Tensor& log_probs, const Tensor& target,
                                      const Tensor& weight, int64_t reduction, int64_t) {
  const Options options = options_of(log_probs);
  return {Result{check_nll("nll_loss", log_probs.sizes(), target, weight, reduction), options},
          Result{{}, options}};
}

Result nll_loss_grad_log_probs(const Tensor& grad, const Tensor& target, const Tensor& weight,
                               const Tensor& total_weight, const Dims& size, int64_t reduction,
                               int64_t) {
  const char* op = "nll_loss_grad_log_probs";
  numel_of(size, op);
  const Dims wanted = check_nll("nll_loss", size, target, weight, reduction);
  check(grad.sizes() == wanted, op, ": grad has shape ", grad.sizes(), ", ", wanted,
        " is expected");
  check(total_weight.dim() == 0, op, ": total_weight has shape ", total_weight.sizes(),
        ", () is expected");
  return {size, options_of(grad)};
}

namespace {
// What check_nll gives, and checks of what cross_entropy has besides.
Dims check_cross_entropy(const Tensor& x, const Tensor& target, const Tensor& weight,
                         int64_t reduction, double label_smoothing) {
  const char* op = "cross_entropy";
  const Dims sizes = check_nll(op, x.sizes(), target, weight, reduction);
  check(!weight.defined() || weight.dtype() == x.dtype(), op, ": weight is ",
        weight.defined() ? weight.dtype() : x.dtype(), " and the input ", x.dtype());
  check(label_smoothing >= 0 && label_smoothing <= 1, op, ": label_smoothing is ", label_smoothing,
        ", 0 to 1 is expected");
  return sizes;
}
}  // namespace

std::array<Result, 3> native_cross_entropy(const Tensor& x, const Tensor& target,
                                           const Tensor& weight, int64_t reduction, int64_t,
                                           double label_smoothing) {
  const Dims sizes = check_cross_entropy(x, target, weight, reduction, label_smoothing);
  const Options wide{compute_dtype(x.dtype()), x.device()};
  return {Result{sizes, options_of(x)}, Result{target_sizes(x.sizes()), wide}, Result{{}, wide}};
}

Result cross_entropy_grad_x(const Tensor& grad, const Tensor& x, const Tensor& target,
                            const Tensor& weight, const Tensor& logsumexp,
                            const Tensor& total_weight, int64_t reduction, int64_t,
                            double label_smoothing) {
  const char* op = "cross_entropy_grad_x";
  const Dims wanted = check_cross_entropy(x, target, weight, reduction, label_smoothing);
  check_shape(op, "grad", grad.sizes(), wanted);
  check_shape(op, "logsumexp", logsumexp.sizes(), target_sizes(x.sizes()));
  check_shape(op, "total_weight", total_weight.sizes(), {});
  for (const auto& [name, t] :
       {std::pair{"x", &x}, std::pair{"grad", &grad}, std::pair{"logsumexp", &logsumexp},
        std::pair{"total_weight", &total_weight}})
    check(is_floating(t->dtype()), op, ": ", name, " is ", t->dtype(),
          ", a floating dtype is expected");
  return like(x);
}

namespace {

using Lengths = std::vector<int64_t>;

// Throws unless the lengths fit log_probs (t, n, c) and the targets; the sizes of log_alpha.
Dims check_ctc(const char* op, const Tensor& log_probs, const Tensor& targets,
               const Lengths& input_lengths, const Lengths& target_lengths, int64_t blank) {
  check(log_probs.dim() == 3, op, ": log_probs has shape ", log_probs.sizes(),
        ", (t, n, c) is expected");
  const int64_t steps = log_probs.size(0), entries = log_probs.size(1), classes = log_probs.size(2);
  check(blank >= 0 && blank < classes, op, ": blank ", blank + 1, " is no class of 1 to ", classes);
  check(static_cast<int64_t>(input_lengths.size()) == entries &&
            static_cast<int64_t>(target_lengths.size()) == entries,
        op, ": ", input_lengths.size(), " input_lengths and ", target_lengths.size(),
        " target_lengths for ", entries, " entries");
  check(targets.dim() <= 2 && (targets.dim() != 2 || targets.size(0) == entries), op,
        ": targets has shape ", targets.sizes(), ", (", entries,
        ", s) or one dimension is expected");
  const int64_t room = targets.dim() == 2 ? targets.size(1) : targets.numel();
  int64_t longest = 0, left = room;
  for (size_t i = 0; i < input_lengths.size(); ++i) {
    check(input_lengths[i] >= 0 && input_lengths[i] <= steps, op, ": input length ",
          input_lengths[i], " for ", steps, " steps");
    check(target_lengths[i] >= 0 && target_lengths[i] <= (targets.dim() == 2 ? room : left), op,
          ": target length ", target_lengths[i], " in targets of shape ", targets.sizes());
    if (targets.dim() != 2) left -= target_lengths[i];
    longest = std::max(longest, target_lengths[i]);
  }
  check(targets.dim() == 2 || left == 0, op, ": targets has ", room, " labels, and the lengths of ",
        "the targets add up to ", room - left);
  return {entries, steps, 2 * longest + 1};
}

}  // namespace

std::array<Result, 2> native_ctc_loss(const Tensor& log_probs, const Tensor& targets,
                                      const Lengths& input_lengths, const Lengths& target_lengths,
                                      int64_t blank) {
  const Dims paths =
      check_ctc("ctc_loss", log_probs, targets, input_lengths, target_lengths, blank);
  return {Result{{log_probs.size(1)}, options_of(log_probs)},
          Result{paths, {compute_dtype(log_probs.dtype()), log_probs.device()}}};
}

Result ctc_loss_grad_log_probs(const Tensor& grad, const Tensor& log_probs, const Tensor& targets,
                               const Lengths& input_lengths, const Lengths& target_lengths,
                               const Tensor& result, const Tensor& log_alpha, int64_t blank) {
  const char* op = "ctc_loss_grad_log_probs";
  const Dims paths = check_ctc(op, log_probs, targets, input_lengths, target_lengths, blank);
  for (const Tensor* x : {&log_probs, &result})
    check(x->dtype() == grad.dtype(), op, ": log_probs and result must be ", grad.dtype(),
          " as grad, one is ", x->dtype());
  check(is_floating(log_alpha.dtype()), op, ": log_alpha is ", log_alpha.dtype(),
        ", a floating dtype is expected");
  check_shape(op, "grad", grad.sizes(), {log_probs.size(1)});
  check_shape(op, "result", result.sizes(), {log_probs.size(1)});
  check_shape(op, "log_alpha", log_alpha.sizes(), paths);
  return like(log_probs);
}

}  // namespace moonlet::shapes

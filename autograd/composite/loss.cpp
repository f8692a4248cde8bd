// autograd/composite/loss.cpp: losses made of other ops. A reduction is "mean", "sum" or "none".
#include "autograd/composite/loss.h"

#include "autograd/formulas/common.h"
#include "autograd/host_value.h"
#include "autograd/tape.h"
#include "autograd/uses_composite_loss.h"
#include "tensor/core/warning.h"

namespace moonlet {

using formulas::widened;

namespace losses {

Reduction reduction_of(const char* op, std::string_view name) {
  if (name == "mean") return kMean;
  if (name == "sum") return kSum;
  check(name == "none", op, ": reduction is \"", name,
        "\", \"mean\", \"sum\" or \"none\" is expected");
  return kNone;
}

Tensor reduced(const char* op, const Tensor& loss, std::string_view reduction, const Tensor& x,
               const Tensor& target) {
  const DType own = promote(x.dtype(), target.dtype(), op);
  const auto narrowed = [&](const Tensor& y) {
    return is_floating(own) && loss.dtype() != own ? to(y, own) : y;
  };
  switch (reduction_of(op, reduction)) {
    case kMean: return narrowed(mean(loss));
    case kSum: return narrowed(sum(loss));
    default: return narrowed(loss);
  }
}

void warn_of_shapes(const char* op, const Tensor& x, const Tensor& target) {
  if (x.sizes() == target.sizes()) [[likely]]
    return;
  warn_once(op, text(op, ": the target has shape ", target.sizes(), " and the input ", x.sizes(),
                     "; they are broadcast, which likely gives a wrong loss"));
}

}  // namespace losses

using namespace losses;  // NOLINT(google-build-using-namespace)

namespace {

Tensor total(const Tensor& x) { return sum(x); }

// The loss of each element times its weight; `by_weight` says that a mean divides by the weights'
// sum.
Tensor weighted(const char* op, const Tensor& loss, const Tensor& weight, bool by_weight,
                std::string_view reduction, const Tensor& x, const Tensor& target) {
  if (!weight.defined()) return reduced(op, loss, reduction, x, target);
  check(weight.sizes() == x.sizes(), op, ": the weight has shape ", weight.sizes(),
        ", that of the input, ", x.sizes(), ", is expected");
  const Tensor factor = widened(weight), each = mul(loss, factor);
  if (!by_weight || reduction_of(op, reduction) != kMean)
    return reduced(op, each, reduction, x, target);
  return reduced(op, div(total(each), total(factor)), "none", x, target);
}

void check_shapes(const char* op, const Tensor& x, const Tensor& target, const Tensor& weight) {
  check(x.sizes() == target.sizes(), op, ": the target has shape ", target.sizes(),
        ", that of the input, ", x.sizes(), ", is expected");
  check(!weight.defined() || broadcast(weight.sizes(), x.sizes(), op) == x.sizes(), op,
        ": the weight has shape ", weight.defined() ? weight.sizes() : Dims(),
        ", one that broadcasts to the input's, ", x.sizes(), ", is expected");
}

// NaN is no probability.
void check_probabilities(const char* op, const char* argument, const Tensor& x) {
  if (x.numel() == 0 || !has_values(x)) return;
  const GradModeGuard unrecorded(false);
  if (!x.device().is_cpu())
    return expect_all(logical_and(ge(amin(x), 0.0), le(amax(x), 1.0)),
                      text(op, ": ", argument, " has elements outside 0 to 1"));
  const double least = host_value<double>(amin(x)), most = host_value<double>(amax(x));
  check(least >= 0 && most <= 1, op, ": ", argument, " has elements from ", least, " to ", most,
        ", all must be from 0 to 1");
}

// v (c) in the shape that multiplies a (n, c, ...) or (c) tensor of that rank.
Tensor along_classes(const Tensor& v, int rank) {
  if (rank == 1) return v;
  Dims sizes = Dims::filled(rank, 1);
  sizes[1] = v.size(0);
  return reshape(v, sizes);
}

int class_dim(const Tensor& x) { return x.dim() == 1 ? 0 : 1; }

// Cross entropy against class probabilities.
Tensor soft_cross_entropy(const Tensor& log_probs, const Tensor& target, const Tensor& weight,
                          Reduction reduction, double smoothing) {
  check(target.sizes() == log_probs.sizes(), "cross_entropy: target has shape ", target.sizes(),
        ", class probabilities for an input of ", log_probs.sizes(), " want the same");
  const int dim = class_dim(log_probs);
  const double classes = static_cast<double>(log_probs.size(dim));
  Tensor wanted = smoothing > 0 ? add(mul(target, 1 - smoothing), smoothing / classes) : target;
  if (weight.defined()) wanted = mul(wanted, along_classes(weight, log_probs.dim()));
  const Tensor loss = neg(sum(mul(log_probs, wanted), {dim}, false, std::nullopt));
  if (reduction == kNone) return loss;
  return reduction == kSum ? total(loss) : mean(loss, {}, false, std::nullopt);
}

}  // namespace

Tensor nll_loss_composite(const Tensor& log_probs, const Tensor& target, const Tensor& weight,
                          std::string_view reduction, int64_t ignore_index) {
  return std::get<0>(native_nll_loss(log_probs, target, weight, reduction_of("nll_loss", reduction),
                                     ignore_index));
}

Tensor cross_entropy_composite(const Tensor& x, const Tensor& given_target, const Tensor& weight,
                               std::string_view reduction_name, int64_t ignore_index,
                               double label_smoothing) {
  const Reduction reduction = reduction_of("cross_entropy", reduction_name);
  check(x.dim() >= 1, "cross_entropy: the input has shape (), (n, c, ...) is expected");
  check(label_smoothing >= 0 && label_smoothing <= 1, "cross_entropy: label_smoothing is ",
        label_smoothing, ", 0 to 1 is expected");
  const Tensor target =
      given_target.dtype() == DType::UInt8 ? to(given_target, DType::Int64) : given_target;
  if (is_floating(target.dtype()))
    return soft_cross_entropy(log_softmax(x, class_dim(x)), target, weight, reduction,
                              label_smoothing);
  return std::get<0>(
      native_cross_entropy(x, target, weight, reduction, ignore_index, label_smoothing));
}

Tensor linear_cross_entropy_composite(const Tensor& x, const Tensor& linear_weight,
                                      const Tensor& target, const Tensor& linear_bias,
                                      const Tensor& weight, std::string_view reduction,
                                      int64_t ignore_index, double label_smoothing) {
  const char* op = "linear_cross_entropy";
  check(x.dim() >= 1 && linear_weight.dim() >= 2, op, ": the input has shape ", x.sizes(),
        " and linear_weight ", linear_weight.sizes(),
        ", (n, features) and (c, ..., features) are expected");
  const int64_t features = linear_weight.size(-1);
  const Tensor bias =
      linear_bias.defined() ? reshape(linear_bias, {linear_bias.numel()}) : Tensor();
  const Tensor rows =
      reshape(linear_weight, {linear_weight.numel() / std::max<int64_t>(features, 1), features});
  const Tensor flat = linear(x, rows, bias);
  Dims sizes = x.sizes();
  sizes.erase(x.dim() - 1);
  for (int i = 0; i + 1 < linear_weight.dim(); ++i) sizes.push_back(linear_weight.size(i));
  return cross_entropy(reshape(flat, sizes), target, weight, reduction, ignore_index,
                       label_smoothing);
}

namespace {
// |x - target|, of integers and complex numbers too.
Tensor distances(const Tensor& x, const Tensor& target) {
  if (is_floating(promote(x.dtype(), target.dtype(), "l1_loss"))) return l1_loss_each(x, target);
  return abs(sub(x, target));
}
}  // namespace

Tensor mse_loss_composite(const Tensor& x, const Tensor& target, std::string_view reduction,
                          const Tensor& weight) {
  warn_of_shapes("mse_loss", x, target);
  return weighted("mse_loss", mse_loss_each(x, target), weight, true, reduction, x, target);
}

Tensor l1_loss_composite(const Tensor& x, const Tensor& target, std::string_view reduction,
                         const Tensor& weight) {
  warn_of_shapes("l1_loss", x, target);
  return weighted("l1_loss", distances(x, target), weight, true, reduction, x, target);
}

Tensor smooth_l1_loss_composite(const Tensor& x, const Tensor& target, std::string_view reduction,
                                double beta) {
  check(beta >= 0, "smooth_l1_loss: beta is ", beta, ", at least 0 is expected");
  warn_of_shapes("smooth_l1_loss", x, target);
  const Tensor loss = beta == 0 ? distances(x, target) : smooth_l1_loss_each(x, target, beta);
  return reduced("smooth_l1_loss", loss, reduction, x, target);
}

Tensor huber_loss_composite(const Tensor& x, const Tensor& target, std::string_view reduction,
                            double delta, const Tensor& weight) {
  check(delta > 0, "huber_loss: delta is ", delta, ", a positive number is expected");
  warn_of_shapes("huber_loss", x, target);
  return weighted("huber_loss", huber_loss_each(x, target, delta), weight, false, reduction, x,
                  target);
}

Tensor binary_cross_entropy_composite(const Tensor& given, const Tensor& target,
                                      const Tensor& weight, std::string_view reduction) {
  const char* op = "binary_cross_entropy";
  check_shapes(op, given, target, weight);
  check_probabilities(op, "the input", given);
  check_probabilities(op, "the target", target);
  Tensor loss = binary_cross_entropy_each(given, target);
  if (weight.defined()) loss = mul(loss, weight);
  return reduced(op, loss, reduction, given, target);
}

Tensor binary_cross_entropy_with_logits_composite(const Tensor& given, const Tensor& target,
                                                  const Tensor& weight, const Tensor& pos_weight,
                                                  std::string_view reduction) {
  const char* op = "binary_cross_entropy_with_logits";
  check_shapes(op, given, target, weight);
  check(!pos_weight.defined() || broadcast(pos_weight.sizes(), given.sizes(), op) == given.sizes(),
        op, ": pos_weight has shape ", pos_weight.defined() ? pos_weight.sizes() : Dims(),
        ", one that broadcasts to the input's, ", given.sizes(), ", is expected");
  Tensor loss;
  if (pos_weight.defined()) {
    const Tensor x = widened(given);
    const Tensor factor = add(mul(sub(widened(pos_weight), 1.0), target), 1.0);
    loss = sub(mul(sub(1.0, widened(target)), x), mul(logsigmoid(x), factor));
  } else {
    loss = binary_cross_entropy_with_logits_each(given, target);
  }
  if (weight.defined()) loss = mul(loss, weight);
  return reduced(op, loss, reduction, given, target);
}

namespace {
// The mean of the losses, each divided by the length of its target.
Tensor mean_by_length(const Tensor& loss, const std::vector<int64_t>& lengths) {
  Tensor each = empty({static_cast<int64_t>(lengths.size())}, Options{DType::Float64, {}});
  for (size_t i = 0; i < lengths.size(); ++i)
    each.data<double>()[i] = static_cast<double>(std::max<int64_t>(lengths[i], 1));
  const Tensor wide = widened(loss);
  return to(mean(div(wide, to(each, wide.dtype(), loss.device()))), loss.dtype());
}
}  // namespace

Tensor ctc_loss_composite(const Tensor& log_probs, const Tensor& targets,
                          const std::vector<int64_t>& input_lengths,
                          const std::vector<int64_t>& target_lengths, int64_t blank,
                          std::string_view reduction_name, bool zero_infinity) {
  const Reduction reduction = reduction_of("ctc_loss", reduction_name);
  const bool single = log_probs.dim() == 2;
  const Tensor batch = single ? unsqueeze(log_probs, 1) : log_probs;
  const Tensor labels = single ? reshape(targets, {1, targets.numel()}) : targets;
  Tensor loss = std::get<0>(native_ctc_loss(batch, labels, input_lengths, target_lengths, blank));
  if (zero_infinity) loss = masked_fill(loss, isinf(loss), 0.0);
  if (reduction == kMean) return mean_by_length(loss, target_lengths);
  if (reduction == kSum) return total(loss);
  return single ? reshape(loss, {}) : loss;
}

Tensor kl_div_composite(const Tensor& given, const Tensor& given_target, std::string_view reduction,
                        bool log_target) {
  const auto of_logarithms = [](const Tensor& x, const Tensor& target) {
    return mul(exp(target), sub(target, x));
  };
  const Tensor loss = log_target ? of_logarithms(widened(given), widened(given_target))
                                 : kl_div_each(given, given_target);
  if (reduction == "batchmean") {
    check(loss.dim() >= 1, "kl_div: \"batchmean\" wants at least one dimension");
    return reduced("kl_div", div(total(loss), static_cast<double>(loss.size(0))), "none", given,
                   given_target);
  }
  if (reduction == "mean")
    warn_once("kl_div",
              "kl_div: \"mean\" divides by the number of elements; \"batchmean\", by the "
              "size of the batch, is the divergence");
  return reduced("kl_div", loss, reduction, given, given_target);
}

}  // namespace moonlet

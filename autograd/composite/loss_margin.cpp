// autograd/composite/loss_margin.cpp: losses of margins, of pairs and of distributions.
#include <cmath>

#include "autograd/composite/loss.h"
#include "autograd/formulas/common.h"
#include "autograd/host_value.h"
#include "autograd/tape.h"
#include "autograd/uses_composite_loss_margin.h"

namespace moonlet {

using formulas::widened;
using losses::reduced;

namespace {

// max(x, 0); its gradient at 0 is 0.
Tensor hinge(const Tensor& x) { return relu(x); }

void check_same_rank(const char* op, const Tensor& a, const Tensor& b, const Tensor& c) {
  check(a.dim() == b.dim() && b.dim() == c.dim(), op, ": the inputs have shapes ", a.sizes(), ", ",
        b.sizes(), ", ", c.sizes(), ", as many dimensions each are expected");
}

// The dtype that a loss of three inputs has.
const Tensor& own_of(const Tensor& a, const Tensor& b) {
  return promote(a.dtype(), b.dtype()) == a.dtype() ? a : b;
}

// Scores (c) or (n, c) as (n, c).
Tensor as_rows(const Tensor& x) { return x.dim() < 2 ? reshape(x, {1, x.numel()}) : x; }

}  // namespace

Tensor margin_ranking_loss_composite(const Tensor& input1, const Tensor& input2,
                                     const Tensor& target, double margin,
                                     std::string_view reduction) {
  const char* op = "margin_ranking_loss";
  check_same_rank(op, input1, input2, target);
  const Tensor ranked = mul(widened(target), sub(widened(input1), widened(input2)));
  return reduced(op, hinge(sub(margin, ranked)), reduction, own_of(input1, input2), target);
}

Tensor hinge_embedding_loss_composite(const Tensor& x, const Tensor& target, double margin,
                                      std::string_view reduction) {
  const Tensor wide = widened(x);
  const Tensor apart = where(ne(target, 1.0), hinge(sub(margin, wide)), 0.0);
  const Tensor near = where(ne(target, -1.0), wide, 0.0);
  return reduced("hinge_embedding_loss", add(apart, near), reduction, x, x);
}

Tensor soft_margin_loss_composite(const Tensor& x, const Tensor& target,
                                  std::string_view reduction) {
  return reduced("soft_margin_loss", soft_margin_loss_each(x, target), reduction, x, target);
}

Tensor cosine_embedding_loss_composite(const Tensor& input1, const Tensor& input2,
                                       const Tensor& target, double margin,
                                       std::string_view reduction) {
  const char* op = "cosine_embedding_loss";
  const bool single = target.dim() == 0;
  check(target.dim() <= 1, op, ": the target has shape ", target.sizes(),
        ", (n) or () is expected");
  check(input1.dim() == target.dim() + 1 && input2.dim() == input1.dim(), op,
        ": the inputs have shapes ", input1.sizes(), " and ", input2.sizes(), ", for a target of ",
        target.sizes(), " (", single ? "" : "n, ", "features) is expected");
  const Tensor a = widened(input1), b = widened(input2);
  const Dims dim{a.dim() - 1};
  // What the squared lengths grow by, so that nothing is divided by 0.
  const double eps = 1e-12;
  const Tensor lengths = mul(add(sum(mul(a, a), dim), eps), add(sum(mul(b, b), dim), eps));
  const Tensor cosine = div(sum(mul(a, b), dim), sqrt(lengths));
  const Tensor same = where(eq(target, 1.0), sub(1.0, cosine), 0.0);
  const Tensor apart = where(eq(target, -1.0), hinge(sub(cosine, margin)), 0.0);
  const Tensor& own = own_of(input1, input2);
  return reduced(op, add(same, apart), reduction, own, own);
}

Tensor triplet_margin_loss_composite(const Tensor& anchor, const Tensor& positive,
                                     const Tensor& negative, double margin, double p, double eps,
                                     bool swap, std::string_view reduction) {
  const char* op = "triplet_margin_loss";
  check_same_rank(op, anchor, positive, negative);
  check(margin > 0, op, ": margin is ", margin, ", a positive number is expected");
  const Tensor a = widened(anchor), near = widened(positive), far = widened(negative);
  Tensor away = pairwise_distance(a, far, p, eps, false);
  if (swap) away = minimum(away, pairwise_distance(near, far, p, eps, false));
  const Tensor loss = hinge(add(sub(pairwise_distance(a, near, p, eps, false), away), margin));
  return reduced(op, loss, reduction, own_of(anchor, positive), negative);
}

Tensor multi_margin_loss_composite(const Tensor& x, const Tensor& target, int64_t p, double margin,
                                   const Tensor& weight, std::string_view reduction) {
  const char* op = "multi_margin_loss";
  check(p == 1 || p == 2, op, ": p is ", p, ", 1 or 2 is expected");
  check(x.dim() == 1 || x.dim() == 2, op, ": the input has shape ", x.sizes(),
        ", (n, c) or (c) is expected");
  const Tensor scores = as_rows(widened(x));
  const int64_t n = scores.size(0), classes = scores.size(1);
  check(classes > 0 && target.dim() <= 1 && target.numel() == n, op, ": the target has shape ",
        target.sizes(), " for an input of ", x.sizes());
  check(!weight.defined() || (weight.dim() == 1 && weight.size(0) == classes), op,
        ": the weight has shape ", weight.defined() ? weight.sizes() : Dims(), ", (", classes,
        ",) is expected");
  const Tensor at = reshape(target, {n, 1});
  Tensor each = hinge(add(sub(scores, gather(scores, 1, at)), margin));
  if (p == 2) each = square(each);
  if (weight.defined())
    each = mul(each, reshape(index_select(widened(weight), 0, reshape(target, {n})), {n, 1}));
  each = masked_fill(each, eq(at, arange(1, classes, 1, DType::Int64, x.device())), 0.0);
  const Tensor loss = div(sum(each, {1}), static_cast<double>(classes));
  return reduced(op, x.dim() == 1 ? reshape(loss, {}) : loss, reduction, x, x);
}

// The labels of a row are the first of its entries: up to one below 1.
Tensor multilabel_margin_loss_composite(const Tensor& x, const Tensor& target,
                                        std::string_view reduction) {
  const char* op = "multilabel_margin_loss";
  check(x.dim() <= 2 && x.sizes() == target.sizes(), op, ": the target has shape ", target.sizes(),
        " for an input of ", x.sizes(), ", (n, c) or (c) of both is expected");
  const Tensor scores = as_rows(widened(x)), given = as_rows(target);
  const int64_t n = scores.size(0), classes = scores.size(1);
  const Tensor is_before_end = eq(cumsum(lt(given, 1), 1), 0);
  const Tensor counts = sum(is_before_end, {1});
  const int64_t most = n == 0 ? 0 : host_value<int64_t>(amax(counts));
  const Tensor is_label = narrow(is_before_end, 1, 0, most);
  const Tensor labels = where(is_label, narrow(given, 1, 0, most), 1);
  const Tensor is_member =
      scatter_add(zeros({n, classes}, {DType::Bool, x.device()}), 1, labels, is_label);
  // (n, labels, classes): a label's score against that of each class that is none.
  const Tensor own = reshape(gather(scores, 1, labels), {n, most, 1});
  const Tensor over = hinge(add(sub(reshape(scores, {n, 1, classes}), own), 1.0));
  const Tensor counted = gt(reshape(is_label, {n, most, 1}), reshape(is_member, {n, 1, classes}));
  const Tensor each = sum(where(counted, over, 0.0), {1, 2});
  const Tensor loss = div(each, static_cast<double>(std::max<int64_t>(classes, 1)));
  return reduced(op, x.dim() < 2 ? reshape(loss, {}) : loss, reduction, x, x);
}

Tensor multilabel_soft_margin_loss_composite(const Tensor& x, const Tensor& target,
                                             const Tensor& weight, std::string_view reduction) {
  const char* op = "multilabel_soft_margin_loss";
  check(x.dim() >= 1, op, ": the input has shape (), (n, c) is expected");
  Tensor each = binary_cross_entropy_with_logits_each(x, target);
  if (weight.defined()) each = mul(each, weight);
  // The input says how many classes there are, also where the target has been broadcast to more.
  const double classes = static_cast<double>(x.size(-1));
  return reduced(op, div(sum(each, {each.dim() - 1}), classes), reduction, x, target);
}

Tensor poisson_nll_loss_composite(const Tensor& x, const Tensor& given, bool log_input, bool full,
                                  double eps, std::string_view reduction) {
  const auto of_rates = [&](const Tensor& rates) {
    return sub(rates, mul(widened(given), log(add(rates, eps))));
  };
  Tensor loss = log_input ? poisson_nll_loss_each(x, given) : of_rates(widened(x));
  if (full) {
    const Tensor target = widened(given);
    // Stirling's approximation of log(target!), for those above 1.
    const Tensor above = gt(target, 1.0), safe = where(above, target, 1.0);
    const Tensor stirling =
        add(sub(mul(safe, log(safe)), safe), mul(log(mul(safe, 2 * M_PI)), 0.5));
    loss = add(loss, where(above, stirling, 0.0));
  }
  return reduced("poisson_nll_loss", loss, reduction, x, given);
}

namespace {
// var in a shape that broadcasts with x's.
Tensor fitted_variance(const char* op, const Tensor& var, const Tensor& x) {
  if (var.sizes() == x.sizes()) return var;
  Dims shorter = x.sizes();
  if (x.dim() > 0) shorter.erase(x.dim() - 1);
  if (var.sizes() == shorter) return unsqueeze(var, var.dim());
  int differing = 0;
  for (int i = 0; var.dim() == x.dim() && i < x.dim(); ++i)
    if (var.size(i) != x.size(i)) differing += var.size(i) == 1 ? 1 : 2;
  check(var.dim() == x.dim() && differing == 1, op, ": var has shape ", var.sizes(),
        " for an input of ", x.sizes());
  return var;
}

// var not below eps, limited without being differentiated: its gradient is that of the variance as
// it is used.
Tensor limited_variance(const char* op, const Tensor& var, double eps) {
  if (var.numel() == 0) return var;
  const Tensor more = [&]() -> Tensor {
    const NoGrad no_grad;
    if (!has_values(var)) return sub(clamp_min(var, eps), var);
    if (!var.device().is_cpu() && var.dtype() != DType::Bool) {
      expect_all(logical_not(lt(amin(var), 0.0)), text(op, ": var has negative elements"));
      return sub(clamp_min(var, eps), var);
    }
    const double least = host_value<double>(amin(var));
    check(least >= 0 || !host_value<bool>(any(lt(var, 0.0))), op, ": var has negative elements");
    return least >= eps ? Tensor() : sub(clamp_min(var, eps), var);
  }();
  return more.defined() ? add(var, detach(more)) : var;
}
}  // namespace

Tensor gaussian_nll_loss_composite(const Tensor& given, const Tensor& target, const Operand& var,
                                   bool full, double eps, std::string_view reduction) {
  const char* op = "gaussian_nll_loss";
  const Tensor x = widened(given);
  const DType dtype = is_floating(x.dtype()) ? x.dtype() : execution.default_dtype;
  Tensor variance = var.is_tensor() ? fitted_variance(op, widened(var.tensor()), given)
                                    : moonlet::full(x.sizes(), var.scalar(), {dtype, x.device()});
  variance = limited_variance(op, variance, eps);
  Tensor loss = mul(add(log(variance), div(mse_loss_each(x, target), variance)), 0.5);
  if (full) loss = add(loss, 0.5 * std::log(2 * M_PI));
  return reduced(op, loss, reduction, given, target);
}

}  // namespace moonlet

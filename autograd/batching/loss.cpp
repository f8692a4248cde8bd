// autograd/batching/loss.cpp: losses of a batch: the losses of all samples at once, not reduced,
// then reduced sample by sample.
#include "autograd/composite/loss.h"
#include "autograd/batching.h"
#include "autograd/tape.h"
#include "autograd/uses_batching_loss.h"
#include "tensor/shapes_loss.h"

namespace moonlet::batching {

using losses::kMean, losses::kNone;

namespace {

Tensor summed(const Tensor& x, const Dims& dims) { return dims.empty() ? x : sum(x, dims); }

// Those of a sample's losses, of (samples, ...).
Dims loss_dims(const Tensor& losses) {
  Dims out;
  for (int i = 1; i < losses.dim(); ++i) out.push_back(i);
  return out;
}

// The samples' images in one batch; of single vectors the samples are the batch.
Tensor joined(const Tensor& x, bool single) { return single ? x : flatten(x, 0, 1); }

// The gradient of each loss, of the targets' sizes, where `grad` is that of the reduced ones.
Tensor grad_of_each(Tensor grad, int64_t reduction, const Tensor& total_weight,
                    const Tensor& target) {
  if (reduction == kMean) grad = div(grad, total_weight);
  if (reduction == kNone) return grad;
  while (grad.dim() < target.dim()) grad = unsqueeze(grad, -1);
  return moonlet::expand(grad, target.sizes());
}

// The weight of each target's class, (samples, ...), for the weights of each sample, which are an
// argument; 0 of those to be ignored. What the targets are taken for then, `safe`, are classes.
Tensor weights_of_targets(const BatchCall& call, int weight, const Tensor& target, int64_t ignored,
                          Tensor& safe) {
  const Tensor valid = ne(target, ignored);
  safe = where(valid, target, int64_t{1});
  const Tensor each = gather(detach(call.front(weight)), 1, reshape(safe, {call.size(), -1}));
  return where(valid, reshape(each, target.sizes()), 0.0);
}

}  // namespace

// `log_probs, target, weight, reduction, ignore_index`: not reduced for all, then sample by sample.
void native_nll_loss(BatchCall& call) {
  const bool own = call.has_tensor(2) && call.batched(2);
  const bool single = call.rank(0) == 1;
  const int64_t reduction = std::get<int64_t>(call.arguments[3]);
  const int64_t ignored = std::get<int64_t>(call.arguments[4]);
  shapes::native_nll_loss(call.sample(0), call.sample(1),
                          call.has_tensor(2) ? call.sample(2) : Tensor(), reduction, ignored);
  const Tensor weight = call.has_tensor(2) && !own ? call.tensor(2) : Tensor();
  Tensor targets = call.front(1), factors;
  if (own) factors = weights_of_targets(call, 2, call.front(1), ignored, targets);
  const Tensor log_probs = joined(call.front(0), single), target = joined(targets, single);
  const auto losses = [&](const Tensor& x) {
    const Tensor y = std::get<0>(moonlet::native_nll_loss(x, target, weight, kNone, ignored));
    const Tensor each = single ? y : unflatten(y, 0, {call.size(), -1});
    return own ? mul(each, factors) : each;
  };
  Tensor y = losses(log_probs);
  const Dims dims = loss_dims(y);
  const Tensor total = summed(losses(full_like(log_probs, -1.0)), dims);
  if (reduction != kNone) y = summed(y, dims);
  if (reduction == kMean) y = div(y, total);
  call.results = {y, total};
}

// `grad, target, weight, total_weight, size, reduction, ignore_index`
void nll_loss_grad_log_probs(BatchCall& call) {
  const bool own = call.has_tensor(2) && call.batched(2);
  Dims size = std::get<Dims>(call.arguments[4]);
  const bool single = size.size() == 1;
  const int64_t reduction = std::get<int64_t>(call.arguments[5]);
  const int64_t ignored = std::get<int64_t>(call.arguments[6]);
  Tensor target = call.front(1);
  Tensor grad = grad_of_each(call.front(0), reduction, call.front(3), target);
  if (own) grad = mul(grad, weights_of_targets(call, 2, call.front(1), ignored, target));
  if (single)
    size.insert(0, call.size());
  else
    size[0] *= call.size();
  const Tensor weight = call.has_tensor(2) && !own ? call.tensor(2) : Tensor();
  const Tensor one = full({}, 1.0, options_of(grad));
  const Tensor y = moonlet::nll_loss_grad_log_probs(joined(grad, single), joined(target, single),
                                                    weight, one, size, kNone, ignored);
  call.results = {single ? y : unflatten(y, 0, {call.size(), -1})};
}

namespace {

// What native_cross_entropy and its gradient are given, for all samples.
struct Entropy {
  bool own, single;  // a weight of each sample; samples of a single entry
  int dim;           // of the classes, behind the samples
  int64_t reduction, ignored;
  double smoothing;
  Tensor x, target, safe, factors, weight;  // factors: the weight of each target's class

  // Of the call's arguments x is the `first`, and the last three are numbers.
  Entropy(const BatchCall& call, int first)
      : own(call.has_tensor(first + 2) && call.batched(first + 2)),
        single(call.rank(first) == 1),
        dim(single ? 1 : 2),
        reduction(std::get<int64_t>(call.arguments[call.count() - 3])),
        ignored(std::get<int64_t>(call.arguments[call.count() - 2])),
        smoothing(std::get<double>(call.arguments[call.count() - 1])),
        x(call.front(first)),
        target(call.front(first + 1)),
        safe(target) {
    const DType compute = compute_dtype(x.dtype());
    if (call.has_tensor(first + 2)) {
      factors = to(weights_of_targets(call, first + 2, target, ignored, safe), compute);
      if (!own) weight = call.tensor(first + 2);
    } else {
      factors = to(ne(target, ignored), compute);
    }
  }
  // Weights of each sample beside x.
  Tensor wide_weight(const Tensor& each) const {
    Dims sizes = Dims::filled(x.dim(), 1);
    sizes[0] = each.size(0);
    sizes[dim] = each.size(1);
    return reshape(each, sizes);
  }
  double share() const { return smoothing / static_cast<double>(x.size(dim)); }
  Tensor used() const { return ne(target, ignored); }
};

// The losses by weights of each sample.
Tensor own_losses(const Entropy& e, const Tensor& weight, const Tensor& sums) {
  const Tensor log_probs = sub(e.x, unsqueeze(sums, e.dim));
  const Tensor chosen = squeeze(gather(log_probs, e.dim, unsqueeze(e.safe, e.dim)), {e.dim});
  const Tensor every = sum(mul(log_probs, e.wide_weight(weight)), {e.dim});
  const Tensor y = add(mul(mul(chosen, e.factors), 1 - e.smoothing), mul(every, e.share()));
  return neg(where(e.used(), y, 0.0));
}

// And their gradient, where each loss has that of `grad`.
Tensor own_gradients(const Entropy& e, const Tensor& weight, const Tensor& sums,
                     const Tensor& grad) {
  const Tensor g = where(e.used(), grad, 0.0), wide = e.wide_weight(weight);
  const Tensor hit = mul(mul(g, e.factors), 1 - e.smoothing);
  const Tensor every = unsqueeze(mul(g, e.share()), e.dim);
  const Tensor whole = add(unsqueeze(hit, e.dim), mul(every, sum(wide, {e.dim}, true)));
  const Tensor y = sub(mul(exp(sub(e.x, unsqueeze(sums, e.dim))), whole), mul(every, wide));
  return scatter_add(y, e.dim, unsqueeze(e.safe, e.dim), neg(to(unsqueeze(hit, e.dim), y.dtype())));
}

}  // namespace

// `x, target, weight, reduction, ignore_index, label_smoothing`
void native_cross_entropy(BatchCall& call) {
  shapes::native_cross_entropy(
      call.sample(0), call.sample(1), call.has_tensor(2) ? call.sample(2) : Tensor(),
      std::get<int64_t>(call.arguments[3]), 0, std::get<double>(call.arguments[5]));
  const Entropy e(call, 0);
  Tensor y, sums;
  if (e.own) {
    sums = to(logsumexp(e.x, {e.dim}), e.factors.dtype());
    y = own_losses(e, detach(call.front(2)), sums);
  } else {
    const auto all = moonlet::native_cross_entropy(
        joined(e.x, e.single), joined(e.target, e.single), e.weight, kNone, e.ignored, e.smoothing);
    const auto apart = [&](const Tensor& t) {
      return e.single ? t : unflatten(t, 0, {call.size(), -1});
    };
    y = apart(std::get<0>(all)), sums = apart(std::get<1>(all));
  }
  const Dims dims = loss_dims(y);
  const Tensor total = summed(e.factors, dims);
  if (e.reduction != kNone) y = summed(y, dims);
  if (e.reduction == kMean) y = div(y, total);
  call.results = {to(y, e.x.dtype()), sums, total};
}

// `grad, x, target, weight, logsumexp, total_weight, reduction, ignore_index, label_smoothing`
void cross_entropy_grad_x(BatchCall& call) {
  const Entropy e(call, 1);
  const Tensor sums = call.front(4);
  const Tensor grad = grad_of_each(call.front(0), e.reduction, call.front(5), e.target);
  Tensor y;
  if (e.own) {
    y = own_gradients(e, detach(call.front(3)), sums, grad);
  } else {
    const Tensor one = full({}, 1.0, options_of(sums));
    y = moonlet::cross_entropy_grad_x(joined(grad, e.single), joined(e.x, e.single),
                                      joined(e.target, e.single), e.weight, joined(sums, e.single),
                                      one, kNone, e.ignored, e.smoothing);
    if (!e.single) y = unflatten(y, 0, {call.size(), -1});
  }
  call.results = {to(y, e.x.dtype())};
}

namespace {

// `log_probs` (samples, t, n, c) as (t, samples * n, c), and the lengths of all entries.
void join_entries(BatchCall& call, int log_probs, int lengths) {
  call.put(log_probs, flatten(transpose(call.front(log_probs), 0, 1), 1, 2));
  const int targets = log_probs + 1;
  call.put(targets, flatten(call.front(targets), 0, 1));
  for (int i = lengths; i < lengths + 2; ++i) {
    auto& each = std::get<std::vector<int64_t>>(call.arguments[i]);
    const std::vector<int64_t> one = each;
    for (int64_t k = 1; k < call.size(); ++k) each.insert(each.end(), one.begin(), one.end());
  }
}

}  // namespace

// `log_probs, targets, input_lengths, target_lengths, blank`
void native_ctc_loss(BatchCall& call) {
  join_entries(call, 0, 2);
  call.call();
  for (BoxedValue& value : call.results)
    value = unflatten(std::get<Tensor>(value), 0, {call.size(), -1});
}

// `grad, log_probs, targets, input_lengths, target_lengths, result, log_alpha, blank`
void ctc_loss_grad_log_probs(BatchCall& call) {
  join_entries(call, 1, 3);
  for (const int i : {0, 5, 6}) call.put(i, flatten(call.front(i), 0, 1));
  call.call();
  const Tensor y = std::get<Tensor>(call.results[0]);
  call.results[0] = transpose(unflatten(y, 1, {call.size(), -1}), 0, 1);
}

}  // namespace moonlet::batching

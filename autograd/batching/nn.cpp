// autograd/batching/nn.cpp: convolutions, normalisation, embeddings and losses of a batch.
#include "autograd/batching.h"
#include "autograd/composite/loss.h"
#include "autograd/uses_batching_nn.h"

namespace moonlet::batching {

using losses::kMean, losses::kNone;

namespace {

// (samples, images, channels, ...) as (images, samples * channels, ...): each sample has groups of
// its own.
Tensor by_channels(const Tensor& x) { return flatten(transpose(x, 0, 1), 1, 2); }
Tensor from_channels(const Tensor& y, int64_t samples) {
  return transpose(unflatten(y, 1, {samples, -1}), 0, 1);
}

int64_t& groups_of(BatchCall& call) { return std::get<int64_t>(call.arguments[call.count() - 1]); }

// `x, weight, bias` with a weight for each sample.
void conv_by_groups(BatchCall& call, bool transposed) {
  call.put(0, by_channels(call.front(0)));
  const Tensor weight = call.front(1);
  call.put(1, flatten(weight, 0, 1));
  if (call.has_tensor(2)) call.put(2, flatten(call.front(2), 0, 1));
  groups_of(call) *= call.size();
  if (transposed) std::get<Dims>(call.arguments[3])[1] *= call.size();
  call.call();
  call.results[0] = from_channels(std::get<Tensor>(call.results[0]), call.size());
}

void conv_by_images(BatchCall& call, bool transposed) {
  call.put(0, flatten(call.front(0), 0, 1));
  if (transposed) std::get<Dims>(call.arguments[3])[0] *= call.size();
  call.call();
  call.results[0] = unflatten(std::get<Tensor>(call.results[0]), 0, {call.size(), -1});
}

void conv(BatchCall& call, bool transposed) {
  const bool own_weights = call.batched(1) || (call.has_tensor(2) && call.batched(2));
  own_weights ? conv_by_groups(call, transposed) : conv_by_images(call, transposed);
}

}  // namespace

void native_conv(BatchCall& call) { conv(call, false); }
void native_conv_transpose(BatchCall& call) { conv(call, true); }

void native_conv_grad_weight(BatchCall& call) {
  call.put(0, by_channels(call.front(0)));
  call.put(1, by_channels(call.front(1)));
  std::get<Dims>(call.arguments[2])[0] *= call.size();
  groups_of(call) *= call.size();
  call.call();
  call.results[0] = unflatten(std::get<Tensor>(call.results[0]), 0, {call.size(), -1});
}

// `x, normalized_shape, weight, bias, eps`; weights of each sample are applied afterwards.
void native_layer_norm(BatchCall& call) {
  const int rank = call.rank(0);
  const bool weight = call.has_tensor(2), bias = call.has_tensor(3);
  const bool own = (weight && call.batched(2)) || (bias && call.batched(3));
  Tensor scale, shift;
  if (own) {
    if (weight) scale = call.batched(2) ? call.front(2, rank) : call.tensor(2);
    if (bias) shift = call.batched(3) ? call.front(3, rank) : call.tensor(3);
    call.put(2, std::monostate{});
    call.put(3, std::monostate{});
  }
  call.put(0, call.front(0));
  call.call();
  if (!own) return;
  Tensor y = std::get<Tensor>(call.results[0]);
  if (scale.defined()) y = mul(y, scale);
  if (shift.defined()) y = add(y, shift);
  call.results[0] = y;
}

namespace {

Dims before_normalized(const BatchCall& call, int64_t dims) {
  Dims out;
  for (int i = 1; i <= call.rank(0) - static_cast<int>(dims); ++i) out.push_back(i);
  return out;
}

Tensor summed(const Tensor& x, const Dims& dims) { return dims.empty() ? x : sum(x, dims); }

// `grad, x, mean, rstd, weight, dims`
Tensor layer_norm_grad_of_x(const BatchCall& call, int64_t dims, double eps) {
  Tensor grad = call.front(0), weight;
  if (call.has_tensor(4)) {
    if (call.batched(4))
      grad = mul(grad, call.front(4, call.rank(0)));
    else
      weight = call.tensor(4);
  }
  return moonlet::layer_norm_grad_x(grad, call.front(1), call.front(2), call.front(3), weight, dims,
                                    eps);
}

Tensor layer_norm_grad_of_weight(const BatchCall& call, int64_t dims) {
  const Tensor normal = mul(sub(call.front(1), call.front(2)), call.front(3));
  return summed(mul(call.front(0), normal), before_normalized(call, dims));
}

}  // namespace

void layer_norm_grad_x(BatchCall& call) {
  call.results = {layer_norm_grad_of_x(call, std::get<int64_t>(call.arguments[5]),
                                       std::get<double>(call.arguments[6]))};
}

void layer_norm_grad_weight(BatchCall& call) {
  call.results = {layer_norm_grad_of_weight(call, std::get<int64_t>(call.arguments[4]))};
}

void layer_norm_grads(BatchCall& call) {
  const int64_t dims = std::get<int64_t>(call.arguments[5]);
  call.results = {layer_norm_grad_of_x(call, dims, 0), layer_norm_grad_of_weight(call, dims),
                  summed(call.front(0), before_normalized(call, dims))};
}

// `weight, index, ...`
void embedding(BatchCall& call) {
  if (call.batched(0)) return call.loop();
  call.put(1, call.front(1));
  call.call();
}

// `grad, index, rows, padding_idx`: each sample has rows of its own in one tall matrix.
void embedding_grad_weight(BatchCall& call) {
  const Tensor grad = call.front(0), index = call.front(1);
  const int64_t rows = std::get<int64_t>(call.arguments[2]);
  const int64_t padding = std::get<int64_t>(call.arguments[3]);
  Tensor counts = empty({call.size()}, options_of(index));
  const Tensor first = mul(iota_(counts, int64_t{0}), rows);
  Dims column = Dims::filled(index.dim(), 1);
  column[0] = call.size();
  const Tensor own = add(index, reshape(first, column));
  Tensor y = unflatten(moonlet::embedding_grad_weight(grad, own, rows * call.size(), 0), 0,
                       {call.size(), rows});
  if (padding != 0) {
    Tensor positions = empty({rows, 1}, options_of(index));
    const Tensor keep = ne(iota_(positions, int64_t{1}), padding);
    y = mul(y, to(keep, y.dtype()));
  }
  call.results = {y};
}

namespace {

// Those of a sample's losses, of (samples, ...).
Dims loss_dims(const Tensor& losses) {
  Dims out;
  for (int i = 1; i < losses.dim(); ++i) out.push_back(i);
  return out;
}

// The samples' images in one batch; of single vectors the samples are the batch.
Tensor joined(const Tensor& x, bool single) { return single ? x : flatten(x, 0, 1); }

}  // namespace

// `log_probs, target, weight, reduction, ignore_index`: not reduced for all, then sample by sample.
void native_nll_loss(BatchCall& call) {
  if (call.has_tensor(2) && call.batched(2)) return call.loop();
  const bool single = call.rank(0) == 1;
  const int64_t reduction = std::get<int64_t>(call.arguments[3]);
  const int64_t ignored = std::get<int64_t>(call.arguments[4]);
  const Tensor weight = call.has_tensor(2) ? call.tensor(2) : Tensor();
  const Tensor log_probs = joined(call.front(0), single), target = joined(call.front(1), single);
  const auto losses = [&](const Tensor& x) {
    const Tensor y = std::get<0>(moonlet::native_nll_loss(x, target, weight, kNone, ignored));
    return single ? y : unflatten(y, 0, {call.size(), -1});
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
  if (call.has_tensor(2) && call.batched(2)) return call.loop();
  Dims size = std::get<Dims>(call.arguments[4]);
  const bool single = size.size() == 1;
  const int64_t reduction = std::get<int64_t>(call.arguments[5]);
  Tensor grad = call.front(0);
  const Tensor target = call.front(1);
  if (reduction == kMean) grad = div(grad, call.front(3));
  if (reduction != kNone) {
    while (grad.dim() < target.dim()) grad = unsqueeze(grad, -1);
    grad = moonlet::expand(grad, target.sizes());
  }
  if (single)
    size.insert(0, call.size());
  else
    size[0] *= call.size();
  const Tensor weight = call.has_tensor(2) ? call.tensor(2) : Tensor();
  const Tensor one = full({}, 1.0, options_of(grad));
  const Tensor y =
      moonlet::nll_loss_grad_log_probs(joined(grad, single), joined(target, single), weight, one,
                                       size, kNone, std::get<int64_t>(call.arguments[6]));
  call.results = {single ? y : unflatten(y, 0, {call.size(), -1})};
}

}  // namespace moonlet::batching

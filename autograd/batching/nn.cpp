// autograd/batching/nn.cpp: convolutions, normalisation and embeddings of a batch.
#include "autograd/batching.h"
#include "autograd/forward_mode.h"
#include "autograd/tape.h"
#include "autograd/uses_batching_nn.h"
#include "tensor/shapes_normalization.h"

namespace moonlet::batching {

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
  // Their batch might fit where samples do not.
  shapes::native_layer_norm(call.sample(0), std::get<Dims>(call.arguments[1]),
                            weight ? call.sample(2) : Tensor(), bias ? call.sample(3) : Tensor(),
                            0);
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

// x by the statistics that were kept of it, which are float64.
Tensor normalized(const BatchCall& call) {
  const Tensor x = call.front(1);
  return to(mul(sub(x, call.front(2)), call.front(3)), x.dtype());
}

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

// The statistics move with x: where it is differentiated they are made anew.
Tensor layer_norm_grad_of_weight(const BatchCall& call, int64_t dims, double eps) {
  const Tensor x = call.front(1);
  const Dims shape(x.sizes().data() + x.dim() - dims, static_cast<int>(dims));
  const Tensor normal = is_differentiated(x)
                            ? std::get<0>(moonlet::native_layer_norm(x, shape, {}, {}, eps))
                            : normalized(call);
  return summed(mul(call.front(0), normal), before_normalized(call, dims));
}

}  // namespace

void layer_norm_grad_x(BatchCall& call) {
  call.results = {layer_norm_grad_of_x(call, std::get<int64_t>(call.arguments[5]),
                                       std::get<double>(call.arguments[6]))};
}

void layer_norm_grad_weight(BatchCall& call) {
  call.results = {layer_norm_grad_of_weight(call, std::get<int64_t>(call.arguments[4]),
                                            std::get<double>(call.arguments[5]))};
}

// `x, normalized_shape, weight, eps`; weights of each sample are applied afterwards.
void native_rms_norm(BatchCall& call) {
  const bool weight = call.has_tensor(2);
  shapes::native_rms_norm(call.sample(0), std::get<Dims>(call.arguments[1]),
                          weight ? call.sample(2) : Tensor(), 0);
  Tensor scale;
  if (weight && call.batched(2)) {
    scale = call.front(2, call.rank(0));
    call.put(2, std::monostate{});
  }
  call.put(0, call.front(0));
  call.call();
  const Tensor y = std::get<Tensor>(call.results[0]);
  if (scale.defined()) call.results[0] = to(mul(y, scale), y.dtype());
}

namespace {
// `grad, x, rstd, weight, dims`
Tensor rms_norm_grad_of_x(const BatchCall& call, double eps) {
  Tensor grad = call.front(0), weight;
  if (call.has_tensor(3)) {
    if (call.batched(3))
      grad = mul(grad, call.front(3, call.rank(0)));
    else
      weight = call.tensor(3);
  }
  return moonlet::rms_norm_grad_x(grad, call.front(1), call.front(2), weight,
                                  std::get<int64_t>(call.arguments[4]), eps);
}

// Sums in the dtype of the weight, where there is one.
Tensor as_weight(const BatchCall& call, size_t weight, const Tensor& sums) {
  return call.has_tensor(weight) ? to(sums, call.tensor(weight).dtype()) : sums;
}
}  // namespace

void rms_norm_grad_x(BatchCall& call) {
  call.results = {rms_norm_grad_of_x(call, std::get<double>(call.arguments[5]))};
}

// `grad, x, rstd, dims, eps`
void rms_norm_grad_weight(BatchCall& call) {
  const int64_t dims = std::get<int64_t>(call.arguments[3]);
  const Tensor x = call.front(1);
  const Dims shape(x.sizes().data() + x.dim() - dims, static_cast<int>(dims));
  const Tensor normal =
      is_differentiated(x)
          ? std::get<0>(moonlet::native_rms_norm(x, shape, {}, std::get<double>(call.arguments[4])))
          : to(mul(x, call.front(2)), x.dtype());
  call.results = {summed(mul(call.front(0), normal), before_normalized(call, dims))};
}

void layer_norm_grads(BatchCall& call) {
  const NoGrad no_grad;
  const int64_t dims = std::get<int64_t>(call.arguments[5]);
  const Tensor normal = normalized(call);
  const Dims before = before_normalized(call, dims);
  call.results = {layer_norm_grad_of_x(call, dims, 0),
                  as_weight(call, 4, summed(mul(call.front(0), normal), before)),
                  as_weight(call, 4, summed(call.front(0), before))};
}

// `grad, x, rstd, weight, dims`
void rms_norm_grads(BatchCall& call) {
  const NoGrad no_grad;
  const Tensor x = call.front(1), normal = to(mul(x, call.front(2)), x.dtype());
  const Dims before = before_normalized(call, std::get<int64_t>(call.arguments[4]));
  call.results = {rms_norm_grad_of_x(call, 0),
                  as_weight(call, 3, summed(mul(call.front(0), normal), before))};
}

namespace {

// What is added to the positions of each sample when the rows of all samples are one tall matrix.
Tensor first_rows(const BatchCall& call, const Tensor& index, int64_t rows) {
  Tensor counts = empty({call.size()}, options_of(index));
  Dims column = Dims::filled(index.dim(), 1);
  column[0] = call.size();
  return reshape(mul(iota_(counts, int64_t{0}), rows), column);
}

// The rows of weights (samples, rows, features) at positions (samples, n).
Tensor own_rows(const BatchCall& call, const Tensor& weight, const Tensor& index, bool by_freq) {
  const int64_t rows = weight.size(1), features = weight.size(2);
  const Tensor y =
      gather(weight, 1, expand(unsqueeze(index, 2), {call.size(), index.size(1), features}));
  if (!by_freq) return y;
  // How often a row comes is known where each row of each sample is one of its own.
  return moonlet::embedding(flatten(weight, 0, 1), add(index, first_rows(call, index, rows)), 0,
                            true);
}

}  // namespace

// `weight, index, padding_idx, scale_grad_by_freq, sparse`
void embedding(BatchCall& call) {
  const bool by_freq = std::get<bool>(call.arguments[3]);
  if (!call.batched(0) && !by_freq) {
    call.put(1, call.front(1));
    return call.call();
  }
  const Tensor weight = call.front(0), index = call.front(1);
  check(weight.dim() == 3, call.op.name, ": weight has shape ",
        Dims{weight.sizes().data() + 1, weight.dim() - 1}, "; (positions, features) expected");
  Dims sizes = index.sizes();
  sizes.push_back(weight.size(2));
  Tensor y = reshape(own_rows(call, weight, reshape(index, {call.size(), -1}), by_freq), sizes);
  // No gradient goes to the row of the padding.
  const int64_t padding = std::get<int64_t>(call.arguments[2]);
  if (padding != 0) y = where(unsqueeze(eq(index, padding), -1), detach(y), y);
  call.results = {y};
}

// `grad, index, rows, padding_idx`: each sample has rows of its own in one tall matrix.
void embedding_grad_weight(BatchCall& call) {
  const Tensor grad = call.front(0), index = call.front(1);
  const int64_t rows = std::get<int64_t>(call.arguments[2]);
  const int64_t padding = std::get<int64_t>(call.arguments[3]);
  const Tensor own = add(index, first_rows(call, index, rows));
  Tensor y = unflatten(moonlet::embedding_grad_weight(grad, own, rows * call.size(), 0), 0,
                       {call.size(), rows});
  if (padding != 0) {
    Tensor positions = empty({rows, 1}, options_of(index));
    const Tensor keep = ne(iota_(positions, int64_t{1}), padding);
    y = mul(y, to(keep, y.dtype()));
  }
  call.results = {y};
}

}  // namespace moonlet::batching

// autograd/batching/recurrent.cpp: recurrent networks of a batch. Samples are sequences side by
// side where they share their weights.
#include "autograd/composite/recurrent.h"
#include "autograd/batching.h"
#include "autograd/uses_batching_recurrent.h"

namespace moonlet::batching {

namespace {

constexpr int kCell = 2, kWeight = 3, kBias = 4, kSizes = 5, kNetworkSizes = 7;

// (samples, rows, ...) as (rows * samples, ...): the rows of a step stay together.
Tensor interleaved(const Tensor& x) { return flatten(transpose(x, 0, 1), 0, 1); }
Tensor from_interleaved(const Tensor& y, int64_t samples) {
  return transpose(unflatten(y, 0, {-1, samples}), 0, 1);
}

// Step by step, with a product of matrices for each sample.
void by_steps(BatchCall& call) {
  const auto tensor = [&](int i) { return call.has_tensor(i) ? call.sample(i) : Tensor(); };
  const auto& sizes = std::get<std::vector<int64_t>>(call.arguments[kSizes]);
  const int64_t mode = std::get<int64_t>(call.arguments[kSizes + 1]);
  const Tensor gates = tensor(0), hidden = tensor(1), cell = tensor(kCell), w_hh = tensor(kWeight),
               b_hh = tensor(kBias);
  recurrent::check_recurrent(gates, hidden, cell, w_hh, b_hh, sizes, mode);
  const std::vector<Tensor> made = recurrent::unrolled(gates, hidden, cell, w_hh, b_hh, sizes, mode,
                                                       std::get<bool>(call.arguments[kSizes + 2]));
  call.results.clear();
  for (const Tensor& y : made) call.results.push_back(call.value_of(y));
  // What there is not, and what no gradient of a tensor inside vmap wants.
  while (call.results.size() < 5)
    call.results.push_back(empty({0}, options_of(std::get<Tensor>(call.results[0]))));
}

}  // namespace

// `gates, hidden, cell, w_hh, b_hh, batch_sizes, mode, reverse`
void native_recurrent(BatchCall& call) {
  if (call.batched(kWeight) || (call.has_tensor(kBias) && call.batched(kBias)))
    return by_steps(call);
  for (int i = 0; i <= kCell; ++i)
    if (call.has_tensor(i)) call.put(i, interleaved(call.front(i)));
  for (int64_t& size : std::get<std::vector<int64_t>>(call.arguments[kSizes])) size *= call.size();
  call.call();
  for (BoxedValue& value : call.results) {
    const Tensor& y = std::get<Tensor>(value);
    if (y.dim() == 2) value = from_interleaved(y, call.size());
  }
}

namespace {

// Step by step, with the weights of each sample.
void network_by_steps(BatchCall& call) {
  const auto tensor = [&](int i) { return call.has_tensor(i) ? call.sample(i) : Tensor(); };
  const auto number = [&](int i) { return std::get<int64_t>(call.arguments[i]); };
  const auto flag = [&](int i) { return std::get<bool>(call.arguments[i]); };
  const Tensor x = tensor(0), hidden = tensor(1), cell = tensor(kCell), weights = tensor(kWeight);
  const recurrent::Inputs in{x, hidden, cell, weights,
                             std::get<std::vector<int64_t>>(call.arguments[kNetworkSizes])};
  const recurrent::Shape shape{number(kNetworkSizes + 1), flag(4), number(5), flag(6)};
  recurrent::check_network(shape, in);
  const auto [y, h, c] = recurrent::run_by_steps(shape, in);
  call.results = {call.value_of(y), call.value_of(h)};
  const Options options = options_of(std::get<Tensor>(call.results[0]));
  call.results.push_back(c.defined() ? call.value_of(c) : empty({0}, options));
  call.results.push_back(empty({0}, options));
}

}  // namespace

// `x, hidden, cell, weights, has_biases, num_layers, bidirectional, batch_sizes, mode`
void recurrent_network(BatchCall& call) {
  if (call.batched(kWeight)) return network_by_steps(call);
  call.put(0, interleaved(call.front(0)));
  for (int i = 1; i <= kCell; ++i)
    if (call.has_tensor(i)) call.put(i, flatten(movedim(call.front(i), {0}, {2}), 1, 2));
  for (int64_t& size : std::get<std::vector<int64_t>>(call.arguments[kNetworkSizes]))
    size *= call.size();
  call.call();
  for (BoxedValue& value : call.results) {
    const Tensor y = std::get<Tensor>(value);
    if (y.dim() == 2) value = from_interleaved(y, call.size());
    if (y.dim() == 3) value = movedim(unflatten(y, 1, {-1, call.size()}), {2}, {0});
  }
  // Gradients of the samples are those of this call.
  call.results.back() = empty({0}, options_of(std::get<Tensor>(call.results.back())));
}

}  // namespace moonlet::batching

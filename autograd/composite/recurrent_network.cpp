// autograd/composite/recurrent_network.cpp: recurrent networks of several layers and directions: in
// one call of the device's library where it has one, else layer by layer and step by step.
#include <utility>

#include "autograd/autocast.h"
#include "autograd/composite/recurrent.h"
#include "autograd/formulas/common.h"
#include "autograd/forward_mode.h"
#include "autograd/tape.h"
#include "autograd/uses_composite_recurrent_network.h"
#include "tensor/program/parts/deferred_call.h"
#include "tensor/runtime/backend.h"

namespace moonlet {

namespace recurrent {

namespace {

using formulas::widened;
using Sizes = std::vector<int64_t>;

// The rows `data` of all steps through one layer in one direction.
Outcome run_direction(const Shape& shape, const Tensor& data, const Tensor& h, const Tensor& c,
                      const Tensor* params, const Sizes& sizes, bool reverse) {
  const Tensor none;
  const Tensor b_ih = shape.has_biases ? widened(params[2]) : none;
  const Tensor b_hh = shape.has_biases ? widened(params[3]) : none;
  const bool apart = shape.mode == kGru;
  const Tensor bias = shape.has_biases && !apart ? add(b_ih, b_hh) : b_ih;
  const auto [y, h_n, c_n, cells, sums] =
      native_recurrent(linear(data, widened(params[0]), bias), h, c, widened(params[1]),
                       apart ? b_hh : none, sizes, shape.mode, reverse);
  return {y, h_n, c_n};
}

Outcome run_layers(const Network& net, Tensor data, const Tensor& h, const Tensor& c,
                   const std::vector<Tensor>& params, const Sizes& sizes) {
  const int64_t each = net.has_biases ? 4 : 2;
  std::vector<Tensor> h_n, c_n;
  int64_t at = 0;
  for (int64_t layer = 0; layer < net.layers; ++layer) {
    if (layer > 0 && net.train && net.dropout > 0) data = dropout(data, net.dropout, true);
    std::vector<Tensor> outputs;
    for (int64_t direction = 0; direction < net.directions(); ++direction, ++at) {
      const Outcome out =
          run_direction(net, data, select(h, 0, at), c.defined() ? select(c, 0, at) : c,
                        params.data() + at * each, sizes, direction == 1);
      outputs.push_back(out.y);
      h_n.push_back(out.h);
      if (c.defined()) c_n.push_back(out.c);
    }
    data = outputs.size() == 1 ? outputs[0] : cat(outputs, 1);
  }
  return {data, stack(h_n, 0), c.defined() ? stack(c_n, 0) : Tensor()};
}

// Everything in the dtype of the input x, computed in at least float32.
Outcome run_widened(const Network& net, const Tensor& data, const Tensor& h, const Tensor& c,
                    const std::vector<Tensor>& params, const Sizes& sizes) {
  const Outcome out = run_layers(net, widened(data), widened(h), widened(c), params, sizes);
  const auto own = [&](const Tensor& x) { return x.defined() ? to(x, data.dtype()) : x; };
  return {own(out.y), own(out.h), own(out.c)};
}

// The parameters as recurrent_network takes them: all weights, then all biases.
Tensor flattened(const Shape& shape, const std::vector<Tensor>& params) {
  const size_t each = shape.has_biases ? 4 : 2;
  std::vector<Tensor> parts;
  for (size_t kind = 0; kind < each; kind += 2)
    for (size_t at = 0; at < params.size(); at += each)
      for (const size_t i : {kind, kind + 1}) parts.push_back(reshape(params[at + i], {-1}));
  return cat(parts, 0);
}

// The way back, for an input of so many features and states of that size.
std::vector<Tensor> parameters_of(const Shape& shape, const Tensor& weights, int64_t features,
                                  int64_t size) {
  const int64_t each = shape.has_biases ? 4 : 2, wide = shape.gates() * size;
  const int64_t count = shape.layers * shape.directions();
  std::vector<Tensor> out(static_cast<size_t>(count * each));
  int64_t from = 0;
  const auto take = [&](int64_t columns) {
    Tensor part = narrow(weights, 0, from, wide * columns);
    from += wide * columns;
    return part;
  };
  for (int64_t at = 0; at < count; ++at) {
    const int64_t in = at < shape.directions() ? features : shape.directions() * size;
    for (const auto& [i, columns] : {std::pair{0, in}, std::pair{1, size}})
      out[static_cast<size_t>(at * each + i)] = view(take(columns), {wide, columns});
  }
  for (int64_t at = 0; at < count && shape.has_biases; ++at)
    for (const int64_t i : {2, 3}) out[static_cast<size_t>(at * each + i)] = take(1);
  return out;
}

// Whether all of it is of one dtype, on one device, and of the sizes that belong together.
bool is_uniform(const Shape& shape, const Tensor& data, const Tensor& h, const Tensor& c,
                const std::vector<Tensor>& params) {
  const auto fits = [&](const Tensor& x) {
    return x.dtype() == data.dtype() && x.device() == data.device();
  };
  if (!fits(h) || (c.defined() && !fits(c))) return false;
  const int64_t each = shape.has_biases ? 4 : 2;
  for (size_t i = 0; i < params.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i) / each;
    const int64_t in = at < shape.directions() ? data.size(1) : shape.directions() * h.size(2);
    if (!fits(params[i]) || (static_cast<int64_t>(i) % each == 0 && params[i].size(1) != in))
      return false;
  }
  return true;
}

bool is_autocast(const Tensor& x) {
  const Autocast* const mode = intercepted() ? current_autocast(x.device().type) : nullptr;
  return mode != nullptr && mode->enabled();
}

// Whether the device's library takes the network, or, where there is dropout between its layers,
// each of these. Tangents are those of the steps. A library wants a copy of the weights, which the
// tape keeps.
bool goes_to_library(const Network& net, bool apart, const Tensor& data, const Tensor& h,
                     const Tensor& c, const std::vector<Tensor>& params, const Sizes& sizes) {
  RecurrentNetworks* const library = library_of(data);
  if (library == nullptr || sizes.size() < kManySteps || forward_level() != 0 ||
      is_autocast(data) || !is_uniform(net, data, h, c, params))
    return false;
  bool keeps = is_differentiated(data) || is_differentiated(h);
  keeps = keeps || (c.defined() && is_differentiated(c));
  for (const Tensor& p : params) keeps = keeps || is_differentiated(p);
  Shape part = net;
  if (apart) part.layers = 1;
  const int64_t between = net.directions() * h.size(2);
  return library->takes(part, data, data.size(1), h.size(2), sizes, keeps) &&
         (!apart || library->takes(part, data, between, h.size(2), sizes, keeps));
}

Outcome run_part(const Shape& shape, const Tensor& data, const Tensor& h, const Tensor& c,
                 const std::vector<Tensor>& params, const Sizes& sizes) {
  const auto [y, h_n, c_n, reserve] =
      recurrent_network(data, h, c, flattened(shape, params), shape.has_biases, shape.layers,
                        shape.bidirectional, sizes, shape.mode);
  return {y, h_n, c.defined() ? c_n : Tensor()};
}

// Layer by layer, with dropout between them.
Outcome run_parts(const Network& net, Tensor data, const Tensor& h, const Tensor& c,
                  const std::vector<Tensor>& params, const Sizes& sizes) {
  Shape part = net;
  part.layers = 1;
  const int64_t count = net.directions();
  const auto each = static_cast<ptrdiff_t>(static_cast<int64_t>(params.size()) / net.layers);
  std::vector<Tensor> h_n, c_n;
  for (int64_t layer = 0; layer < net.layers; ++layer) {
    if (layer > 0) data = dropout(data, net.dropout, true);
    const auto own = [&](const Tensor& x) {
      return x.defined() ? narrow(x, 0, layer * count, count) : x;
    };
    const auto from = params.begin() + layer * each;
    const Outcome out = run_part(part, data, own(h), own(c), {from, from + each}, sizes);
    data = out.y;
    h_n.push_back(out.h);
    if (c.defined()) c_n.push_back(out.c);
  }
  return {data, cat(h_n, 0), c.defined() ? cat(c_n, 0) : Tensor()};
}

}  // namespace

void check_network(const Shape& shape, const Inputs& in) {
  const auto& [x, hidden, cell, weights, sizes] = in;
  const char* op = "recurrent_network";
  check(shape.mode >= kLstm && shape.mode <= kRnnRelu, op, ": mode is ", shape.mode,
        ", 0 to 3 is expected");
  check(shape.layers >= 1 && shape.layers <= (int64_t{1} << 20), op, ": num_layers is ",
        shape.layers, ", at least 1 is expected");
  check(x.dim() == 2 && hidden.dim() == 3, op, ": x has shape ", x.sizes(), " and hidden ",
        hidden.sizes(), ", (rows, features) and (layers * directions, n, size) are expected");
  check(!sizes.empty(), op, ": batch_sizes is empty");
  check_batch_sizes(op, sizes, x.size(0));
  check(hidden.size(0) == shape.layers * shape.directions() && hidden.size(1) == sizes[0], op,
        ": hidden has shape ", hidden.sizes(), ", (", shape.layers * shape.directions(), ", ",
        sizes[0], ", size) is expected");
  check(cell.defined() == (shape.mode == kLstm) &&
            (!cell.defined() || cell.sizes() == hidden.sizes()),
        op, ": cell is for lstm alone, of shape ", hidden.sizes());
  const int64_t count = shape.weight_count(x.size(1), hidden.size(2));
  check(weights.sizes() == Dims{count}, op, ": weights has shape ", weights.sizes(), ", (", count,
        ",) is expected");
}

RecurrentNetworks* library_of(const Tensor& x) {
  if (execution.capture != nullptr || program::deferral != nullptr) return nullptr;
  if (x.numel() == 0 || x.device().is_cpu() || x.device().is_batched()) return nullptr;
  Backend* const backend = opened_backend(x.device().type);
  return backend ? backend->recurrent_networks() : nullptr;
}

Outcome run_network(const Network& net, const Tensor& data, const Tensor& h, const Tensor& c,
                    const std::vector<Tensor>& params, const Sizes& sizes) {
  const bool apart = net.train && net.dropout > 0 && net.layers > 1;
  if (!goes_to_library(net, apart, data, h, c, params, sizes))
    return run_widened(net, data, h, c, params, sizes);
  return apart ? run_parts(net, data, h, c, params, sizes)
               : run_part(net, data, h, c, params, sizes);
}

Outcome run_by_steps(const Shape& shape, const Inputs& in) {
  return run_widened({shape}, in.x, in.hidden, in.cell,
                     parameters_of(shape, in.weights, in.x.size(1), in.hidden.size(2)),
                     in.batch_sizes);
}

}  // namespace recurrent

std::tuple<Tensor, Tensor, Tensor, Tensor> recurrent_network_composite(
    const Tensor& x, const Tensor& hidden, const Tensor& cell, const Tensor& weights,
    bool has_biases, int64_t num_layers, bool bidirectional,
    const std::vector<int64_t>& batch_sizes, int64_t mode) {
  const recurrent::Shape shape{mode, has_biases, num_layers, bidirectional};
  recurrent::check_network(shape, {x, hidden, cell, weights, batch_sizes});
  bool recorded = false;
  for (const Tensor* t : {&x, &hidden, &cell, &weights}) recorded |= is_differentiated(*t);
  const NoGrad no_grad;
  if (RecurrentNetworks* const library = recurrent::library_of(x))
    if (auto made = library->forward(shape, {x, hidden, cell, weights, batch_sizes}, recorded))
      return {made->y, made->h_n, made->c_n, made->reserve};
  const recurrent::Outcome out =
      recurrent::run_by_steps(shape, {x, hidden, cell, weights, batch_sizes});
  return {out.y, out.h, cell.defined() ? out.c : empty({0}, options_of(x)),
          empty({0}, {DType::UInt8, x.device()})};
}

}  // namespace moonlet

// autograd/composite/recurrent.cpp: the ops of recurrent networks: their arguments, and single
// cells.
#include "autograd/composite/recurrent.h"

#include "autograd/formulas/common.h"
#include "autograd/forward_mode.h"
#include "autograd/host_value.h"
#include "autograd/tape.h"
#include "autograd/uses_composite_recurrent.h"

namespace moonlet {

using formulas::widened;
using recurrent::check_batch_sizes;
using recurrent::kGru;
using recurrent::kLstm;
using recurrent::kRnnRelu;
using recurrent::kRnnTanh;
using recurrent::Network;
using recurrent::Outcome;
using recurrent::run_network;

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> native_recurrent_composite(
    const Tensor& gates, const Tensor& hidden, const Tensor& cell, const Tensor& w_hh,
    const Tensor& b_hh, const std::vector<int64_t>& batch_sizes, int64_t mode, bool reverse) {
  recurrent::check_recurrent(gates, hidden, cell, w_hh, b_hh, batch_sizes, mode);
  bool recorded = false;
  for (const Tensor* x : {&gates, &hidden, &cell, &w_hh, &b_hh}) recorded |= is_differentiated(*x);
  const NoGrad no_grad;
  return recurrent::run_steps(gates, hidden, cell, w_hh, b_hh, batch_sizes, mode, reverse,
                              recorded);
}

namespace {

void check_parameters(const Network& net, const std::vector<Tensor>& params, int64_t size) {
  const int64_t each = net.has_biases ? 4 : 2;
  check(net.dropout >= 0 && net.dropout <= 1, net.op(), ": dropout is ", net.dropout,
        ", a probability is expected");
  check(static_cast<int64_t>(params.size()) == net.layers * net.directions() * each, net.op(), ": ",
        params.size(), " params for ", net.layers * net.directions(), " layers and directions, ",
        each, " each are expected");
  for (size_t i = 0; i < params.size(); ++i) {
    const Tensor& p = params[i];
    const bool matrix = static_cast<int64_t>(i) % each < 2;
    const bool fits = p.dim() == (matrix ? 2 : 1) && p.size(0) == net.gates() * size &&
                      (static_cast<int64_t>(i) % each != 1 || p.size(1) == size);
    check(fits, net.op(), ": params ", i + 1, " has shape ", p.sizes(), ", (", net.gates() * size,
          matrix ? ", ...)" : ",)", " is expected for a state of ", size);
  }
}

void check_state(const Network& net, const char* name, const Tensor& state, int64_t entries) {
  check(net.layers >= 1 && net.layers <= (int64_t{1} << 20), net.op(), ": num_layers is ",
        net.layers, ", at least 1 is expected");
  check(state.dim() == 3 && state.size(0) == net.layers * net.directions() &&
            state.size(1) == entries,
        net.op(), ": ", name, " has shape ", state.sizes(), ", (", net.layers * net.directions(),
        ", ", entries, ", size) is expected");
}

void check_same_states(const char* op, const Tensor& h, const Tensor& c) {
  if (c.defined())
    check(c.sizes() == h.sizes(), op, ": the states have shapes ", h.sizes(), " and ", c.sizes());
}

// x (steps, entries, features), or (entries, steps, features) with batch_first.
Outcome run_whole(const Network& net, const Tensor& x, const Tensor& h, const Tensor& c,
                  const std::vector<Tensor>& params, bool batch_first) {
  check(x.dim() == 3, net.op(), ": x has shape ", x.sizes(), ", three dimensions are expected");
  check(h.dim() == 3, net.op(), ": the state has shape ", h.sizes(),
        ", three dimensions are expected");
  const Tensor by_step = batch_first ? transpose(x, 0, 1) : x;
  const int64_t steps = by_step.size(0), entries = by_step.size(1);
  check(steps > 0, net.op(), ": x has no steps");
  check_state(net, "the state", h, entries);
  check_same_states(net.op(), h, c);
  check_parameters(net, params, h.size(2));
  const Tensor rows = reshape(by_step, {steps * entries, x.size(2)});
  Outcome out = run_network(net, rows, h, c, params,
                            std::vector<int64_t>(static_cast<size_t>(steps), entries));
  out.y = reshape(out.y, {steps, entries, out.y.size(1)});
  if (batch_first) out.y = transpose(out.y, 0, 1);
  return out;
}

// data (rows, features) of sequences that are sorted by length, the longest first.
Outcome run_packed(const Network& net, const Tensor& data, const Tensor& batch_sizes,
                   const Tensor& h, const Tensor& c, const std::vector<Tensor>& params) {
  check(data.dim() == 2 && batch_sizes.dim() == 1 && batch_sizes.numel() > 0, net.op(),
        ": data has shape ", data.sizes(), " and batch_sizes ", batch_sizes.sizes(),
        ", (rows, features) and (steps) are expected");
  const Tensor host = contiguous(on_host(batch_sizes, DType::Int64));
  const int64_t* given = host.elements<int64_t>();
  const std::vector<int64_t> sizes(given, given + host.numel());
  check_batch_sizes(net.op(), sizes, data.size(0));
  check_state(net, "the state", h, sizes[0]);
  check_same_states(net.op(), h, c);
  check_parameters(net, params, h.size(2));
  return run_network(net, data, h, c, params, sizes);
}

void check_pair(const char* op, const std::vector<Tensor>& hx) {
  check(hx.size() == 2, op, ": hx has ", hx.size(),
        " tensors, the hidden state and the cell are expected");
}

// Throws unless the arguments of a cell with so many gates fit.
void check_cell(const char* op, const Tensor& x, const Tensor& hx, const Tensor& w_ih,
                const Tensor& w_hh, const Tensor& b_ih, const Tensor& b_hh, int64_t gates) {
  check(x.dim() == 2 && hx.dim() == 2 && x.size(0) == hx.size(0), op, ": x has shape ", x.sizes(),
        " and the state ", hx.sizes(), ", (n, features) and (n, size) are expected");
  const int64_t wide = gates * hx.size(1);
  check(w_ih.dim() == 2 && w_ih.size(0) == wide && w_ih.size(1) == x.size(1), op,
        ": w_ih has shape ", w_ih.sizes(), ", (", wide, ", ", x.size(1), ") is expected");
  check(w_hh.dim() == 2 && w_hh.size(0) == wide && w_hh.size(1) == hx.size(1), op,
        ": w_hh has shape ", w_hh.sizes(), ", (", wide, ", ", hx.size(1), ") is expected");
  for (const Tensor* b : {&b_ih, &b_hh})
    check(!b->defined() || (b->dim() == 1 && b->size(0) == wide), op, ": a bias has shape ",
          b->defined() ? b->sizes() : Dims(), ", (", wide, ",) is expected");
}

Tensor projected(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return linear(widened(x), widened(weight), widened(bias));
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> lstm_composite(const Tensor& x, const std::vector<Tensor>& hx,
                                                  const std::vector<Tensor>& params,
                                                  bool has_biases, int64_t num_layers,
                                                  double dropout, bool train, bool bidirectional,
                                                  bool batch_first) {
  check_pair("lstm", hx);
  const Network net{{kLstm, has_biases, num_layers, bidirectional}, dropout, train};
  const Outcome out = run_whole(net, x, hx[0], hx[1], params, batch_first);
  return {out.y, out.h, out.c};
}

std::tuple<Tensor, Tensor, Tensor> lstm_packed_composite(
    const Tensor& data, const Tensor& batch_sizes, const std::vector<Tensor>& hx,
    const std::vector<Tensor>& params, bool has_biases, int64_t num_layers, double dropout,
    bool train, bool bidirectional) {
  check_pair("lstm", hx);
  const Network net{{kLstm, has_biases, num_layers, bidirectional}, dropout, train};
  const Outcome out = run_packed(net, data, batch_sizes, hx[0], hx[1], params);
  return {out.y, out.h, out.c};
}

namespace {

// Networks whose only state is the hidden one.
std::tuple<Tensor, Tensor> whole(const Network& net, const Tensor& x, const Tensor& hx,
                                 const std::vector<Tensor>& params, bool batch_first) {
  const Outcome out = run_whole(net, x, hx, Tensor(), params, batch_first);
  return {out.y, out.h};
}
std::tuple<Tensor, Tensor> packed(const Network& net, const Tensor& data, const Tensor& batch_sizes,
                                  const Tensor& hx, const std::vector<Tensor>& params) {
  const Outcome out = run_packed(net, data, batch_sizes, hx, Tensor(), params);
  return {out.y, out.h};
}

}  // namespace

std::tuple<Tensor, Tensor> gru_composite(const Tensor& x, const Tensor& hx,
                                         const std::vector<Tensor>& params, bool has_biases,
                                         int64_t num_layers, double dropout, bool train,
                                         bool bidirectional, bool batch_first) {
  const Network net{{kGru, has_biases, num_layers, bidirectional}, dropout, train};
  return whole(net, x, hx, params, batch_first);
}

std::tuple<Tensor, Tensor> gru_packed_composite(const Tensor& data, const Tensor& batch_sizes,
                                                const Tensor& hx, const std::vector<Tensor>& params,
                                                bool has_biases, int64_t num_layers, double dropout,
                                                bool train, bool bidirectional) {
  const Network net{{kGru, has_biases, num_layers, bidirectional}, dropout, train};
  return packed(net, data, batch_sizes, hx, params);
}

std::tuple<Tensor, Tensor> rnn_tanh_composite(const Tensor& x, const Tensor& hx,
                                              const std::vector<Tensor>& params, bool has_biases,
                                              int64_t num_layers, double dropout, bool train,
                                              bool bidirectional, bool batch_first) {
  const Network net{{kRnnTanh, has_biases, num_layers, bidirectional}, dropout, train};
  return whole(net, x, hx, params, batch_first);
}

std::tuple<Tensor, Tensor> rnn_tanh_packed_composite(const Tensor& data, const Tensor& batch_sizes,
                                                     const Tensor& hx,
                                                     const std::vector<Tensor>& params,
                                                     bool has_biases, int64_t num_layers,
                                                     double dropout, bool train,
                                                     bool bidirectional) {
  const Network net{{kRnnTanh, has_biases, num_layers, bidirectional}, dropout, train};
  return packed(net, data, batch_sizes, hx, params);
}

std::tuple<Tensor, Tensor> rnn_relu_composite(const Tensor& x, const Tensor& hx,
                                              const std::vector<Tensor>& params, bool has_biases,
                                              int64_t num_layers, double dropout, bool train,
                                              bool bidirectional, bool batch_first) {
  const Network net{{kRnnRelu, has_biases, num_layers, bidirectional}, dropout, train};
  return whole(net, x, hx, params, batch_first);
}

std::tuple<Tensor, Tensor> rnn_relu_packed_composite(const Tensor& data, const Tensor& batch_sizes,
                                                     const Tensor& hx,
                                                     const std::vector<Tensor>& params,
                                                     bool has_biases, int64_t num_layers,
                                                     double dropout, bool train,
                                                     bool bidirectional) {
  const Network net{{kRnnRelu, has_biases, num_layers, bidirectional}, dropout, train};
  return packed(net, data, batch_sizes, hx, params);
}

std::tuple<Tensor, Tensor> lstm_cell_composite(const Tensor& x, const std::vector<Tensor>& hx,
                                               const Tensor& w_ih, const Tensor& w_hh,
                                               const Tensor& b_ih, const Tensor& b_hh) {
  check_pair("lstm_cell", hx);
  check_cell("lstm_cell", x, hx[0], w_ih, w_hh, b_ih, b_hh, 4);
  check_same_states("lstm_cell", hx[0], hx[1]);
  const Tensor gates = add(projected(x, w_ih, b_ih), projected(hx[0], w_hh, b_hh));
  const auto [h, c] = lstm_step(gates, widened(hx[1]));
  return {to(h, x.dtype()), to(c, x.dtype())};
}

Tensor gru_cell_composite(const Tensor& x, const Tensor& hx, const Tensor& w_ih, const Tensor& w_hh,
                          const Tensor& b_ih, const Tensor& b_hh) {
  check_cell("gru_cell", x, hx, w_ih, w_hh, b_ih, b_hh, 3);
  const Tensor y = gru_step(projected(x, w_ih, b_ih), projected(hx, w_hh, b_hh), widened(hx));
  return to(y, x.dtype());
}

Tensor rnn_tanh_cell_composite(const Tensor& x, const Tensor& hx, const Tensor& w_ih,
                               const Tensor& w_hh, const Tensor& b_ih, const Tensor& b_hh) {
  check_cell("rnn_tanh_cell", x, hx, w_ih, w_hh, b_ih, b_hh, 1);
  return to(tanh(add(projected(x, w_ih, b_ih), projected(hx, w_hh, b_hh))), x.dtype());
}

Tensor rnn_relu_cell_composite(const Tensor& x, const Tensor& hx, const Tensor& w_ih,
                               const Tensor& w_hh, const Tensor& b_ih, const Tensor& b_hh) {
  check_cell("rnn_relu_cell", x, hx, w_ih, w_hh, b_ih, b_hh, 1);
  return to(relu(add(projected(x, w_ih, b_ih), projected(hx, w_hh, b_hh))), x.dtype());
}

}  // namespace moonlet

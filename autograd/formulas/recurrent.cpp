// autograd/formulas/recurrent.cpp: the gradients of recurrent networks: of one step, and back
// through those of whole sequences, which autograd/composite/recurrent_steps.cpp goes through
// forward.
#include "autograd/formulas.h"

#include <algorithm>
#include <utility>

#include "autograd/composite/recurrent.h"
#include "autograd/forward_mode.h"
#include "autograd/tape.h"
#include "autograd/uses_formulas_recurrent.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet::formulas {

using namespace recurrent;  // NOLINT(google-build-using-namespace)

std::tuple<Tensor, Tensor> lstm_step_backward(const Tensor& grad_h, const Tensor& grad_c,
                                              const Tensor& gates, const Tensor& cell,
                                              const Tensor& c) {
  if (!derivatives_wanted()) return lstm_step_grads(grad_h, grad_c, gates, cell, c);
  const std::vector<Tensor> part = chunk(gates, 4, 1);
  const Tensor input = sigmoid(part[0]), forget = sigmoid(part[1]), candidate = tanh(part[2]),
               output = sigmoid(part[3]), shown = tanh(c);
  const auto gradient = [](const Tensor& s) { return mul(s, sub(1.0, s)); };
  const Tensor g = add(grad_c, mul(mul(grad_h, output), sub(1.0, square(shown))));
  const Tensor all = cat(
      {mul(mul(g, candidate), gradient(input)), mul(mul(g, cell), gradient(forget)),
       mul(mul(g, input), sub(1.0, square(candidate))), mul(mul(grad_h, shown), gradient(output))},
      1);
  return {all, mul(g, forget)};
}

std::tuple<Tensor, Tensor, Tensor> gru_step_backward(const Tensor& grad, const Tensor& x_gates,
                                                     const Tensor& h_gates, const Tensor& hidden) {
  if (!derivatives_wanted()) return gru_step_grads(grad, x_gates, h_gates, hidden);
  const std::vector<Tensor> x = chunk(x_gates, 3, 1), h = chunk(h_gates, 3, 1);
  const Tensor reset = sigmoid(add(x[0], h[0])), update = sigmoid(add(x[1], h[1]));
  const Tensor fresh = tanh(add(x[2], mul(reset, h[2])));
  const Tensor by_fresh = mul(mul(grad, sub(1.0, update)), sub(1.0, square(fresh)));
  const Tensor by_update = mul(mul(grad, sub(hidden, fresh)), mul(update, sub(1.0, update)));
  const Tensor by_reset = mul(mul(by_fresh, h[2]), mul(reset, sub(1.0, reset)));
  return {cat({by_reset, by_update, by_fresh}, 1),
          cat({by_reset, by_update, mul(by_fresh, reset)}, 1), mul(grad, update)};
}

namespace {

void write(const Tensor& to, const Tensor& from) {
  Tensor target = to;
  copy_(target, from);
}

// What writes into parts of a sequence takes no tensors inside vmap.
bool any_batch(std::initializer_list<const Tensor*> tensors) {
  for (const Tensor* x : tensors)
    if (x->defined() && x->device().is_batched()) return true;
  return false;
}
// Of every row the state before its step: (rows, size).
Tensor states_before(const Tensor& start, const Tensor& states, const std::vector<Step>& steps) {
  const Tensor out = empty(states.sizes(), options_of(states));
  Step last{0, 0};
  for (const Step& s : steps) {
    const int64_t known = std::min(last.count, s.count), fresh = s.count - known;
    if (known > 0) write(narrow(out, 0, s.at, known), narrow(states, 0, last.at, known));
    if (fresh > 0) write(narrow(out, 0, s.at + known, fresh), narrow(start, 0, known, fresh));
    last = s;
  }
  return out;
}

// The gradients that may be differentiated again: of what `run` computes from the arguments, which
// it records. `gradients` are those of its results.
template <class Run>
std::vector<Tensor> recorded_grads(const std::vector<Tensor>& gradients,
                                   std::vector<Tensor> arguments, Run&& run) {
  // Where nothing is recorded the arguments have no histories, and are leaves of this call's own.
  // Else they are views, as one argument may have been computed from another.
  const bool recorded = grad_enabled();
  for (Tensor& x : arguments) {
    if (!x.defined()) continue;
    if (recorded) {
      if (x.requires_grad()) x = view(x, x.sizes());
    } else {
      x = without_history(x);
      set_requires_grad(x, true);
    }
  }
  const GradModeGuard mode_on(true);
  const std::vector<Tensor> outputs = run(std::as_const(arguments));
  std::vector<Tensor> wanted, out(arguments.size());
  for (const Tensor& x : arguments)
    if (x.defined() && x.requires_grad()) wanted.push_back(x);
  const std::vector<Tensor> found = grad(
      outputs, wanted, {gradients.begin(), gradients.begin() + static_cast<int>(outputs.size())},
      true, recorded, true);
  size_t next = 0;
  for (size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].defined() && arguments[i].requires_grad()) out[i] = found[next++];
  return out;
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> recorded_steps(
    const std::vector<Tensor>& gradients, const std::vector<Tensor>& given,
    const std::vector<int64_t>& batch_sizes, int64_t mode, bool reverse) {
  const std::vector<Tensor> out =
      recorded_grads(gradients, given, [&](const std::vector<Tensor>& in) {
        std::vector<Tensor> outputs =
            unrolled(in[0], in[1], in[2], in[3], in[4], batch_sizes, mode, reverse);
        outputs.resize(mode == kLstm ? 3 : 2);
        return outputs;
      });
  return {out[0], out[1], out[2], out[3], out[4]};
}

// Going back: the gradients of the states, and of what each step was made of.
struct Backward {
  Tensor by_hidden, by_cell, by_gates, by_h_gates;
};

Backward back_through_steps(const Tensor& grad_y, const Tensor& grad_h, const Tensor& grad_c,
                            const Tensor& gates, const Tensor& sums, const Tensor& w_hh,
                            const Tensor& before, const Tensor& cells_before, const Tensor& y,
                            const Tensor& cells, const std::vector<Step>& steps, int64_t mode) {
  Backward b{clone(grad_h, MemoryFormat::Contiguous),
             mode == kLstm ? clone(grad_c, MemoryFormat::Contiguous) : Tensor(),
             empty(gates.sizes(), options_of(gates)), Tensor()};
  if (mode == kGru) b.by_h_gates = empty(gates.sizes(), options_of(gates));
  for (auto s = steps.rbegin(); s != steps.rend(); ++s) {
    stop_if_requested();
    Tensor state = first(b.by_hidden, s->count), by_gates = rows(b.by_gates, *s);
    const Tensor g = add(state, rows(grad_y, *s));
    if (mode == kLstm) {
      const Tensor cell = first(b.by_cell, s->count);
      Tensor by_cell = empty_like(cell);
      lstm_step_grads_out(by_gates, by_cell, g, cell, rows(sums, *s), rows(cells_before, *s),
                          rows(cells, *s));
      write(cell, by_cell);
      mm_out(state, by_gates, w_hh);
    } else if (mode == kGru) {
      Tensor h = rows(b.by_h_gates, *s), by_state = empty_like(g);
      gru_step_grads_out(by_gates, h, by_state, g, rows(gates, *s), rows(sums, *s),
                         rows(before, *s));
      addmm_out(state, by_state, h, w_hh);
    } else {
      const Tensor out = rows(y, *s);
      write(by_gates, mode == kRnnTanh ? mul(g, sub(1.0, square(out))) : relu_grad_x(g, out));
      mm_out(state, by_gates, w_hh);
    }
  }
  return b;
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> recurrent_grads(
    const Tensor& grad_y, const Tensor& grad_h, const Tensor& grad_c, const Tensor& gates,
    const Tensor& hidden, const Tensor& cell, const Tensor& w_hh, const Tensor& b_hh,
    const Tensor& y, const Tensor& cells, const Tensor& sums,
    const std::vector<int64_t>& batch_sizes, int64_t mode, bool reverse) {
  if (derivatives_wanted() || any_batch({&grad_y, &grad_h, &grad_c, &gates, &hidden, &w_hh}))
    return recorded_steps({grad_y, grad_h, grad_c}, {gates, hidden, cell, w_hh, b_hh}, batch_sizes,
                          mode, reverse);
  const std::vector<Step> steps = steps_of(batch_sizes, reverse);
  const Tensor before = states_before(hidden, y, steps);
  const Tensor cells_before = mode == kLstm ? states_before(cell, cells, steps) : Tensor();
  const Backward b = back_through_steps(grad_y, grad_h, grad_c, gates, sums, w_hh, before,
                                        cells_before, y, cells, steps, mode);
  const Tensor& gradients = mode == kGru ? b.by_h_gates : b.by_gates;
  return {b.by_gates, b.by_hidden, b.by_cell, mm(t(gradients), before),
          b_hh.defined() ? sum(gradients, {0}) : Tensor()};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> recurrent_network_grads(
    bool keeps_graph, const Tensor& grad_y, const Tensor& grad_h, const Tensor& grad_c,
    const Tensor& x, const Tensor& hidden, const Tensor& cell, const Tensor& weights,
    const Tensor& y, const Tensor& reserve, bool has_biases, int64_t num_layers, bool bidirectional,
    const std::vector<int64_t>& batch_sizes, int64_t mode) {
  const Shape shape{mode, has_biases, num_layers, bidirectional};
  const bool plain = !derivatives_wanted() && !any_batch({&grad_y, &grad_h, &grad_c});
  RecurrentNetworks* const library = plain ? library_of(x) : nullptr;
  if (library != nullptr && reserve.numel() > 0) {
    const Results gradients{grad_y, grad_h, grad_c, reserve};
    if (auto found = library->backward(shape, {x, hidden, cell, weights, batch_sizes}, y, gradients,
                                       keeps_graph))
      return {found->x, found->hidden, found->cell, found->weights};
  }
  const std::vector<Tensor> out = recorded_grads(
      {grad_y, grad_h, grad_c}, {x, hidden, cell, weights}, [&](const std::vector<Tensor>& in) {
        const Outcome made = run_by_steps(shape, {in[0], in[1], in[2], in[3], batch_sizes});
        std::vector<Tensor> outputs{made.y, made.h};
        if (mode == kLstm) outputs.push_back(made.c);
        return outputs;
      });
  return {out[0], out[1], out[2], out[3]};
}

}  // namespace moonlet::formulas

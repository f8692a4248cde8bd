// autograd/formulas/recurrent.cpp: recurrent networks over whole sequences: the steps forward, and
// back through time. The rows of a sequence are those of its steps one after the other; the step of
// batch size n goes on with the first n rows of the state, so sequences may end before others.
#include "autograd/formulas/recurrent.h"

#include <algorithm>

#include "autograd/forward_mode.h"
#include "autograd/tape.h"
#include "autograd/uses_formulas_recurrent.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet::formulas {

namespace {

struct Step {
  int64_t at, count;  // its rows
};

// The steps in the order in which the state goes through them.
std::vector<Step> steps_of(const std::vector<int64_t>& batch_sizes, bool reverse) {
  std::vector<Step> out;
  int64_t at = 0;
  for (const int64_t count : batch_sizes) {
    out.push_back({at, count});
    at += count;
  }
  if (reverse) out = {out.rbegin(), out.rend()};
  return out;
}

Tensor rows(const Tensor& x, const Step& s) { return narrow(x, 0, s.at, s.count); }
Tensor first(const Tensor& x, int64_t count) {
  return count == x.size(0) ? x : narrow(x, 0, 0, count);
}
void write(const Tensor& to, const Tensor& from) {
  Tensor target = to;
  copy_(target, from);
}

Tensor activated(const Tensor& x, int64_t mode) { return mode == kRnnTanh ? tanh(x) : relu(x); }

}  // namespace

namespace {
// What writes into parts of a sequence takes no tensors inside vmap.
bool any_batch(std::initializer_list<const Tensor*> tensors) {
  for (const Tensor* x : tensors)
    if (x->defined() && x->device().is_batched()) return true;
  return false;
}
}  // namespace

void check_batch_sizes(const char* op, const std::vector<int64_t>& sizes, int64_t rows) {
  int64_t left = rows, before = rows;
  for (const int64_t size : sizes) {
    check(size >= 1 && size <= before, op, ": batch size ", size, " after ", before,
          "; they are positive and do not grow");
    check(size <= left, op, ": batch_sizes want more than the ", rows, " rows of data");
    left -= size;
    before = size;
  }
  check(left == 0, op, ": batch_sizes leave ", left, " of ", rows, " rows of data");
}

void check_recurrent(const Tensor& gates, const Tensor& hidden, const Tensor& cell,
                     const Tensor& w_hh, const Tensor& b_hh, const std::vector<int64_t>& sizes,
                     int64_t mode) {
  const char* op = "native_recurrent";
  check(mode >= kLstm && mode <= kRnnRelu, op, ": mode is ", mode, ", 0 to 3 is expected");
  const int64_t factors[] = {4, 3, 1, 1}, factor = factors[mode];
  check(gates.dim() == 2 && hidden.dim() == 2, op, ": gates has shape ", gates.sizes(),
        " and hidden ", hidden.sizes(), ", two dimensions each are expected");
  const int64_t size = hidden.size(1), wide = gates.size(1);
  check(wide % factor == 0 && wide / factor == size, op, ": gates has shape ", gates.sizes(),
        " for a state of ", size);
  check(w_hh.sizes() == Dims{wide, size}, op, ": w_hh has shape ", w_hh.sizes(), ", (", wide, ", ",
        size, ") is expected");
  check(!b_hh.defined() || (mode == kGru && b_hh.sizes() == Dims{wide}), op,
        ": b_hh is for gru alone, of shape (", wide, ",)");
  check(cell.defined() == (mode == kLstm) && (!cell.defined() || cell.sizes() == hidden.sizes()),
        op, ": cell is for lstm alone, of shape ", hidden.sizes());
  check(!sizes.empty(), op, ": batch_sizes is empty");
  check_batch_sizes(op, sizes, gates.size(0));
  check(sizes[0] <= hidden.size(0), op, ": batch size ", sizes[0], " for ", hidden.size(0),
        " states");
}

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

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> recurrent(
    const Tensor& gates, const Tensor& hidden, const Tensor& cell, const Tensor& w_hh,
    const Tensor& b_hh, const std::vector<int64_t>& batch_sizes, int64_t mode, bool reverse,
    bool keep_sums) {
  const bool has_cell = mode == kLstm, keep = keep_sums && (has_cell || mode == kGru);
  const Tensor h = clone(hidden, MemoryFormat::Contiguous);
  // Each a tensor of its own: the tape marks results one by one.
  const auto none = [&] { return empty({0}, options_of(h)); };
  const Tensor c = has_cell ? clone(cell, MemoryFormat::Contiguous) : none();
  const Tensor y = empty({gates.size(0), h.size(1)}, options_of(gates));
  const Tensor cells = has_cell ? empty(y.sizes(), options_of(y)) : none();
  const std::vector<Step> steps = steps_of(batch_sizes, reverse);
  // Those of all steps, or memory for those of one.
  const Tensor sums = mode == kRnnTanh || mode == kRnnRelu
                          ? none()
                          : empty({keep ? gates.size(0) : h.size(0), gates.size(1)}, options_of(y));
  // Every step multiplies with it, and faster when it need not be read across its rows.
  constexpr size_t kManySteps = 8;
  const Tensor w = steps.size() < kManySteps ? t(w_hh) : contiguous(t(w_hh));
  for (const Step& s : steps) {
    stop_if_requested();
    const Tensor x = rows(gates, s), before = first(h, s.count);
    Tensor after = rows(y, s);
    const auto sum_of_step = [&] { return keep ? rows(sums, s) : first(sums, s.count); };
    if (has_cell) {
      Tensor sum = sum_of_step(), next = rows(cells, s);
      addmm_out(sum, x, before, w);
      lstm_step_out(after, next, sum, first(c, s.count));
      write(first(c, s.count), next);
    } else if (mode == kGru) {
      Tensor sum = sum_of_step();
      b_hh.defined() ? addmm_out(sum, b_hh, before, w) : mm_out(sum, before, w);
      gru_step_out(after, x, sum, before);
    } else {
      write(after, activated(addmm(x, before, w), mode));
    }
    write(before, after);
  }
  return {y, h, c, cells, keep ? sums : none()};
}

namespace {

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

}  // namespace

std::vector<Tensor> unrolled(const Tensor& gates, const Tensor& hidden, const Tensor& cell,
                             const Tensor& w_hh, const Tensor& b_hh,
                             const std::vector<int64_t>& batch_sizes, int64_t mode, bool reverse) {
  Tensor h = hidden, c = cell;
  const auto continued = [](const Tensor& part, const Tensor& whole) {
    const int64_t count = part.size(0), rest = whole.size(0) - count;
    return rest == 0 ? part : cat({part, narrow(whole, 0, count, rest)}, 0);
  };
  std::vector<Tensor> outputs, cells;
  for (const Step& s : steps_of(batch_sizes, reverse)) {
    stop_if_requested();
    const Tensor x = rows(gates, s), before = first(h, s.count);
    Tensor after;
    if (mode == kLstm) {
      const auto [next, next_cell] = lstm_step(addmm(x, before, t(w_hh)), first(c, s.count));
      c = continued(next_cell, c);
      cells.push_back(next_cell);
      after = next;
    } else if (mode == kGru) {
      after = gru_step(x, linear(before, w_hh, b_hh), before);
    } else {
      after = activated(addmm(x, before, t(w_hh)), mode);
    }
    h = continued(after, h);
    outputs.push_back(after);
  }
  const auto in_order = [&](const std::vector<Tensor>& each) {
    return cat(reverse ? std::vector<Tensor>(each.rbegin(), each.rend()) : each, 0);
  };
  std::vector<Tensor> out{in_order(outputs), h};
  if (mode == kLstm) {
    out.push_back(c);
    out.push_back(in_order(cells));
  }
  return out;
}

namespace {

// The gradients that may be differentiated again: of the recorded steps.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> recorded_grads(
    const std::vector<Tensor>& gradients, const std::vector<Tensor>& given,
    const std::vector<int64_t>& batch_sizes, int64_t mode, bool reverse) {
  // Where nothing is recorded the arguments have no histories, and are leaves of this call's own.
  // Else they are views, as one argument may have been computed from another.
  const bool recorded = grad_enabled();
  std::vector<Tensor> arguments = given;
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
  std::vector<Tensor> outputs = unrolled(arguments[0], arguments[1], arguments[2], arguments[3],
                                         arguments[4], batch_sizes, mode, reverse);
  outputs.resize(mode == kLstm ? 3 : 2);
  std::vector<Tensor> wanted, out(arguments.size());
  for (const Tensor& x : arguments)
    if (x.defined() && x.requires_grad()) wanted.push_back(x);
  const std::vector<Tensor> found = grad(
      outputs, wanted, {gradients.begin(), gradients.begin() + static_cast<int>(outputs.size())},
      true, recorded, true);
  size_t next = 0;
  for (size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].defined() && arguments[i].requires_grad()) out[i] = found[next++];
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
    return recorded_grads({grad_y, grad_h, grad_c}, {gates, hidden, cell, w_hh, b_hh}, batch_sizes,
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

}  // namespace moonlet::formulas

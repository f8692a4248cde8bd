// autograd/composite/recurrent_steps.cpp: recurrent networks over whole sequences, step by step
// forward; autograd/formulas/recurrent.cpp goes back.
#include "autograd/composite/recurrent.h"

#include "autograd/uses_composite_recurrent_steps.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet::recurrent {

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

namespace {

void write(const Tensor& to, const Tensor& from) {
  Tensor target = to;
  copy_(target, from);
}

Tensor activated(const Tensor& x, int64_t mode) { return mode == kRnnTanh ? tanh(x) : relu(x); }

}  // namespace

void check_batch_sizes(const char* op, const std::vector<int64_t>& sizes, int64_t rows) {
  int64_t left = rows, before = rows;
  for (const int64_t size : sizes) {
    // No rows at all are a batch of none.
    check(size >= (rows == 0 ? 0 : 1) && size <= before, op, ": batch size ", size, " after ",
          before, "; they are positive and do not grow");
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

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> run_steps(
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

}  // namespace moonlet::recurrent

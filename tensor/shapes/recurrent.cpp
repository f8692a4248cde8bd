// tensor/shapes/recurrent.cpp: argument checks and result shapes of the steps of recurrent
// networks.
#include "tensor/shapes_recurrent.h"

namespace moonlet::shapes {

namespace {

// (n, width) of the state, and a tensor of `parts` as wide rows beside it.
void check_state(const char* op, const Tensor& state) {
  check(state.dim() == 2, op, ": the state has shape ", state.sizes(), ", (n, size) is expected");
}
void check_gates(const char* op, const char* argument, const Tensor& gates, const Tensor& state,
                 int64_t parts) {
  check(gates.dim() == 2 && gates.size(0) == state.size(0) && gates.size(1) % parts == 0 &&
            gates.size(1) / parts == state.size(1),
        op, ": ", argument, " has shape ", gates.sizes(), " for a state of ", state.sizes(), ", ",
        parts, " as wide rows are expected");
}

}  // namespace

std::array<Result, 2> lstm_step(const Tensor& gates, const Tensor& cell) {
  check_state("lstm_step", cell);
  check_gates("lstm_step", "gates", gates, cell, 4);
  return {like(cell), like(cell)};
}

std::array<Result, 2> lstm_step_grads(const Tensor& grad_h, const Tensor& grad_c,
                                      const Tensor& gates, const Tensor& cell, const Tensor& c) {
  const char* op = "lstm_step_grads";
  check_state(op, cell);
  check_gates(op, "gates", gates, cell, 4);
  for (const Tensor* x : {&grad_h, &grad_c, &c}) check_same_shape(op, *x, cell);
  return {like(gates), like(cell)};
}

Result gru_step(const Tensor& x_gates, const Tensor& h_gates, const Tensor& hidden) {
  check_state("gru_step", hidden);
  check_gates("gru_step", "x_gates", x_gates, hidden, 3);
  check_gates("gru_step", "h_gates", h_gates, hidden, 3);
  return like(hidden);
}

std::array<Result, 3> gru_step_grads(const Tensor& grad, const Tensor& x_gates,
                                     const Tensor& h_gates, const Tensor& hidden) {
  check_same_shape("gru_step_grads", grad, hidden);
  check_state("gru_step_grads", hidden);
  check_gates("gru_step_grads", "x_gates", x_gates, hidden, 3);
  check_gates("gru_step_grads", "h_gates", h_gates, hidden, 3);
  return {like(x_gates), like(h_gates), like(hidden)};
}

}  // namespace moonlet::shapes

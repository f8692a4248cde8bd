// scripts/extension_lltm/lltm.cpp: one step of an LLTM as a function with a derivative of its own,
// whose gates are one loop each way: what lltm.lua computes by a dozen ops. lltm.cu has the loops
// for CUDA.
#include <moonlet/extension.h>

#include <moonlet/autograd/custom_function.h>
#include <moonlet/ops.h>
#include <moonlet/tensor/streams.h>

#include <cmath>
#include <tuple>
#include <vector>

#include "lltm.h"

namespace {

using moonlet::DType;
using moonlet::Tensor;

// What a tensor is refused for: the loops read float32 without gaps.
Tensor checked(const Tensor& x, const char* name) {
  moonlet::check(x.dtype() == DType::Float32, "lltm: '", name, "': expected float32, got ",
                 moonlet::name(x.dtype()));
  return moonlet::contiguous(x);
}

const float* read(const Tensor& x) { return reinterpret_cast<const float*>(x.raw()); }
float* write(Tensor& x) { return reinterpret_cast<float*>(x.raw()); }

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

// The loops of one row. `gates` holds before and after what the input, output and candidate gates
// are; of the candidate that is the value of elu.
void forward_row(float* gates, const float* cell, float* new_h, float* new_cell, int64_t state) {
  float *in = gates, *out = gates + state, *candidate = gates + 2 * state;
#pragma omp simd
  for (int64_t i = 0; i < state; ++i) {
    in[i] = sigmoid(in[i]);
    out[i] = sigmoid(out[i]);
    const float e = std::exp(candidate[i] < 0 ? candidate[i] : 0.0f) - 1;
    candidate[i] = candidate[i] > 0 ? candidate[i] : e;
    new_cell[i] = cell[i] + candidate[i] * in[i];
    new_h[i] = (2 * sigmoid(2 * new_cell[i]) - 1) * out[i];
  }
}

// Adds what it puts into grad_gates to grad_bias.
void backward_row(const float* gates, const float* new_cell, const float* grad_h,
                  const float* grad_cell, float* grad_gates, float* grad_old, float* grad_bias,
                  int64_t state) {
  const float *in = gates, *out = gates + state, *candidate = gates + 2 * state;
  float *d_in = grad_gates, *d_out = grad_gates + state, *d_candidate = grad_gates + 2 * state;
#pragma omp simd
  for (int64_t i = 0; i < state; ++i) {
    const float t = 2 * sigmoid(2 * new_cell[i]) - 1;
    const float d_cell = grad_cell[i] + grad_h[i] * out[i] * (1 - t * t);
    d_out[i] = grad_h[i] * t * out[i] * (1 - out[i]);
    d_in[i] = d_cell * candidate[i] * in[i] * (1 - in[i]);
    d_candidate[i] = d_cell * in[i] * (candidate[i] > 0 ? 1.0f : candidate[i] + 1);
    grad_old[i] = d_cell;
    grad_bias[i] += d_in[i];
    grad_bias[state + i] += d_out[i];
    grad_bias[2 * state + i] += d_candidate[i];
  }
}

#ifdef LLTM_CUDA
// The stream that ops on the device of x go to.
void* stream_of(const Tensor& x) {
  moonlet::Streams& streams = moonlet::require_streams("lltm");
  return streams.handle(moonlet::current_stream(x.device().index));
}
#else
[[noreturn]] void refuse_device(const Tensor& x) {
  moonlet::fail("lltm: its tensors are on ", moonlet::name(x.device()),
                ", for which it was not compiled");
}
#endif

void run_forward(Tensor& gates, const Tensor& cell, Tensor& new_h, Tensor& new_cell) {
  const int64_t rows = cell.sizes()[0], state = cell.sizes()[1];
  if (gates.device().is_cpu()) {
    for (int64_t r = 0; r < rows; ++r)
      forward_row(write(gates) + 3 * state * r, read(cell) + state * r, write(new_h) + state * r,
                  write(new_cell) + state * r, state);
    return;
  }
#ifdef LLTM_CUDA
  lltm_forward_cuda(write(gates), read(cell), write(new_h), write(new_cell), rows, state,
                    stream_of(gates));
#else
  refuse_device(gates);
#endif
}

// Gives the gradient of the bias.
Tensor run_backward(const Tensor& gates, const Tensor& new_cell, const Tensor& grad_h,
                    const Tensor& grad_cell, Tensor& grad_gates, Tensor& grad_old) {
  const int64_t rows = new_cell.sizes()[0], state = new_cell.sizes()[1];
  if (gates.device().is_cpu()) {
    Tensor grad_bias = moonlet::zeros({3 * state});
    for (int64_t r = 0; r < rows; ++r)
      backward_row(read(gates) + 3 * state * r, read(new_cell) + state * r,
                   read(grad_h) + state * r, read(grad_cell) + state * r,
                   write(grad_gates) + 3 * state * r, write(grad_old) + state * r, write(grad_bias),
                   state);
    return grad_bias;
  }
#ifdef LLTM_CUDA
  lltm_backward_cuda(read(gates), read(new_cell), read(grad_h), read(grad_cell), write(grad_gates),
                     write(grad_old), rows, state, stream_of(gates));
  return moonlet::sum(grad_gates, {0});
#else
  refuse_device(gates);
#endif
}

struct LLTM : moonlet::autograd::Function<LLTM> {
  static constexpr const char* name = "LLTM";
  using Context = moonlet::autograd::FunctionContext;

  static std::vector<Tensor> forward(Context& context, const Tensor& x, const Tensor& weight,
                                     const Tensor& bias, const Tensor& h, const Tensor& cell) {
    const Tensor old = checked(cell, "cell");
    const Tensor both = moonlet::cat({checked(h, "h"), checked(x, "x")}, 1);
    Tensor gates = moonlet::contiguous(moonlet::linear(both, weight, bias));
    moonlet::check(gates.sizes()[1] == 3 * old.sizes()[1], "lltm: expected a weight of ",
                   3 * old.sizes()[1], " rows, got ", gates.sizes()[1]);
    Tensor new_h = moonlet::empty_like(old), new_cell = moonlet::empty_like(old);
    run_forward(gates, old, new_h, new_cell);
    context.save_for_backward({new_cell, gates, both, weight});
    return {new_h, new_cell};
  }

  // It is no op, so it cannot be differentiated again.
  static std::vector<Tensor> backward(Context& context, const std::vector<Tensor>& grads) {
    moonlet::check(!moonlet::grad_enabled(), "lltm: its gradient has no derivative");
    const std::vector<Tensor> saved = context.saved_tensors();
    const Tensor &new_cell = saved[0], &gates = saved[1], &both = saved[2], &weight = saved[3];
    Tensor grad_gates = moonlet::empty_like(gates), grad_old = moonlet::empty_like(new_cell);
    const Tensor grad_bias =
        run_backward(gates, new_cell, checked(grads[0], "the gradient of h"),
                     checked(grads[1], "the gradient of cell"), grad_gates, grad_old);
    const Tensor grad_weight = moonlet::mm(moonlet::transpose(grad_gates, 0, 1), both);
    Tensor grad_x, grad_h;
    if (context.needs_input_grad(0) || context.needs_input_grad(3)) {
      const Tensor grad_both = moonlet::mm(grad_gates, weight);
      const int64_t state = new_cell.sizes()[1];
      grad_h = moonlet::narrow(grad_both, 1, 0, state);
      grad_x = moonlet::narrow(grad_both, 1, state, grad_both.sizes()[1] - state);
    }
    return {grad_x, grad_weight, grad_bias, grad_h, grad_old};
  }
};

// x (n, features), weight (3 state, state + features), bias (3 state), h and cell (n, state) -> the
// new h and cell.
std::tuple<Tensor, Tensor> step(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                const Tensor& h, const Tensor& cell) {
  const std::vector<Tensor> results = LLTM::apply(x, weight, bias, h, cell);
  return {results[0], results[1]};
}

}  // namespace

MOONLET_EXTENSION(lltm, module) { module.function("step", &step); }

// cuda/kernels/recurrent.cu: the steps of recurrent networks and their gradients: a thread for each
// element of the state.
#include <vector>

#include "cuda/kernels/common/geometry.cuh"
#include "cuda/runtime/device.h"
#include "tensor/functors/recurrent_steps-inl.h"
#include "tensor/kernels_recurrent.h"

namespace moonlet::cuda {

namespace {

// Input k of element j of row r is at offset r * in_step[k] + in_at[k] + j, and so the outputs.
struct StepRows {
  static constexpr int kMost = 8;
  Array in[kMost], out[kMost];
  int64_t in_at[kMost], in_step[kMost], out_at[kMost], out_step[kMost];
  int64_t width, count;
};

template <class F, class C>
__global__ void step_kernel(StepRows rows) {
  for (MOONLET_EACH(i, rows.count)) {
    const int64_t row = i / rows.width, j = i % rows.width;
    C values[F::kIn], results[F::kOut];
    for (int k = 0; k < F::kIn; ++k)
      values[k] = rows.in[k].get<C>(row * rows.in_step[k] + rows.in_at[k] + j);
    F()(static_cast<const C*>(values), static_cast<C*>(results));
    for (int k = 0; k < F::kOut; ++k)
      rows.out[k].set<C>(row * rows.out_step[k] + rows.out_at[k] + j, results[k]);
  }
}

// Step F of tensors (n, parts * width), each of which has that many values in turn.
template <class F>
void run(const char* op, std::initializer_list<const Tensor*> in,
         std::initializer_list<Tensor*> out, int64_t width) {
  const Tensor& first = **out.begin();
  if (first.numel() == 0) return;
  const Call call(first, op);
  StepRows rows{};
  rows.width = width;
  rows.count = first.size(0) * width;
  std::vector<Tensor> held;
  int k = 0;
  const auto add = [&](const Tensor& x, Array* arrays, int64_t* at, int64_t* step) {
    held.push_back(x);
    for (int64_t part = 0; part < x.size(1) / width; ++part, ++k) {
      arrays[k] = array(x);
      at[k] = part * width;
      step[k] = x.size(1);
    }
  };
  for (const Tensor* x : in) add(contiguous(*x), rows.in, rows.in_at, rows.in_step);
  k = 0;
  for (Tensor* y : out) add(contiguous(*y), rows.out, rows.out_at, rows.out_step);
  visit_device_compute<dtypes::floating>(first.dtype(), [&]<class C>() {
    MOONLET_LAUNCH((step_kernel<F, C>), blocks_for(rows.count), kBlock, 0, call.stream(), rows);
  });
  call.done();
  size_t result = held.size() - out.size();
  for (Tensor* y : out) {
    if (!y->is_contiguous()) copy_back(*y, held[result]);
    ++result;
  }
}

}  // namespace

void lstm_step(const Tensor& gates, const Tensor& cell, Tensor& h, Tensor& c) {
  run<functors::LstmStep>("lstm_step", {&gates, &cell}, {&h, &c}, cell.size(1));
}

void lstm_step_grads(const Tensor& grad_h, const Tensor& grad_c, const Tensor& gates,
                     const Tensor& cell, const Tensor& c, Tensor& grad_gates, Tensor& grad_cell) {
  run<functors::LstmStepGrads>("lstm_step_grads", {&grad_h, &grad_c, &gates, &cell, &c},
                               {&grad_gates, &grad_cell}, cell.size(1));
}

void gru_step(const Tensor& x_gates, const Tensor& h_gates, const Tensor& hidden, Tensor& y) {
  run<functors::GruStep>("gru_step", {&x_gates, &h_gates, &hidden}, {&y}, hidden.size(1));
}

void gru_step_grads(const Tensor& grad, const Tensor& x_gates, const Tensor& h_gates,
                    const Tensor& hidden, Tensor& grad_x_gates, Tensor& grad_h_gates,
                    Tensor& grad_hidden) {
  run<functors::GruStepGrads>("gru_step_grads", {&grad, &x_gates, &h_gates, &hidden},
                              {&grad_x_gates, &grad_h_gates, &grad_hidden}, hidden.size(1));
}

}  // namespace moonlet::cuda

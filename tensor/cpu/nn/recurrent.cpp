// tensor/cpu/nn/recurrent.cpp: the CPU kernels of the steps of recurrent networks and their
// gradients.
#include "tensor/cpu/pointwise/pointwise_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/nn/recurrent.cpp"
#include <vector>
#include "hwy/foreach_target.h"

#include "hwy/highway.h"
#include "tensor/cpu/common/contiguous.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/simd/simd-inl.h"
#include "tensor/functors/recurrent_steps-inl.h"

#ifndef MOONLET_TENSOR_CPU_RECURRENT_
#define MOONLET_TENSOR_CPU_RECURRENT_
namespace moonlet::cpu {
// The values of a step: row r of input k begins at in[k] + r * in_step[k], and so the outputs; the
// rows have `width` elements. Steps are in elements.
struct StepRows {
  static constexpr int kMost = 8;
  char *in[kMost], *out[kMost];
  int64_t in_step[kMost], out_step[kMost];
  int64_t width;
};
}  // namespace moonlet::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace moonlet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using cpu::StepRows;

template <class F, class T>
void step_row(const T* const* in, T* const* out, int64_t width) {
  const Tag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto at = [&](int64_t i) HWY_ATTR {
    Vec<T> values[F::kIn], results[F::kOut];
    for (int k = 0; k < F::kIn; ++k) values[k] = vec<T>(hn::LoadU(d, in[k] + i));
    F()(values, results);
    for (int k = 0; k < F::kOut; ++k) hn::StoreU(results[k].v, d, out[k] + i);
  };
  int64_t i = 0;
  for (; i + lanes <= width; i += lanes) at(i);
  // The last vector takes elements again; no output is an input.
  if (i < width && width >= lanes) return at(width - lanes);
  for (; i < width; ++i) {
    T values[F::kIn], results[F::kOut];
    for (int k = 0; k < F::kIn; ++k) values[k] = in[k][i];
    F()(values, results);
    for (int k = 0; k < F::kOut; ++k) out[k][i] = results[k];
  }
}

template <class F, class T>
void step_rows(const StepRows& rows, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const T* in[F::kIn];
    T* out[F::kOut];
    for (int k = 0; k < F::kIn; ++k)
      in[k] = reinterpret_cast<const T*>(rows.in[k]) + r * rows.in_step[k];
    for (int k = 0; k < F::kOut; ++k)
      out[k] = reinterpret_cast<T*>(rows.out[k]) + r * rows.out_step[k];
    step_row<F, T>(in, out, rows.width);
  }
}

#define MOONLET_STEP(name, F)                                                              \
  void name(bool wide, const StepRows& rows, int64_t begin, int64_t end) {                 \
    wide ? step_rows<F, double>(rows, begin, end) : step_rows<F, float>(rows, begin, end); \
  }
MOONLET_STEP(run_lstm_step, LstmStep)
MOONLET_STEP(run_lstm_step_grads, LstmStepGrads)
MOONLET_STEP(run_gru_step, GruStep)
MOONLET_STEP(run_gru_step_grads, GruStepGrads)
#undef MOONLET_STEP

}  // namespace HWY_NAMESPACE
}  // namespace moonlet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moonlet {
HWY_EXPORT(run_lstm_step);
HWY_EXPORT(run_lstm_step_grads);
HWY_EXPORT(run_gru_step);
HWY_EXPORT(run_gru_step_grads);

namespace cpu {
namespace {

// Runs `step(wide, rows, begin, end)` over the rows of tensors (n, parts * width), each of which
// gives that many values in turn.
template <class Step>
void run(std::initializer_list<const Tensor*> in, std::initializer_list<Tensor*> out, int64_t width,
         Step&& step) {
  const DType compute = compute_dtype((*out.begin())->dtype());
  if (width == 0 || (*out.begin())->numel() == 0) return;
  const int64_t bytes = width * static_cast<int64_t>(size_of(compute));
  std::vector<Tensor> held;
  StepRows rows{};
  rows.width = width;
  int at = 0;
  const auto add = [&](const Tensor& x, char** data, int64_t* steps) {
    held.push_back(x);
    for (int64_t part = 0; part < x.size(1) / width; ++part, ++at) {
      data[at] = x.raw() + part * bytes;
      steps[at] = x.size(1);
    }
  };
  for (const Tensor* x : in) add(converted(*x, compute), rows.in, rows.in_step);
  at = 0;
  for (Tensor* y : out) add(workspace(*y, compute), rows.out, rows.out_step);
  parallel_for((*out.begin())->size(0), grain_for(width * 64), [&](int64_t begin, int64_t end) {
    step(compute == DType::Float64, rows, begin, end);
  });
  size_t result = held.size() - out.size();
  for (Tensor* y : out) write_back(*y, held[result++]);
}

}  // namespace

void lstm_step(const Tensor& gates, const Tensor& cell, Tensor& h, Tensor& c) {
  run({&gates, &cell}, {&h, &c}, cell.size(1), HWY_DYNAMIC_DISPATCH(run_lstm_step));
}

void lstm_step_grads(const Tensor& grad_h, const Tensor& grad_c, const Tensor& gates,
                     const Tensor& cell, const Tensor& c, Tensor& grad_gates, Tensor& grad_cell) {
  run({&grad_h, &grad_c, &gates, &cell, &c}, {&grad_gates, &grad_cell}, cell.size(1),
      HWY_DYNAMIC_DISPATCH(run_lstm_step_grads));
}

void gru_step(const Tensor& x_gates, const Tensor& h_gates, const Tensor& hidden, Tensor& y) {
  run({&x_gates, &h_gates, &hidden}, {&y}, hidden.size(1), HWY_DYNAMIC_DISPATCH(run_gru_step));
}

void gru_step_grads(const Tensor& grad, const Tensor& x_gates, const Tensor& h_gates,
                    const Tensor& hidden, Tensor& grad_x_gates, Tensor& grad_h_gates,
                    Tensor& grad_hidden) {
  run({&grad, &x_gates, &h_gates, &hidden}, {&grad_x_gates, &grad_h_gates, &grad_hidden},
      hidden.size(1), HWY_DYNAMIC_DISPATCH(run_gru_step_grads));
}

}  // namespace cpu
}  // namespace moonlet
#endif

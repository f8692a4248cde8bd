// cuda/kernels/recurrent.cu: the steps of recurrent networks and their gradients: a thread for a
// pack of elements of the state.
#include <vector>

#include "cuda/kernels/common/coarse.cuh"
#include "cuda/kernels/common/geometry.cuh"
#include "cuda/kernels/common/typed.cuh"
#include "cuda/runtime/device.h"
#include "tensor/functors/recurrent_steps-inl.h"
#include "tensor/kernels_recurrent.h"

namespace moonlet::cuda {

namespace {

// Input k of element j of row r is in.x[k], element r * in.step[k] + j, and so the outputs.
template <class Source>
struct StepRows {
  static constexpr int kMost = 8;
  struct Side {
    Source x[kMost];
    int64_t step[kMost];
  } in, out;
};

__device__ __forceinline__ float number_of(Coarse v) { return v.v; }
__device__ __forceinline__ float number_of(float v) { return v; }
__device__ __forceinline__ double number_of(double v) { return v; }

// A thread for kCount elements side by side, whose arrays lie at multiples of as many.
template <class F, class T, int kCount>
__global__ void __launch_bounds__(kBlock)
    step_packs_kernel(const MOONLET_GRID_CONSTANT StepRows<Typed<T>> rows, Divider by_packs,
                      int32_t packs) {
  for (MOONLET_EACH_OF(int32_t, i, packs)) {
    const uint32_t row = by_packs.quotient(static_cast<uint32_t>(i));
    const uint32_t j = (i - row * by_packs.divisor) * kCount;
    Computed<T> in[F::kIn][kCount], out[F::kOut][kCount];
    MOONLET_UNROLL
    for (int k = 0; k < F::kIn; ++k)
      load_floats<kCount>(rows.in.x[k].data + (row * rows.in.step[k] + j), in[k]);
    MOONLET_UNROLL
    for (int e = 0; e < kCount; ++e) {
      using V = std::conditional_t<sizeof(T) == 2, Coarse, T>;
      V values[F::kIn], results[F::kOut];
      MOONLET_UNROLL
      for (int k = 0; k < F::kIn; ++k) values[k] = V(in[k][e]);
      F()(static_cast<const V*>(values), static_cast<V*>(results));
      MOONLET_UNROLL
      for (int k = 0; k < F::kOut; ++k) out[k][e] = number_of(results[k]);
    }
    MOONLET_UNROLL
    for (int k = 0; k < F::kOut; ++k)
      store_floats<kCount>(rows.out.x[k].data + (row * rows.out.step[k] + j), out[k]);
  }
}

// The same of more elements than a Divider takes apart.
template <class F, class C>
__global__ void step_wide_kernel(const MOONLET_GRID_CONSTANT StepRows<Array> rows, int64_t width,
                                 int64_t count) {
  for (MOONLET_EACH(i, count)) {
    const int64_t row = i / width, j = i % width;
    C values[F::kIn], results[F::kOut];
    for (int k = 0; k < F::kIn; ++k)
      values[k] = rows.in.x[k].template get<C>(row * rows.in.step[k] + j);
    F()(static_cast<const C*>(values), static_cast<C*>(results));
    for (int k = 0; k < F::kOut; ++k)
      rows.out.x[k].template set<C>(row * rows.out.step[k] + j, results[k]);
  }
}

// The parts of contiguous tensors, `width` elements wide, each as source(tensor, first element).
template <class Source, class Make>
typename StepRows<Source>::Side parts_of(const std::vector<Tensor>& tensors, int64_t width,
                                         const Make& source) {
  typename StepRows<Source>::Side out{};
  int k = 0;
  for (const Tensor& x : tensors)
    for (int64_t at = 0; at < x.size(1); at += width, ++k) {
      out.x[k] = source(x, at);
      out.step[k] = x.size(1);
    }
  return out;
}

template <class F, class T, int kCount>
void launch_packs(const Call& call, const std::vector<Tensor>& in, const std::vector<Tensor>& out,
                  int64_t rows, int64_t width) {
  const auto source = [](const Tensor& x, int64_t at) { return Typed<T>{typed<T>(x).data + at}; };
  const StepRows<Typed<T>> all{parts_of<Typed<T>>(in, width, source),
                               parts_of<Typed<T>>(out, width, source)};
  const int64_t packs = rows * width / kCount;
  MOONLET_LAUNCH((step_packs_kernel<F, T, kCount>), blocks_for(packs), kBlock, 0, call.stream(),
                 all, Divider(width / kCount), static_cast<int32_t>(packs));
}

template <class F, class C>
void launch_wide(const Call& call, const std::vector<Tensor>& in, const std::vector<Tensor>& out,
                 int64_t rows, int64_t width) {
  const auto source = [](const Tensor& x, int64_t at) {
    return Array{x.raw() + at * static_cast<int64_t>(size_of(x.dtype())), x.dtype()};
  };
  const StepRows<Array> all{parts_of<Array>(in, width, source),
                            parts_of<Array>(out, width, source)};
  MOONLET_LAUNCH((step_wide_kernel<F, C>), blocks_for(rows * width), kBlock, 0, call.stream(), all,
                 width, rows * width);
}

template <class F>
void launch(const Call& call, const std::vector<Tensor>& in, const std::vector<Tensor>& out,
            int64_t rows, int64_t width) {
  const DType dtype = out[0].dtype();
  bool aligned = width * static_cast<int64_t>(size_of(dtype)) % 16 == 0;
  for (const auto* tensors : {&in, &out})
    for (const Tensor& x : *tensors) aligned = aligned && aligned_to(x.raw(), 16);
  if (rows * width >= kDividerLimit)
    return visit_device_compute<dtypes::floating>(
        dtype, [&]<class C>() { launch_wide<F, C>(call, in, out, rows, width); });
  visit_float_types(dtype, [&]<class T>() {
    // Two doubles at once would cost more registers than they save time.
    constexpr int kCount = sizeof(T) == 8 ? 1 : kPackOf<T>;
    if (aligned)
      launch_packs<F, T, kCount>(call, in, out, rows, width);
    else
      launch_packs<F, T, 1>(call, in, out, rows, width);
  });
}

// Step F of tensors (n, parts * width), each of which has that many values in turn.
template <class F>
void run(const char* op, std::initializer_list<const Tensor*> in,
         std::initializer_list<Tensor*> out, int64_t width) {
  const Tensor& first = **out.begin();
  if (first.numel() == 0) return;
  const Call call(first, op);
  std::vector<Tensor> inputs, results;
  for (const Tensor* x : in) inputs.push_back(contiguous(*x));
  for (Tensor* y : out) results.push_back(contiguous(*y));
  launch<F>(call, inputs, results, first.size(0), width);
  call.done();
  size_t result = 0;
  for (Tensor* y : out) {
    if (!y->is_contiguous()) copy_back(*y, results[result]);
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

// cuda/pointwise.cuh: the elementwise engine: one kernel per functor and compute type, which takes
// packs of dense elements where it can and otherwise finds and converts each element. A generated
// file lists the ops of a family as X(name, Functor, inputs, parameters, dtypes, divides).
#pragma once

#include "cuda/complex_math.h"
#include "cuda/device.h"
#include "cuda/geometry.cuh"
#include "tensor/functors-inl.h"
#include "tensor/pointwise/plan.h"

namespace moonlet::cuda {

// The compute types a row asks for; S is a distinction of the CPU's.
enum : int { kF = 1, kS = kF, kI = 2, kC = 4, kFI = 3, kFC = 5, kIC = 6, kFIC = 7 };

// A plan as a kernel's argument. Strides are in bytes and dimension 0 is the innermost.
template <int N>
struct PointwiseGrid {
  int ndim;
  int64_t numel;
  int64_t sizes[kMaxDims];
  int64_t strides[N + 1][kMaxDims];  // the inputs, then the result
  char* data[N + 1];
  DType dtypes[N + 1];
  bool is_number[N];
  bool direct;  // dense, of the compute dtype
  bool narrow;  // every count fits 32 bits
  int* zero_divisor;
};

template <class C, int N>
struct PointwiseValues {
  C v[N > 0 ? N : 1];
};

template <class F, class C, size_t... I, size_t... P>
__device__ __forceinline__ C apply(const C* in, const C* params, std::index_sequence<I...>,
                                   std::index_sequence<P...>) {
  return F()(in[I]..., params[P]...);
}

template <int N>
__device__ __forceinline__ void locate(const PointwiseGrid<N>& g, int64_t i, char** at) {
  for (int t = 0; t <= N; ++t) at[t] = g.data[t];
  for (int d = 0; d < g.ndim; ++d) {
    int64_t rest;
    if (d == g.ndim - 1) {
      rest = i;
    } else if (g.narrow) {
      const uint32_t a = static_cast<uint32_t>(i), b = static_cast<uint32_t>(g.sizes[d]);
      i = a / b;
      rest = a % b;
    } else {
      rest = i % g.sizes[d];
      i /= g.sizes[d];
    }
    for (int t = 0; t <= N; ++t) at[t] += rest * g.strides[t][d];
  }
}

template <class C>
struct alignas(sizeof(C) * (sizeof(C) >= 16 ? 1 : 16 / sizeof(C))) Pack {
  static constexpr int kCount = sizeof(C) >= 16 ? 1 : 16 / sizeof(C);
  C v[kCount];
};

template <class F, class C, int N, int P, bool kDivides>
__global__ void pointwise_kernel(PointwiseGrid<N> g, PointwiseValues<C, N> numbers,
                                 PointwiseValues<C, P> params) {
  constexpr auto inputs = std::make_index_sequence<N>();
  constexpr auto scalars = std::make_index_sequence<P>();
  constexpr int kPack = Pack<C>::kCount;
  C in[N];
  if (g.direct && !kDivides) {
    const int64_t packs = g.numel / kPack;
    for (MOONLET_EACH(i, packs)) {
      Pack<C> read[N], result;
      for (int t = 0; t < N; ++t)
        if (!g.is_number[t]) read[t] = reinterpret_cast<const Pack<C>*>(g.data[t])[i];
      for (int k = 0; k < kPack; ++k) {
        for (int t = 0; t < N; ++t) in[t] = g.is_number[t] ? numbers.v[t] : read[t].v[k];
        result.v[k] = apply<F>(in, params.v, inputs, scalars);
      }
      reinterpret_cast<Pack<C>*>(g.data[N])[i] = result;
    }
    for (MOONLET_EACH(i, g.numel - packs * kPack)) {
      const int64_t at = packs * kPack + i;
      for (int t = 0; t < N; ++t)
        in[t] = g.is_number[t] ? numbers.v[t] : reinterpret_cast<const C*>(g.data[t])[at];
      reinterpret_cast<C*>(g.data[N])[at] = apply<F>(in, params.v, inputs, scalars);
    }
    return;
  }
  for (MOONLET_EACH(i, g.numel)) {
    char* at[N + 1];
    locate(g, i, at);
    for (int t = 0; t < N; ++t) in[t] = g.is_number[t] ? numbers.v[t] : load<C>(at[t], g.dtypes[t]);
    if constexpr (kDivides)
      if (in[1] == C(0)) *g.zero_divisor = 1;
    store<C>(at[N], g.dtypes[N], apply<F>(in, params.v, inputs, scalars));
  }
}

// Whether packs of 16 bytes can be read and written at every operand.
bool aligned_for_packs(const PointwisePlan& plan);
// A zeroed flag in device memory for kernels to set, and whether one did; `wait` throws for op.
int* zero_flag(const char* op, cudaStream_t stream, Tensor& holder, Device device);
void throw_if_divided(const char* op, cudaStream_t stream, const int* flag);

template <class F, class C, int N, int P, bool kDivides>
void run_pointwise(const PointwisePlan& plan) {
  const DeviceGuard guard(plan.device.index, plan.op);
  PointwiseGrid<N> g;
  g.ndim = plan.ndim;
  g.numel = plan.numel;
  g.narrow = plan.numel <= UINT32_MAX;
  g.direct = plan.direct && aligned_for_packs(plan);
  PointwiseValues<C, N> numbers{};
  PointwiseValues<C, P> params{};
  for (int d = 0; d < plan.ndim; ++d) g.sizes[d] = plan.sizes[d];
  const auto fill = [&](int t, const PointwiseArg& arg) {
    for (int d = 0; d < plan.ndim; ++d) g.strides[t][d] = arg.scalar ? 0 : arg.strides[d];
    g.data[t] = arg.scalar ? nullptr : arg.data;
    g.dtypes[t] = arg.scalar ? plan.compute : arg.dtype;
  };
  for (int t = 0; t < N; ++t) {
    fill(t, plan.in[t]);
    g.is_number[t] = plan.in[t].scalar != nullptr;
    if (plan.in[t].scalar) numbers.v[t] = scalar_as<C>(*plan.in[t].scalar);
  }
  fill(N, plan.out);
  for (int p = 0; p < P; ++p) params.v[p] = scalar_as<C>(plan.params[p]);
  const cudaStream_t stream = current_stream(plan.device.index);
  Tensor holder;
  g.zero_divisor = kDivides ? zero_flag(plan.op, stream, holder, plan.device) : nullptr;
  const int64_t threads = g.direct ? plan.numel / Pack<C>::kCount + 1 : plan.numel;
  MOONLET_LAUNCH((pointwise_kernel<F, C, N, P, kDivides>), blocks_for(threads), kBlock, 0, stream,
                 g, numbers, params);
  launched(plan.op, stream);
  if constexpr (kDivides) throw_if_divided(plan.op, stream, g.zero_divisor);
}

template <class F, int N, int P, int kTypes, bool kDivides>
void run_functor(const PointwisePlan& plan) {
  if constexpr ((kTypes & kF) != 0) {
    if (plan.compute == DType::Float32) return run_pointwise<F, float, N, P, false>(plan);
    if (plan.compute == DType::Float64) return run_pointwise<F, double, N, P, false>(plan);
  }
  if constexpr ((kTypes & kI) != 0)
    if (plan.compute == DType::Int64) return run_pointwise<F, int64_t, N, P, kDivides>(plan);
  if constexpr ((kTypes & kC) != 0) {
    if (plan.compute == DType::Complex64)
      return run_pointwise<F, Complex<float>, N, P, false>(plan);
    if (plan.compute == DType::Complex128)
      return run_pointwise<F, Complex<double>, N, P, false>(plan);
  }
  fail(plan.op, ": dtype ", plan.compute, " has no CUDA kernel");
}

#define MOONLET_CUDA_POINTWISE(name, Functor, inputs, params, types, divides)        \
  void name(const PointwisePlan& plan) {                                             \
    run_functor<::moonlet::functors::Functor, inputs, params, types, divides>(plan); \
  }

}  // namespace moonlet::cuda

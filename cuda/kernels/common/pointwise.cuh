// cuda/kernels/common/pointwise.cuh: the elementwise engine. Where a functor's operands have one
// dtype and lie dense along the innermost dimension, or are the same along it, a kernel for that
// width of elements takes packs of 16 bytes; otherwise one for each compute type finds and converts
// each element. A generated file lists the ops of a family as MOONLET_CUDA_POINTWISE(...).
#pragma once

#include "cuda/kernels/common/coarse.cuh"
#include "cuda/kernels/common/faults.cuh"
#include "cuda/kernels/common/floats.cuh"
#include "cuda/kernels/common/geometry.cuh"
#include "cuda/kernels/common/packs.cuh"
#include "cuda/kernels/complex_math.h"
#include "cuda/runtime/device.h"
#include "tensor/functors/functors-inl.h"
#include "tensor/pointwise/plan.h"

namespace moonlet::cuda {

// The compute types a row asks for; S is a distinction of the CPU's.
enum : int { kF = 1, kS = kF, kI = 2, kC = 4, kFI = 3, kFC = 5, kIC = 6, kFIC = 7 };

// How much code a functor is: what the compiler may make of it.
//   kShort: packs of every dtype.
//   kCoarse: the same, the 16-bit floats as Coarse.
//   kMiddle: packs of float32 and of the 16-bit floats.
//   kLong: no packs, since it takes longer than its memory does.
enum Effort { kShort, kCoarse, kMiddle, kLong };

template <class C, int N>
struct PointwiseValues {
  C v[N > 0 ? N : 1];
};

template <class F, class C, size_t... I, size_t... P>
__device__ __forceinline__ C apply(const C* in, const C* params, std::index_sequence<I...>,
                                   std::index_sequence<P...>) {
  return F()(in[I]..., params[P]...);
}

// A plan as a kernel's argument, for elements found one by one and of any dtype. Strides are in
// bytes and dimension 0 is the innermost.
template <int N>
struct PointwiseGrid {
  int ndim;
  bool narrow;  // every element's number can be divided by `by`
  int64_t numel;
  Divider by[kMaxDims];
  int64_t sizes[kMaxDims];
  int64_t strides[N + 1][kMaxDims];  // the inputs, then the result
  char* data[N + 1];
  DType dtypes[N + 1];
  bool is_number[N];
  Reporter zero_divisor;
};

template <int N>
__device__ __forceinline__ void locate(const PointwiseGrid<N>& g, int64_t i, char** at) {
  for (int t = 0; t <= N; ++t) at[t] = g.data[t];
  for (int d = 0; d < g.ndim; ++d) {
    int64_t rest = i;
    if (d < g.ndim - 1) {
      if (g.narrow) {
        const auto left = static_cast<uint32_t>(i);
        const uint32_t quotient = g.by[d].quotient(left);
        rest = left - quotient * g.by[d].divisor;
        i = quotient;
      } else {
        rest = i % g.sizes[d];
        i /= g.sizes[d];
      }
    }
    for (int t = 0; t <= N; ++t) at[t] += rest * g.strides[t][d];
  }
}

template <class F, class C, int N, int P, bool kDivides, bool kTwice>
__global__ void __launch_bounds__(kBlock)
    elements_kernel(const MOONLET_GRID_CONSTANT PointwiseGrid<N> g,
                    const MOONLET_GRID_CONSTANT PointwiseValues<C, N> numbers,
                    const MOONLET_GRID_CONSTANT PointwiseValues<C, P> params) {
  constexpr int kEach = kTwice ? 2 : 1;  // elements that are on their way at once
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < g.numel;
       i += kEach * step) {
    C in[kEach][N];
    char* to[kEach];
    MOONLET_UNROLL
    for (int e = 0; e < kEach; ++e) {
      if (i + e * step >= g.numel) continue;
      char* at[N + 1];
      locate(g, i + e * step, at);
      MOONLET_UNROLL
      for (int t = 0; t < N; ++t)
        in[e][t] = g.is_number[t] ? numbers.v[t] : load<C>(at[t], g.dtypes[t]);
      to[e] = at[N];
    }
    MOONLET_UNROLL
    for (int e = 0; e < kEach; ++e) {
      if (i + e * step >= g.numel) continue;
      if constexpr (kDivides)
        if (in[e][1] == C(0)) report(g.zero_divisor, 0, 0);
      store<C>(
          to[e], g.dtypes[N],
          apply<F>(in[e], params.v, std::make_index_sequence<N>(), std::make_index_sequence<P>()));
    }
  }
}

// A plan whose elements lie in packs: along the innermost dimension every operand is dense, and
// aligned, or the same. Strides are in bytes, those of the outer dimensions.
struct PackedGrid {
  enum Mode : uint8_t { kDense, kConstant, kNumber };
  static constexpr int kMaxOuter = 4;

  uint32_t packs, rest;   // whole packs of all rows; elements after them, where there is one row
  int outer;              // dimensions beside the innermost
  Divider by[kMaxOuter];  // the packs of a row, then the sizes of the outer dimensions but the last
  int64_t strides[kMaxPointwiseInputs + 1][kMaxOuter];
  char* data[kMaxPointwiseInputs + 1];  // the inputs, then the result
  Mode mode[kMaxPointwiseInputs];
  Code code[kMaxPointwiseInputs + 1];
};

// What the packs of a kernel are made of: bytes of an element, the dtype of floats of 16 bits, the
// input that is a mask (-1: none) and whether the result is one.
struct PackKind {
  int element;
  DType half;
  int mask;
  bool truth;
};

// How many elements make a pack, and how many packs a thread reads before it computes.
template <class T>
inline constexpr int pack_count = 16 / sizeof(T);
template <class T>
inline constexpr int packs_each = sizeof(T) == 1 ? 1 : 2;

// Element k of a pack of type T as a C; of bytes, `code` says what they are.
template <class C, class T, int kBytes>
__device__ __forceinline__ C element_at(const Words<kBytes>& words, int k, Code code) {
  if constexpr (sizeof(T) == 2)
    return widened_half(words.v[k / 2], k % 2, T());
  else
    return decoded<C, sizeof(T)>(bits_at<sizeof(T)>(words, k), code);
}

// The bytes from an operand's start to a pack's row; `pack` becomes the position in the row.
template <int N>
__device__ __forceinline__ void locate_row(const PackedGrid& g, uint32_t& pack, int64_t* at) {
  MOONLET_UNROLL
  for (int t = 0; t <= N; ++t) at[t] = 0;
  if (g.outer == 0) return;
  uint32_t left = g.by[0].quotient(pack);
  pack -= left * g.by[0].divisor;
  for (int d = 0; d < g.outer; ++d) {
    const uint32_t quotient = d + 1 < g.outer ? g.by[d + 1].quotient(left) : 0;
    const uint32_t position = d + 1 < g.outer ? left - quotient * g.by[d + 1].divisor : left;
    left = quotient;
    MOONLET_UNROLL
    for (int t = 0; t <= N; ++t) at[t] += position * g.strides[t][d];
  }
}

// Input t of a pack: as it lies in memory, or one element.
template <int kBytes, int kCount>
__device__ __forceinline__ Words<kBytes * kCount> load_operand(const PackedGrid& g, int t,
                                                               int64_t row, uint32_t pack) {
  Words<kBytes * kCount> out{};
  const char* p = g.data[t] + row;
  if (g.mode[t] == PackedGrid::kDense)
    return load_words<kBytes * kCount>(p + int64_t{pack} * (kBytes * kCount));
  if (g.mode[t] == PackedGrid::kConstant) {
    const Words<kBytes> one = load_words<kBytes>(p);
    const uint64_t bits = bits_at<kBytes>(one, 0);
    MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k) set_bits<kBytes>(out, k, bits);
  }
  return out;
}

// V is what the functor takes, C its numbers, T the elements.
template <class F, class V, class C, class T, int N, int P, int kMask, bool kTruth>
struct PackedKernel {
  static constexpr int kCount = pack_count<T>;
  template <int kIndex>
  using Element = std::conditional_t<kIndex == kMask, uint8_t, T>;
  static constexpr int bytes_of_input(int t) { return t == kMask ? 1 : sizeof(T); }
  using Out = std::conditional_t<kTruth, uint8_t, T>;
  static constexpr int kOut = sizeof(Out);

  // The inputs of one pack, a tuple of Words.
  template <class Indices>
  struct Inputs;
  template <int kIndex>
  struct Input {
    Words<bytes_of_input(kIndex) * kCount> words;
  };
  template <size_t... I>
  struct Inputs<std::index_sequence<I...>> : Input<static_cast<int>(I)>... {
    __device__ void load(const PackedGrid& g, const int64_t* rows, uint32_t pack) {
      ((static_cast<Input<static_cast<int>(I)>&>(*this).words =
            load_operand<bytes_of_input(I), kCount>(g, I, rows[I], pack)),
       ...);
    }
    __device__ C apply_at(const PackedGrid& g, const C* numbers, const C* params, int k) const {
      const C in[N] = {
          is_number<I>(g)
              ? numbers[I]
              : element_at<C, Element<static_cast<int>(I)>>(
                    static_cast<const Input<static_cast<int>(I)>&>(*this).words, k, g.code[I])...};
      return applied(in, params, std::make_index_sequence<P>());
    }
    // One element that is in no pack, element `k` of the only row.
    __device__ C apply_alone(const PackedGrid& g, const C* numbers, const C* params,
                             int64_t k) const {
      const C in[N] = {
          is_number<I>(g)
              ? numbers[I]
              : element_at<C, Element<static_cast<int>(I)>>(
                    load_words<bytes_of_input(I)>(
                        g.data[I] + (g.mode[I] == PackedGrid::kDense ? k * bytes_of_input(I) : 0)),
                    0, g.code[I])...};
      return applied(in, params, std::make_index_sequence<P>());
    }
    template <size_t kIndex>
    __device__ static bool is_number(const PackedGrid& g) {
      return N > 1 && g.mode[kIndex] == PackedGrid::kNumber;
    }
    template <size_t... J>
    __device__ static C applied(const C* in, const C* params, std::index_sequence<J...>) {
      if constexpr (std::is_same_v<V, Coarse>)
        return F()(Coarse(in[I])..., Coarse(params[J])...).v;
      else
        return F()(in[I]..., params[J]...);
    }
  };
  using AllInputs = Inputs<std::make_index_sequence<N>>;
};

template <class F, class V, class C, class T, int N, int P, int kMask, bool kTruth>
__global__ void __launch_bounds__(kBlock)
    packed_kernel(const MOONLET_GRID_CONSTANT PackedGrid g,
                  const MOONLET_GRID_CONSTANT PointwiseValues<C, N> numbers,
                  const MOONLET_GRID_CONSTANT PointwiseValues<C, P> params) {
  using Kernel = PackedKernel<F, V, C, T, N, P, kMask, kTruth>;
  constexpr int kCount = Kernel::kCount, kOut = Kernel::kOut, kEach = packs_each<T>;
  const uint32_t first = blockIdx.x * (kBlock * kEach) + threadIdx.x;
  typename Kernel::AllInputs in[kEach];
  char* to[kEach];
  MOONLET_UNROLL
  for (int e = 0; e < kEach; ++e) {
    uint32_t pack = first + e * kBlock;
    if (pack >= g.packs) continue;
    int64_t rows[N + 1];
    locate_row<N>(g, pack, rows);
    in[e].load(g, rows, pack);
    to[e] = g.data[N] + rows[N] + int64_t{pack} * (kOut * kCount);
  }
  MOONLET_UNROLL
  for (int e = 0; e < kEach; ++e) {
    if (first + e * kBlock >= g.packs) continue;
    C results[kCount];
    MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k) results[k] = in[e].apply_at(g, numbers.v, params.v, k);
    Words<kOut * kCount> out{};
    if constexpr (kOut == 2) {
      MOONLET_UNROLL
      for (int w = 0; w < kCount / 2; ++w) out.v[w] = narrow_pair(results + 2 * w, T());
    } else {
      MOONLET_UNROLL
      for (int k = 0; k < kCount; ++k)
        set_bits<kOut>(out, k, encoded<C, kOut>(results[k], g.code[N]));
    }
    store_words(to[e], out);
  }
  if (first < g.rest) {
    const int64_t k = int64_t{g.packs} * kCount + first;
    const C result = in[0].apply_alone(g, numbers.v, params.v, k);
    char* at = g.data[N] + k * kOut;
    if constexpr (kOut == 2) {
      store_float<T>(at, result);
    } else {
      Words<kOut> out{};
      set_bits<kOut>(out, 0, encoded<C, kOut>(result, g.code[N]));
      store_words(at, out);
    }
  }
}

// Fills a grid; false where the plan's operands do not lie so.
bool packed_grid(const PointwisePlan& plan, PackKind kind, PackedGrid& g);

template <class C, int N>
PointwiseValues<C, N> numbers_of(const PointwisePlan& plan) {
  PointwiseValues<C, N> out{};
  for (int t = 0; t < N; ++t)
    if (plan.in[t].scalar) out.v[t] = scalar_as<C>(*plan.in[t].scalar);
  return out;
}

template <class C, int P>
PointwiseValues<C, P> params_of(const PointwisePlan& plan) {
  PointwiseValues<C, P> out{};
  for (int p = 0; p < P; ++p) out.v[p] = scalar_as<C>(plan.params[p]);
  return out;
}

template <class F, class C, int N, int P, bool kDivides, bool kTwice>
void run_elements(const PointwisePlan& plan) {
  const DeviceGuard guard(plan.device.index, plan.op);
  PointwiseGrid<N> g;
  g.ndim = plan.ndim;
  g.numel = plan.numel;
  g.narrow = plan.numel < kDividerLimit;
  for (int d = 0; d < plan.ndim; ++d) {
    g.sizes[d] = plan.sizes[d];
    if (g.narrow) g.by[d] = Divider(plan.sizes[d]);
  }
  const auto fill = [&](int t, const PointwiseArg& arg) {
    for (int d = 0; d < plan.ndim; ++d) g.strides[t][d] = arg.scalar ? 0 : arg.strides[d];
    g.data[t] = arg.scalar ? nullptr : arg.data;
    g.dtypes[t] = arg.scalar ? plan.compute : arg.dtype;
  };
  for (int t = 0; t < N; ++t) {
    fill(t, plan.in[t]);
    g.is_number[t] = plan.in[t].scalar != nullptr;
  }
  fill(N, plan.out);
  const cudaStream_t stream = current_stream(plan.device.index);
  g.zero_divisor = kDivides ? reporter(plan.device.index, plan.op, Fault::Division) : Reporter{};
  MOONLET_LAUNCH((elements_kernel<F, C, N, P, kDivides, kTwice>),
                 blocks_for((plan.numel + kTwice) / (1 + kTwice)), kBlock, 0, stream, g,
                 (numbers_of<C, N>(plan)), (params_of<C, P>(plan)));
  launched(plan.op, stream);
}

// Runs the packs of elements T; false when the plan is not made for them.
template <class F, class V, class C, class T, int N, int P, int kMask, bool kTruth>
bool try_packs(const PointwisePlan& plan) {
  constexpr DType kHalf = sizeof(T) == 2 ? dtype_of<T> : DType::Float16;
  PackedGrid g;
  if (!packed_grid(plan, {sizeof(T), kHalf, kMask, kTruth}, g)) return false;
  const DeviceGuard guard(plan.device.index, plan.op);
  const cudaStream_t stream = current_stream(plan.device.index);
  constexpr int64_t kTeam = int64_t{kBlock} * packs_each<T>;
  const int64_t blocks = (g.packs + kTeam - 1) / kTeam;
  MOONLET_LAUNCH((packed_kernel<F, V, C, T, N, P, kMask, kTruth>),
                 static_cast<unsigned>(blocks > 0 ? blocks : 1), kBlock, 0, stream, g,
                 (numbers_of<C, N>(plan)), (params_of<C, P>(plan)));
  launched(plan.op, stream);
  return true;
}

template <class F, int N, int P, int kTypes, bool kDivides, int kMask, bool kTruth, Effort effort>
struct PointwiseFunctor {
  static constexpr bool kAll = effort == kShort || effort == kCoarse, kTwice = kAll;

  template <class C, class T>
  static bool packs(const PointwisePlan& plan) {
    using V = std::conditional_t<effort == kCoarse && sizeof(T) == 2, Coarse, C>;
    return try_packs<F, V, C, T, N, P, kMask, kTruth>(plan);
  }

  static void floats(const PointwisePlan& plan) {
    if constexpr (effort != kLong) {
      if (packs<float, float>(plan) || packs<float, half>(plan) || packs<float, bfloat16>(plan))
        return;
    }
    run_elements<F, float, N, P, false, kTwice>(plan);
  }
  static void doubles(const PointwisePlan& plan) {
    if constexpr (kAll) {
      if (packs<double, double>(plan)) return;
    }
    run_elements<F, double, N, P, false, kTwice>(plan);
  }
  static void ints(const PointwisePlan& plan) {
    if constexpr (kAll && !kDivides) {
      if (packs<int64_t, int64_t>(plan) || packs<int64_t, int32_t>(plan) ||
          packs<int64_t, uint8_t>(plan))
        return;
    }
    run_elements<F, int64_t, N, P, kDivides, kTwice>(plan);
  }

  static void run(const PointwisePlan& plan) {
    if constexpr ((kTypes & kF) != 0) {
      if (plan.compute == DType::Float32) return floats(plan);
      if (plan.compute == DType::Float64) return doubles(plan);
    }
    if constexpr ((kTypes & kI) != 0)
      if (plan.compute == DType::Int64) return ints(plan);
    if constexpr ((kTypes & kC) != 0) {
      if (plan.compute == DType::Complex64)
        return run_elements<F, Complex<float>, N, P, false, kTwice>(plan);
      if (plan.compute == DType::Complex128)
        return run_elements<F, Complex<double>, N, P, false, kTwice>(plan);
    }
    fail(plan.op, ": dtype ", plan.compute, " has no CUDA kernel");
  }
};

#define MOONLET_CUDA_POINTWISE(name, Functor, inputs, params, types, divides, mask, truth, effort) \
  void name(const PointwisePlan& plan) {                                                           \
    PointwiseFunctor<::moonlet::functors::Functor, inputs, params, types, divides, mask, truth,    \
                     effort>::run(plan);                                                           \
  }

}  // namespace moonlet::cuda

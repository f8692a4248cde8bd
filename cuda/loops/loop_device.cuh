// cuda/loops/loop_device.cuh: what the source of a loop (loop_source.h) is written in: reading
// operands, one element or a pack of them, ops, and the kernels. NVRTC compiles it, and the host's
// compiler in the emulation; nothing else includes it.
#pragma once

#include <cstdint>
#include <cstring>

#include "cuda/kernels/common/conversions.cuh"
#include "tensor/functors/functors-inl.h"

#ifdef __CUDACC_RTC__
#define MOONLET_LOOP __device__ __forceinline__
#define MOONLET_LOOP_UNROLL _Pragma("unroll")
#else
#define MOONLET_LOOP inline
#define MOONLET_LOOP_UNROLL
#endif

namespace moonlet::cuda::loops {

// What a kernel is given, of 64 bits each: how many packs there are, a zero, the sizes, of each
// operand its address, its strides and the distance of its elements in a pack, and numbers.
template <int kCount>
struct Arguments {
  uint64_t words[kCount];
};

template <class T>
MOONLET_LOOP T number(uint64_t word) {
  T out;
  memcpy(&out, &word, sizeof out);
  return out;
}

// The addresses of all operands at index i. Dimension 0 is the innermost.
template <int kDims, int kOperands, class Index>
MOONLET_LOOP void locate(const uint64_t* words, Index i, char** at) {
  const uint64_t* operands = words + 2 + kDims;
  MOONLET_LOOP_UNROLL
  for (int o = 0; o < kOperands; ++o) at[o] = reinterpret_cast<char*>(operands[o * (kDims + 2)]);
  MOONLET_LOOP_UNROLL
  for (int d = 0; d < kDims; ++d) {
    Index position = i;
    if (d + 1 < kDims) {
      const Index size = static_cast<Index>(words[2 + d]);
      i = position / size;
      position -= i * size;
    }
    MOONLET_LOOP_UNROLL
    for (int o = 0; o < kOperands; ++o)
      at[o] +=
          static_cast<int64_t>(position) * static_cast<int64_t>(operands[o * (kDims + 2) + 1 + d]);
  }
}

template <class T, int W>
struct Pack {
  T at[W];
};
// As many bytes, which are moved at once.
template <int kBytes>
struct alignas(kBytes) Bytes {
  uint32_t words[kBytes / 4];
};
template <>
struct Bytes<1> {
  uint8_t word;
};
template <>
struct Bytes<2> {
  uint16_t word;
};

template <class T, int W>
MOONLET_LOOP Pack<T, W> load_dense(const char* p) {
  const auto bytes = *reinterpret_cast<const Bytes<sizeof(T) * W>*>(p);
  Pack<T, W> out;
  memcpy(&out, &bytes, sizeof out);
  return out;
}
template <class T, int W>
MOONLET_LOOP Pack<T, W> load_apart(const char* p, uint64_t distance) {
  Pack<T, W> out;
  MOONLET_LOOP_UNROLL
  for (int k = 0; k < W; ++k)
    out.at[k] = *reinterpret_cast<const T*>(p + k * static_cast<int64_t>(distance));
  return out;
}
template <class T, int W>
MOONLET_LOOP Pack<T, W> load_same(const char* p) {
  const T one = *reinterpret_cast<const T*>(p);
  Pack<T, W> out;
  MOONLET_LOOP_UNROLL
  for (int k = 0; k < W; ++k) out.at[k] = one;
  return out;
}
template <class T, int W>
MOONLET_LOOP void store_dense(char* p, const Pack<T, W>& pack) {
  Bytes<sizeof(T) * W> bytes;
  memcpy(&bytes, &pack, sizeof bytes);
  *reinterpret_cast<Bytes<sizeof(T) * W>*>(p) = bytes;
}
template <class T, int W>
MOONLET_LOOP void store_apart(char* p, uint64_t distance, const Pack<T, W>& pack) {
  MOONLET_LOOP_UNROLL
  for (int k = 0; k < W; ++k)
    *reinterpret_cast<T*>(p + k * static_cast<int64_t>(distance)) = pack.at[k];
}

// The value, by way of a zero that the compiler does not know: what an op computes is not joined
// with the next one, a product and a sum to one rounding, so that the bits are those of the ops run
// one by one.
template <class C>
MOONLET_LOOP C alone(C value, uint64_t) {
  return value;
}
#ifdef __CUDACC_RTC__
MOONLET_LOOP float alone(float value, uint64_t zero) {
  return __uint_as_float(__float_as_uint(value) ^ static_cast<uint32_t>(zero));
}
MOONLET_LOOP double alone(double value, uint64_t zero) {
  return __longlong_as_double(__double_as_longlong(value) ^ static_cast<long long>(zero));
}
#endif
template <class T, class C>
MOONLET_LOOP T result(C value, uint64_t zero) {
  return convert<T>(alone(value, zero));
}

}  // namespace moonlet::cuda::loops

// The kernels of compute<W>(arguments, index), which the source has defined: NAME takes W elements
// a thread.
#ifdef __CUDACC_RTC__
#define MOONLET_LOOP_KERNEL(NAME, W)                                                           \
  extern "C" __global__ void __launch_bounds__(256)                                            \
      NAME(const __grid_constant__ Words arguments) {                                          \
    const Index step = static_cast<Index>(gridDim.x) * 256;                                    \
    for (Index i = static_cast<Index>(blockIdx.x) * 256 + threadIdx.x; i < arguments.words[0]; \
         i += step)                                                                            \
      compute<W>(arguments, i);                                                                \
  }
#else
// The emulation calls them for each thread.
#define MOONLET_LOOP_KERNEL(NAME, W)                                               \
  extern "C" const uint64_t NAME##_bytes = sizeof(Words);                          \
  extern "C" void NAME(const void* arguments, uint64_t thread, uint64_t threads) { \
    const Words& words = *static_cast<const Words*>(arguments);                    \
    for (uint64_t i = thread; i < words.words[0]; i += threads)                    \
      compute<W>(words, static_cast<Index>(i));                                    \
  }
#endif

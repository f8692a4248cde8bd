// cuda/kernels/common/floats.cuh: packs of floats for kernels that are compiled for each dtype of
// their elements: these as the numbers that are computed with, also where a pack begins at any
// element.
#pragma once

#include <cmath>

#include "cuda/kernels/common/packs.cuh"
#include "tensor/functors/functor_math.h"

namespace moonlet::cuda {

// What elements of type T are computed in.
template <class T>
using Computed = std::conditional_t<sizeof(T) == 2, float, T>;

// The numbers of 16 bytes of T.
template <class T>
struct Floats {
  static constexpr int kCount = 16 / sizeof(T);
  Computed<T> v[kCount];
};

#ifndef MOONLET_CUDA_EMULATED
// Two elements that share a word, and their word; one of them.
__device__ __forceinline__ void widen_pair(uint32_t word, float* out, bfloat16) {
  out[0] = __uint_as_float(word << 16);
  out[1] = __uint_as_float(word & 0xffff0000u);
}
__device__ __forceinline__ void widen_pair(uint32_t word, float* out, half) {
  asm("{.reg .b16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high;}"
      : "=f"(out[0]), "=f"(out[1])
      : "r"(word));
}
__device__ __forceinline__ uint32_t narrow_pair(const float* v, bfloat16) {
  uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(v[1]), "f"(v[0]));
  return word;
}
__device__ __forceinline__ uint32_t narrow_pair(const float* v, half) {
  uint32_t word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(v[1]), "f"(v[0]));
  return word;
}
__device__ __forceinline__ float widened_half(uint32_t word, int upper, bfloat16) {
  return __uint_as_float(upper != 0 ? word & 0xffff0000u : word << 16);
}
__device__ __forceinline__ float widened_half(uint32_t word, int upper, half) {
  float pair[2];
  widen_pair(word, pair, half());
  return upper != 0 ? pair[1] : pair[0];
}
#else
template <class T>
void widen_pair(uint32_t word, float* out, T low) {
  T high;
  low.bits = static_cast<uint16_t>(word), high.bits = static_cast<uint16_t>(word >> 16);
  out[0] = widened(low), out[1] = widened(high);
}
template <class T>
float widened_half(uint32_t word, int upper, T one) {
  one.bits = static_cast<uint16_t>(upper != 0 ? word >> 16 : word);
  return widened(one);
}
template <class T>
uint32_t narrow_pair(const float* v, T low) {
  T high;
  narrow(v[0], low), narrow(v[1], high);
  return low.bits | static_cast<uint32_t>(high.bits) << 16;
}
#endif

template <class T>
__device__ __forceinline__ Floats<T> unpacked(const Words<16>& words) {
  Floats<T> out;
  if constexpr (sizeof(T) == 2) {
    MOONLET_UNROLL
    for (int w = 0; w < 4; ++w) widen_pair(words.v[w], out.v + 2 * w, T());
  } else {
    MOONLET_UNROLL
    for (int k = 0; k < out.kCount; ++k)
      out.v[k] = decoded<T, sizeof(T)>(bits_at<sizeof(T)>(words, k), Code::kPlain);
  }
  return out;
}

template <class T>
__device__ __forceinline__ Words<16> packed(const Floats<T>& floats) {
  Words<16> out{};
  if constexpr (sizeof(T) == 2) {
    MOONLET_UNROLL
    for (int w = 0; w < 4; ++w) out.v[w] = narrow_pair(floats.v + 2 * w, T());
  } else {
    MOONLET_UNROLL
    for (int k = 0; k < floats.kCount; ++k)
      set_bits<sizeof(T)>(out, k, encoded<T, sizeof(T)>(floats.v[k], Code::kPlain));
  }
  return out;
}

// The 16 bytes that begin `shift` bytes after low's first, in low and what follows it.
template <class T>
__device__ __forceinline__ Words<16> shifted(const Words<16>& low, const Words<16>& high,
                                             unsigned shift) {
  uint32_t w[8] = {low.v[0],  low.v[1],  low.v[2],  low.v[3],
                   high.v[0], high.v[1], high.v[2], high.v[3]};
  MOONLET_UNROLL
  for (int i = 0; i < 6; ++i) w[i] = (shift & 8) != 0 ? w[i + 2] : w[i];
  if constexpr (sizeof(T) < 8) {
    MOONLET_UNROLL
    for (int i = 0; i < 5; ++i) w[i] = (shift & 4) != 0 ? w[i + 1] : w[i];
  }
  Words<16> out{};
  MOONLET_UNROLL
  for (int i = 0; i < 4; ++i) {
    if constexpr (sizeof(T) < 4)
      out.v[i] = __funnelshift_r(w[i], w[i + 1], 8 * (shift & 3));
    else
      out.v[i] = w[i];
  }
  return out;
}

// Up to 16 bytes of elements at p, which is aligned to one of them: `count` are there, the others
// become `fill`. Of memory only 16 bytes are touched in which an element lies that is there.
template <class T>
__device__ __forceinline__ Floats<T> floats_at(const char* p, int64_t count, Computed<T> fill) {
  constexpr int kCount = Floats<T>::kCount;
  const auto shift = static_cast<unsigned>(reinterpret_cast<uintptr_t>(p) % 16);
  const int valid = count < kCount ? static_cast<int>(count) : kCount;
  Words<16> low{}, high{};
  if (valid > 0) low = load_words<16>(p - shift);
  if (valid > 0 && shift + valid * sizeof(T) > 16) high = load_words<16>(p - shift + 16);
  Floats<T> out = unpacked<T>(shifted<T>(low, high, shift));
  MOONLET_UNROLL
  for (int k = 0; k < kCount; ++k) out.v[k] = k < valid ? out.v[k] : fill;
  return out;
}

// The same, where `whole` says that 16 aligned bytes are there.
template <class T>
__device__ __forceinline__ Floats<T> pack_at(const char* p, bool whole, int64_t count,
                                             Computed<T> fill) {
  if (whole) return unpacked<T>(load_words<16>(p));
  return floats_at<T>(p, count, fill);
}

// One element.
template <class T>
__device__ __forceinline__ void store_float(char* p, Computed<T> v) {
  if constexpr (sizeof(T) == 2)
    narrow(v, *reinterpret_cast<T*>(p));
  else
    *reinterpret_cast<T*>(p) = v;
}

// Calls f.template operator()<T>() with the type of the elements of a floating dtype.
template <class F>
void visit_float_types(DType t, F&& f) {
  if (t == DType::Float64) return f.template operator()<double>();
  if (t == DType::Float32) return f.template operator()<float>();
  if (t == DType::Float16) return f.template operator()<half>();
  return f.template operator()<bfloat16>();
}

// The larger of two; NaN wins.
__device__ __forceinline__ float larger(float a, float b) {
#ifdef __CUDA_ARCH__
  float out;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(out) : "f"(a), "f"(b));
  return out;
#else
  return a != a || a > b ? a : b;
#endif
}
__device__ __forceinline__ double larger(double a, double b) { return a != a || a > b ? a : b; }

// The number to take off in the exponents: what is -inf throughout adds nothing, though its own
// sum is of e^(inf - inf).
template <class C>
__device__ __forceinline__ C base_of(C largest) {
  return largest == C(-HUGE_VAL) ? C(0) : largest;
}

// e^x for results of type T. For those of 16 bits by the device's own 2^x: its error (2^-22, and of
// the product |x| 2^-23) is below their rounding, and what is below 2^-126 becomes 0.
template <class T>
__device__ __forceinline__ Computed<T> exp_for(Computed<T> x) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) == 2) {
    float out;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x * 1.44269504f));
    return out;
  }
#endif
  return fn::vexp(x);
}

}  // namespace moonlet::cuda

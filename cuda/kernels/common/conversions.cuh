// cuda/kernels/common/conversions.cuh: the rules by which elements become those of another dtype,
// which are the CPU's. Also for sources that are compiled at run time, so it includes no table of
// dtypes: who includes it has said before which types are is_reduced_floating_v.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/kernels/complex.h"
#include "tensor/core/float8.h"
#include "tensor/core/half.h"

namespace moonlet::cuda {

// Truncates; saturates beyond the range; NaN becomes 0.
template <class F>
MOONLET_HD int64_t saturate(F v) {
  if (v != v) return 0;
  if (v >= F(9223372036854775808.0)) return INT64_MAX;
  if (v <= F(-9223372036854775808.0)) return INT64_MIN;
  return static_cast<int64_t>(v);
}

// The same for uint64; negative numbers wrap.
template <class F>
MOONLET_HD uint64_t saturate_unsigned(F v) {
  if (!(v >= F(0))) return static_cast<uint64_t>(saturate(v));
  return v >= F(18446744073709551616.0) ? UINT64_MAX : static_cast<uint64_t>(v);
}

// Floats that are computed in float32; the 16-bit ones by the device's own instructions.
template <class T>
requires is_reduced_floating_v<T> MOONLET_HD float widened(T v) { return static_cast<float>(v); }
MOONLET_HD float widened(half v) {
#ifdef __CUDA_ARCH__
  float out;
  asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(v.bits));
  return out;
#else
  return static_cast<float>(v);
#endif
}
template <class T>
requires is_reduced_floating_v<T> MOONLET_HD void narrow(float v, T& out) { out = T(v); }
MOONLET_HD void narrow(float v, half& out) {
#ifdef __CUDA_ARCH__
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out.bits) : "f"(v));
#else
  out = half(v);
#endif
}
MOONLET_HD void narrow(float v, bfloat16& out) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out.bits) : "f"(v));
#else
  out = bfloat16(v);
#endif
}

// v as To; floats become integers by way of int64, complex values lose their imaginary part.
template <class To, class From>
MOONLET_HD To convert(From v) {
  if constexpr (std::is_same_v<To, From>) {
    return v;
  } else if constexpr (is_reduced_floating_v<From>) {
    return convert<To>(widened(v));
  } else if constexpr (is_reduced_floating_v<To>) {
    To out;
    narrow(convert<float>(v), out);
    return out;
  } else if constexpr (std::is_same_v<To, bool>) {
    return v != From(0);
  } else if constexpr (is_device_complex<To>) {
    using Part = typename To::Part;
    if constexpr (is_device_complex<From>)
      return To(static_cast<Part>(v.re), static_cast<Part>(v.im));
    else
      return To(static_cast<Part>(v), Part(0));
  } else if constexpr (is_device_complex<From>) {
    return convert<To>(v.re);
  } else if constexpr (std::is_same_v<To, uint64_t> && std::is_floating_point_v<From>) {
    return saturate_unsigned(v);
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    return static_cast<To>(saturate(v));
  } else {
    return static_cast<To>(v);
  }
}

}  // namespace moonlet::cuda

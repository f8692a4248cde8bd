// tensor/core/half.h: the 16-bit float types, float16 (IEEE 754 binary16) and bfloat16, as storage
// formats: they convert to and from float (round to nearest even) and arithmetic is done in float.
// Shared by host and device code.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#define MOONLET_HD __host__ __device__ inline
#else
#define MOONLET_HD inline
#endif

namespace moonlet {

namespace detail {
MOONLET_HD uint32_t float_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
MOONLET_HD float bits_float(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

MOONLET_HD float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00u) return bits_float(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  if (magnitude >= 0x0400u) return bits_float(sign | ((magnitude << 13) + 0x38000000u));
  // Zero and subnormals: the value is magnitude * 2^-24, exact in float.
  const float value = static_cast<float>(magnitude) * 5.9604644775390625e-8f;
  return bits_float(sign | float_bits(value));
}

MOONLET_HD uint16_t float_to_half(float value) {
  const uint32_t bits = float_bits(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude >= 0x38800000u) {
    const uint32_t odd = (magnitude >> 13) & 1u;
    return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
  }
  // Below the smallest normal: adding 0.5 lets the float unit do the rounding at bit 2^-24.
  const float shifted = bits_float(magnitude) + 0.5f;
  return static_cast<uint16_t>(sign | (float_bits(shifted) - 0x3f000000u));
}

MOONLET_HD uint16_t float_to_bfloat16(float value) {
  const uint32_t bits = float_bits(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
}  // namespace detail

struct half {
  uint16_t bits = 0;
  half() = default;
  MOONLET_HD explicit half(float value) : bits(detail::float_to_half(value)) {}
  MOONLET_HD operator float() const { return detail::half_to_float(bits); }
};

struct bfloat16 {
  uint16_t bits = 0;
  bfloat16() = default;
  MOONLET_HD explicit bfloat16(float value) : bits(detail::float_to_bfloat16(value)) {}
  MOONLET_HD operator float() const {
    return detail::bits_float(static_cast<uint32_t>(bits) << 16);
  }
};

}  // namespace moonlet

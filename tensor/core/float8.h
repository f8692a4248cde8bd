// tensor/core/float8.h: the 8-bit float types as storage formats: float8_e4m3fn, with a sign, four
// bits of exponent and three of mantissa, no infinity and one NaN of each sign, and float8_e5m2,
// which is IEEE 754's way with five and two. They convert to and from float (round to nearest even)
// and arithmetic is done in float. Source: P. Micikevicius et al., "FP8 formats for deep learning",
// 2022. Shared by host and device code.
#pragma once

#include "tensor/core/half.h"

namespace moonlet {

namespace detail {
MOONLET_HD float e4m3fn_to_float(uint8_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x80u) << 24;
  const uint32_t magnitude = code & 0x7fu;
  if (magnitude == 0x7fu) return bits_float(sign | 0x7fc00000u);
  if (magnitude >= 0x08u) return bits_float(sign | ((magnitude << 20) + 0x3c000000u));
  // Zero and subnormals: the value is magnitude * 2^-9, exact in float.
  return bits_float(sign | float_bits(static_cast<float>(magnitude) * 0.001953125f));
}

// There is no infinity to overflow to: what is too large becomes the largest number, 448, as in
// PyTorch.
MOONLET_HD uint8_t float_to_e4m3fn(float value) {
  const uint32_t bits = float_bits(value);
  const uint8_t sign = static_cast<uint8_t>((bits >> 24) & 0x80u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint8_t>(sign | 0x7fu);
  if (magnitude >= 0x43e00000u) return static_cast<uint8_t>(sign | 0x7eu);
  if (magnitude >= 0x3c800000u) {
    const uint32_t odd = (magnitude >> 20) & 1u;
    return static_cast<uint8_t>(sign | ((magnitude - 0x3c000000u + 0x7ffffu + odd) >> 20));
  }
  // Below the smallest normal: adding 2^14 lets the float unit do the rounding at bit 2^-9.
  const float shifted = bits_float(magnitude) + 16384.0f;
  return static_cast<uint8_t>(sign | (float_bits(shifted) - 0x46800000u));
}

// The upper half of a float16.
MOONLET_HD float e5m2_to_float(uint8_t code) {
  return half_to_float(static_cast<uint16_t>(code << 8));
}

MOONLET_HD uint8_t float_to_e5m2(float value) {
  const uint32_t bits = float_bits(value);
  const uint8_t sign = static_cast<uint8_t>((bits >> 24) & 0x80u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint8_t>(sign | 0x7fu);
  if (magnitude >= 0x47700000u) return static_cast<uint8_t>(sign | 0x7cu);
  if (magnitude >= 0x38800000u) {
    const uint32_t odd = (magnitude >> 21) & 1u;
    return static_cast<uint8_t>(sign | ((magnitude - 0x38000000u + 0xfffffu + odd) >> 21));
  }
  // Below the smallest normal: adding 2^7 lets the float unit do the rounding at bit 2^-16.
  const float shifted = bits_float(magnitude) + 128.0f;
  return static_cast<uint8_t>(sign | (float_bits(shifted) - 0x43000000u));
}
}  // namespace detail

struct float8_e4m3fn {
  uint8_t bits = 0;
  float8_e4m3fn() = default;
  MOONLET_HD explicit float8_e4m3fn(float value) : bits(detail::float_to_e4m3fn(value)) {}
  MOONLET_HD operator float() const { return detail::e4m3fn_to_float(bits); }
};

struct float8_e5m2 {
  uint8_t bits = 0;
  float8_e5m2() = default;
  MOONLET_HD explicit float8_e5m2(float value) : bits(detail::float_to_e5m2(value)) {}
  MOONLET_HD operator float() const { return detail::e5m2_to_float(bits); }
};

}  // namespace moonlet

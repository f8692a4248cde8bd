// cuda/emulated/include/half.h: float16 and bfloat16 as the host computes them: to and from
// float32, rounded to the nearest.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace moonlet::emulated {

inline float from_f16(std::uint16_t h) {
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000u) << 16;
  const std::uint32_t exponent = h >> 10 & 31, fraction = h & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float tiny = std::ldexp(static_cast<float>(fraction), -24);
  return sign ? -tiny : tiny;
}

inline std::uint16_t to_f16(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
  const std::uint32_t size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) return sign | 0x7e00u;
  if (size >= 0x477ff000u) return sign | 0x7c00u;  // rounds to infinity
  if (size < 0x38800000u) {                        // subnormal: a multiple of 2^-24
    const float steps = std::ldexp(std::bit_cast<float>(size), 24);
    return sign | static_cast<std::uint16_t>(std::nearbyint(steps));
  }
  const std::uint32_t rounded = size + 0xfffu + (size >> 13 & 1);
  return sign | static_cast<std::uint16_t>((rounded - 0x38000000u) >> 13);
}

inline float from_bf16(std::uint16_t h) { return std::bit_cast<float>(std::uint32_t{h} << 16); }

inline std::uint16_t to_bf16(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  if (std::isnan(x)) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

}  // namespace moonlet::emulated

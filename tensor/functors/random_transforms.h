// tensor/functors/random_transforms.h: from random bits to numbers of a distribution. Plain
// arithmetic without branches, shared by CPU and CUDA, so both draw the same numbers to a float's
// rounding.
#pragma once

#include <math.h>

#include "tensor/functors/philox.h"

namespace moonlet::draws {

// [0, 1) with 24 bits, and (0, 1].
MOONLET_HD float unit_f32(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }
MOONLET_HD float unit_above_zero_f32(uint32_t bits) {
  return static_cast<float>((bits >> 8) + 1) * 0x1p-24f;
}
// Of which bits unit_f32 makes a number under a limit: those up to `last`, if of any.
struct Under {
  uint32_t last;
  bool any;

  explicit Under(double limit) {
    // The numbers are multiples of 2^-24, of the upper 24 bits.
    const double count = ::ceil(static_cast<double>(static_cast<float>(limit)) * 0x1p24);
    any = count > 0;
    last = any ? (static_cast<uint32_t>(count < 0x1p24 ? count : 0x1p24) << 8) - 1 : 0;
  }
  MOONLET_HD bool operator()(uint32_t bits) const { return any && bits <= last; }
};

// What dropout with probability p multiplies with what stays.
inline double dropout_scale(double p) { return p < 1 ? 1 / (1 - p) : 0; }

// Dropout of matrices by their rows: column c takes lane c % 4 of block c / 4 of the row's so many.
MOONLET_HD int64_t row_blocks(int64_t columns) { return (columns + 3) / 4; }

// [0, 1) with 53 bits, and (0, 1].
MOONLET_HD double unit_f64(uint32_t high, uint32_t low) {
  const uint64_t bits = (static_cast<uint64_t>(high) << 32 | low) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}
MOONLET_HD double unit_above_zero_f64(uint32_t high, uint32_t low) {
  const uint64_t bits = (static_cast<uint64_t>(high) << 32 | low) >> 11;
  return static_cast<double>(bits + 1) * 0x1p-53;
}

// The natural logarithm of a normal positive float (relative error below 3e-7): x = m 2^e with m
// around 1, and log m = 2 atanh((m - 1) / (m + 1)).
MOONLET_HD float log_f32(float x) {
  const uint32_t bits = detail::float_bits(x);
  const uint32_t shifted = bits - 0x3f3504f3u;  // sqrt(1/2)
  const float e = static_cast<float>(static_cast<int32_t>(shifted) >> 23);
  const float m = detail::bits_float((shifted & 0x007fffffu) + 0x3f3504f3u);
  const float s = (m - 1.0f) / (m + 1.0f);
  const float q = s * s;
  const float tail = q * (0.66666666f + q * (0.4f + q * (0.285714f + q * 0.2228f)));
  return e * 0.69314718f + s * (2.0f + tail);
}

// The cosine and sine of 2 pi times a number of [0, 1) given as 32 bits: the two top bits are the
// quadrant, the rest an angle in it, centred on 0.
MOONLET_HD void turn_f32(uint32_t bits, float* cosine, float* sine) {
  const uint32_t moved = bits + 0x20000000u;
  const uint32_t quadrant = moved >> 30;
  const float a = static_cast<float>(static_cast<int32_t>((moved & 0x3fffffffu) >> 6) - (1 << 23)) *
                  (1.5707963268f * 0x1p-24f);
  const float q = a * a;
  const float s = a + a * q * (-0.16666667f + q * (0.0083333310f + q * -0.00019840874f));
  const float c =
      1.0f + q * (-0.5f + q * (0.041666638f + q * (-0.0013888378f + q * 2.4760495e-5f)));
  const float cosine_size = (quadrant & 1) ? s : c;
  const float sine_size = (quadrant & 1) ? c : s;
  *cosine = (quadrant == 1 || quadrant == 2) ? -cosine_size : cosine_size;
  *sine = quadrant >= 2 ? -sine_size : sine_size;
}

// A draw of the exponential distribution of rate 1. A number of the last interval of the grid,
// which would be rounded to 0, counts as the middle of it.
MOONLET_HD float exponential_f32(uint32_t bits) {
  const float v = -log_f32(unit_above_zero_f32(bits));
  return v > 0x1p-25f ? v : 0x1p-25f;
}
MOONLET_HD double exponential_f64(uint32_t high, uint32_t low) {
  const double v = -::log(unit_above_zero_f64(high, low));
  return v > 0x1p-54 ? v : 0x1p-54;
}

}  // namespace moonlet::draws

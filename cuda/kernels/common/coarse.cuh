// cuda/kernels/common/coarse.cuh: float32 for functors (tensor/functors) whose results are rounded
// to 16 bits: without branches, by the device's approximations of 2^x, log2 x and 1 / x. Relative
// errors are below 2^-16, a sixteenth of half a unit in the last place of float16; results below
// 2^-126, and quotients by more than 2^126, may become 0.
#pragma once

#include <cmath>
#include <cstdint>

#include "tensor/core/half.h"

namespace moonlet::cuda {

struct Coarse {
  using Lane = float;  // fn::is_float32
  float v;
  Coarse() = default;
  MOONLET_HD explicit Coarse(double number) : v(static_cast<float>(number)) {}
  MOONLET_HD explicit Coarse(float number) : v(number) {}
  MOONLET_HD explicit Coarse(int number) : v(static_cast<float>(number)) {}
};

namespace coarse {

MOONLET_HD float exp2_of(float x) {
#ifdef __CUDA_ARCH__
  float out;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
  return out;
#else
  return exp2f(x);
#endif
}
MOONLET_HD float log2_of(float x) {
#ifdef __CUDA_ARCH__
  float out;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
  return out;
#else
  return log2f(x);
#endif
}
MOONLET_HD float inverse_of(float x) {
#ifdef __CUDA_ARCH__
  float out;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
  return out;
#else
  return 1.0f / x;
#endif
}
MOONLET_HD float quotient(float x, float y) {
#ifdef __CUDA_ARCH__
  return __fdividef(x, y);
#else
  return x / y;
#endif
}
MOONLET_HD float exp_of(float x) { return exp2_of(x * 1.44269504f); }

}  // namespace coarse

MOONLET_HD Coarse operator+(Coarse x, Coarse y) { return Coarse(x.v + y.v); }
MOONLET_HD Coarse operator-(Coarse x, Coarse y) { return Coarse(x.v - y.v); }
MOONLET_HD Coarse operator*(Coarse x, Coarse y) { return Coarse(x.v * y.v); }
MOONLET_HD Coarse operator/(Coarse x, Coarse y) { return Coarse(coarse::quotient(x.v, y.v)); }
MOONLET_HD Coarse operator-(Coarse x) { return Coarse(-x.v); }
MOONLET_HD bool operator<(Coarse x, Coarse y) { return x.v < y.v; }
MOONLET_HD bool operator>(Coarse x, Coarse y) { return x.v > y.v; }
MOONLET_HD bool operator<=(Coarse x, Coarse y) { return x.v <= y.v; }
MOONLET_HD bool operator>=(Coarse x, Coarse y) { return x.v >= y.v; }
MOONLET_HD bool operator==(Coarse x, Coarse y) { return x.v == y.v; }
MOONLET_HD bool operator!=(Coarse x, Coarse y) { return x.v != y.v; }

MOONLET_HD Coarse vconj(Coarse x) { return x; }
MOONLET_HD Coarse vabs(Coarse x) { return Coarse(fabsf(x.v)); }
MOONLET_HD Coarse vexp(Coarse x) { return Coarse(coarse::exp_of(x.v)); }

// e^x - 1: near 0 by the series of it.
MOONLET_HD Coarse vexpm1(Coarse x) {
  const float a = x.v;
  const float near = a * (1 + a * (0.5f + a * (0.16666667f + a * 0.041666668f)));
  return Coarse(fabsf(a) < 0.0625f ? near : coarse::exp_of(a) - 1);
}

// log(1 + x) for x from 0 to 1: near 0 by the series of it.
MOONLET_HD Coarse vlog1p_unit(Coarse x) {
  const float a = x.v;
  const float near = a * (1 - a * (0.5f - a * (0.33333334f - a * 0.25f)));
  return Coarse(a < 0.03125f ? near : coarse::log2_of(1 + a) * 0.69314718f);
}

// 1 - 2 / (e^2x + 1), near 0 by the series of it.
MOONLET_HD Coarse vtanh(Coarse x) {
  const float a = fabsf(x.v), q = a * a;
  const float near = a * (1 - q * (0.33333334f - q * (0.13333334f - q * 0.053968254f)));
  const float far = 1 - 2 * coarse::inverse_of(coarse::exp2_of(a * 2.88539008f) + 1);
  return Coarse(copysignf(a < 0.25f ? near : far, x.v));
}

// The normal distribution function: for t = |x| / sqrt 2, erfc(t) / 2 is e^(-t^2) P(1 / (1 + 0.45
// t)) with a P that was fitted to relative errors of 1e-5 up to t = 14.
MOONLET_HD Coarse vnormal_cdf(Coarse x) {
  const float s = coarse::inverse_of(1 + fabsf(x.v) * (0.45f * 0.70710678f));
  const float p =
      s * (0.126984017f +
           s * (0.125851695f +
                s * (0.124236637f + s * (0.0447335867f + s * (0.146117159f - s * 0.0679278147f)))));
  const float tail = p * coarse::exp2_of(x.v * x.v * -0.72134752f);
  return Coarse(x.v < 0 ? tail : 1 - tail);
}

}  // namespace moonlet::cuda

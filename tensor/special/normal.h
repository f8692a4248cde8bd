// tensor/special/normal.h: the scaled and the inverse error function, the normal distribution.
#pragma once

#include "tensor/functor_math.h"
#include "tensor/special/series.h"

namespace moonlet::special {

inline constexpr double kSqrtHalf = 0.70710678118654752440;

// exp(x^2) erfc(x). For x >= 0 a Chebyshev series of (1 + 2 x) erfcx(x) in (x - 3.75) / (x + 3.75),
// the form of Shepherd and Laframboise 1981.
MOONLET_HD double erfcx(double x) {
  static constexpr double kSeries[] = {
      1.1775789345674017,     -0.004590054580646478,   -0.08424913336651792,
      0.05920993999819189,    -0.026658668435305753,   0.009074997670705265,
      -0.002413163540417608,  0.0004907758365258086,   -6.916973302501207e-05,
      4.13902798607301e-06,   7.74038306619849e-07,    -2.1886401049234397e-07,
      1.076499946567091e-08,  4.521959811218287e-09,   -7.754400208831351e-10,
      -6.318088340886684e-11, 2.86879501093067e-11,    1.9455868545777347e-13,
      -9.65469674843344e-13,  3.25254814814874e-14,    3.3478119482868056e-14,
      -1.864562880419313e-15, -1.2507950530688648e-15, 7.418235256624044e-17,
      5.068148904796111e-17,  -2.2370566594359995e-18, -2.187342944303018e-18};
  if (x == 0) return 1;
  if (x < -26.7) return kInf;
  if (x < 0) return 2 * exp_square(1, x) - erfcx(-x);
  if (x > 1e9) return 0.56418958354775628695 / x;
  return chebyshev(kSeries, (x - 3.75) / (x + 3.75)) / (1 + 2 * x);
}

// erfinv(y) / y within 2e-7 of itself, for w = -log(1 - y^2) up to 16.6: Chebyshev fits in w and in
// its root, as in Giles 2010.
template <class T>
MOONLET_HD T erfinv_factor(T w) {
  if (w < T(5)) {
    const T u = w - T(2.5);
    return T(1.50140936045) +
           u * (T(0.246640279055) +
                u * (T(-0.0041773928752) +
                     u * (T(-0.00125272639177) +
                          u * (T(0.00021834938624) +
                               u * (T(-4.97241968945e-06) +
                                    u * (T(-3.46398526763e-06) +
                                         u * (T(4.68131348055e-07) +
                                              u * (T(2.33359671957e-08) +
                                                   u * (T(-8.93192597024e-09))))))))));
  }
  const T u = fn::vsqrt(w) - T(3.1680339887);
  return T(3.00152677606) +
         u * (T(1.00429700204) +
              u * (T(0.00640577792748) +
                   u * (T(-0.00469237187092) +
                        u * (T(0.00326700229234) +
                             u * (T(-0.00220894770757) +
                                  u * (T(0.00122325919806) +
                                       u * (T(-0.000347791399188) +
                                            u * (T(-0.000136844597522) +
                                                 u * (T(0.00011153858078))))))))));
}

// The x with erf(x) = y.
MOONLET_HD float erfinv(float y) {
  const float size = fabsf(y);
  if (!(size < 1.0f)) return static_cast<float>(size == 1.0f ? copysign(kInf, y) : kNaN);
  return y * erfinv_factor(-fn::vlog((1.0f - size) * (1.0f + size)));
}

// In double one of Halley's steps from there; beyond, three from Winitzki's closed form. Near the
// ends on erfc, of which 1 - |y| loses nothing.
MOONLET_HD double erfinv(double y) {
  const double size = fabs(y);
  if (!(size < 1)) return size == 1 ? copysign(kInf, y) : kNaN;
  const double w = -log((1 - size) * (1 + size));
  const bool close = w < 16.6;
  const double a = 0.147, b = 2 / (kPi * a) - w / 2;
  double x = close ? size * erfinv_factor(w) : sqrt(sqrt(b * b + w / a) - b);
  for (int i = close ? 2 : 0; i < 3; ++i) {
    const double miss = size > 0.5 ? (1 - size) - erfc(x) : erf(x) - size;
    const double step = miss * 0.88622692545275801365 / exp_square(-1, x);
    x -= step / (1 + x * step);
  }
  return copysign(x, y);
}

// The normal distribution function and its logarithm.
MOONLET_HD double ndtr(double x) {
  if (x >= -1 || x != x) return 0.5 * erfc(-x * kSqrtHalf);
  // The density has the factors with the large exponent, and underflows last.
  return x < -40 ? 0 : 0.5 * erfcx(-x * kSqrtHalf) * exp_square(-0.5, x);
}
MOONLET_HD double log_ndtr(double x) {
  if (x >= -1 || x != x) return log1p(-ndtr(-x));
  return log(0.5 * erfcx(-x * kSqrtHalf)) - 0.5 * x * x;
}

// The u > 0 with ndtr(-u) = q for q < 0.25: the rational form 26.2.23 of Abramowitz and Stegun,
// then Halley's steps on the logarithm.
MOONLET_HD double normal_tail_inverse(double q) {
  const double log_q = log(q), t = sqrt(-2 * log_q);
  double u = t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                     (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
  for (int i = 0; i < 2; ++i) {
    const double scaled = erfcx(u * kSqrtHalf);
    const double miss = log(0.5 * scaled) - 0.5 * u * u - log_q;
    const double hazard = 0.79788456080286535588 / scaled;
    const double step = -miss / hazard;
    u -= step / (1 - 0.5 * step * (u - hazard));
  }
  return u;
}

// The x with ndtr(x) = p.
MOONLET_HD double ndtri(double p) {
  if (!(p > 0 && p < 1)) return p == 0 ? -kInf : p == 1 ? kInf : kNaN;
  if (p < 0.25) return -normal_tail_inverse(p);
  if (p > 0.75) return normal_tail_inverse(1 - p);
  return 2 * kSqrtHalf * erfinv(2 * p - 1);
}

}  // namespace moonlet::special

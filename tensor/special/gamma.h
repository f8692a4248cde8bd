// tensor/special/gamma.h: the gamma function's logarithm and its derivatives, Hurwitz's zeta
// function.
#pragma once

#include "tensor/special/series.h"

namespace moonlet::special {

// log |gamma(x)|. The C library's own function also writes a variable of the process.
MOONLET_HD double lgamma(double x) {
#ifdef __CUDA_ARCH__
  return ::lgamma(x);
#else
  int sign;
  return ::lgamma_r(x, &sign);
#endif
}

// pi / tan(pi x), from the distance to the nearest whole number, which is exact.
MOONLET_HD double pi_cotangent(double x) { return kPi / tan(kPi * (x - rint(x))); }

// The derivative of lgamma. From 1 to 2 a Chebyshev series of what is left when its zero is divided
// out; above, the recurrence digamma(x + 1) = digamma(x) + 1 / x up to the asymptotic series (DLMF
// 5.11.2); below, the recurrence or the reflection (DLMF 5.5.4).
MOONLET_HD double digamma(double x) {
  static constexpr double kSeries[] = {
      0.983570260441567,       -0.2270640863346444,     0.03336889902393011,
      -0.005320077271596548,   0.0008788656937820505,   -0.00014773492650606044,
      2.5060543468359146e-05,  -4.2721034029993324e-06, 7.302769272465923e-07,
      -1.2502886813559594e-07, 2.1425009322359472e-08,  -3.673295918565179e-09,
      6.299717236108931e-10,   -1.080593028883266e-10,  1.853735192053638e-11,
      -3.18023536582553e-12,   5.456147570322795e-13,   -9.360993131036438e-14,
      1.606064636295075e-14,   -2.7555431377438815e-15, 4.727736178601912e-16,
      -8.11148420346509e-17,   1.391707769474154e-17,   -2.3877901082188625e-18};
  if (x == 0) return copysign(kInf, -x);
  if (x < 0) return x == floor(x) ? kNaN : digamma(1 - x) - pi_cotangent(x);
  if (x < 1) return digamma(x + 1) - 1 / x;
  if (x <= 2) {
    const double from_zero = (x - 1.4616321449683622) - 9.549995429965697e-17;
    return from_zero * chebyshev(kSeries, 2 * x - 3);
  }
  double steps = 0;
  for (; x < 10; x += 1) steps += 1 / x;
  const double r = 1 / (x * x);
  const double tail =
      r * (1.0 / 12 -
           r * (1.0 / 120 -
                r * (1.0 / 252 -
                     r * (1.0 / 240 - r * (1.0 / 132 - r * (691.0 / 32760 - r * (1.0 / 12)))))));
  return log(x) - 0.5 / x - tail - steps;
}

// The sum of ((q + k) / unit)^-x for k >= 0, x > 1 and q > 0: some terms, the rest by
// Euler-Maclaurin (DLMF 25.11.28).
MOONLET_HD double zeta_of_positive(double x, double q, double unit = 1) {
  // Bernoulli's number of index 2k over (2k)!.
  static constexpr double kTerms[] = {
      0.08333333333333333,    -0.001388888888888889,   3.306878306878307e-05,
      -8.267195767195768e-07, 2.08767569878681e-08,    -5.284190138687493e-10,
      1.3382536530684679e-11, -3.3896802963225827e-13, 8.586062056277845e-15,
      -2.174868698558062e-16, 5.5090028283602295e-18,  -1.3954464685812522e-19};
  if (x == kInf) return q > 1 ? 0 : q == 1 ? 1 : kInf;
  if (q == kInf) return 0;
  // Terms until the rest is nothing, or the series in (x / (2 pi a))^2 falls by 25 at each step.
  double sum = 0, a = q;
  for (; a < 0.5 * (x + 24); a += 1) {
    const double term = pow(a / unit, -x);
    sum += term;
    if (term <= 1e-18 * sum || sum == kInf) return sum;
  }
  const double power = pow(a / unit, -x);
  sum += power * a / (x - 1) + 0.5 * power;
  // x (x + 1) ... (x + 2k - 2) a^(-x - 2k + 1)
  double factor = power * x / a;
  for (int k = 0; k < 12; ++k) {
    const double term = factor * kTerms[k];
    sum += term;
    if (!(fabs(term) > 1e-18 * sum)) break;
    factor *= (x + 2 * k + 1) * (x + 2 * k + 2) / (a * a);
  }
  return sum;
}

// Hurwitz's zeta function. For q < 0 the terms below zero are a finite sum, the difference of two
// values: each is that of a positive number, with the sign of (-1)^-x.
MOONLET_HD double zeta(double x, double q) {
  if (x != x || q != q || x < 1) return kNaN;
  if (x == 1) return kInf;
  if (q > 0) return zeta_of_positive(x, q);
  if (q == floor(q)) return q == -kInf ? kNaN : kInf;
  if (x != floor(x) || x == kInf) return kNaN;
  const double above = q - floor(q), below = 1 - above;
  const double negative = zeta_of_positive(x, below) - zeta_of_positive(x, 1 - q);
  return zeta_of_positive(x, above) + (is_odd(x) ? -negative : negative);
}

// The derivative of order n >= 1 of digamma: (-1)^(n + 1) n! zeta(n + 1, x), DLMF 5.15.1.
MOONLET_HD double polygamma(double x, double n) {
  const double sum = zeta(n + 1, x);
  double size = tgamma(n + 1) * sum;
  // Where the factorial or the sum leaves the doubles and the product does not.
  if (x > 0 && (n >= 170 || sum < 1e-290))
    size = exp(lgamma(n + 1) - (n + 1) * log(x)) * zeta_of_positive(n + 1, x, x);
  else if (n >= 170)
    size = copysign(exp(lgamma(n + 1) + log(fabs(sum))), sum);
  return is_odd(n) ? size : -size;
}

}  // namespace moonlet::special

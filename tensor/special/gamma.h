// tensor/special/gamma.h: Hurwitz's zeta function and the derivatives of digamma.
#pragma once

#include "tensor/functor_math.h"
#include "tensor/special/series.h"

namespace moonlet::special {

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
    size = exp(fn::vlgamma(n + 1) - (n + 1) * log(x)) * zeta_of_positive(n + 1, x, x);
  else if (n >= 170)
    size = copysign(exp(fn::vlgamma(n + 1) + log(fabs(sum))), sum);
  return is_odd(n) ? size : -size;
}

}  // namespace moonlet::special

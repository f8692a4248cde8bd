// tensor/special/polynomials.h: the classical orthogonal polynomials of order n, a double that is
// rounded toward zero. A negative order gives 0, one that is no number NaN.
#pragma once

#include "tensor/special/series.h"

namespace moonlet::special {

// What the polynomials of order n have at infinity, for n > 0: the sign of x^n.
MOONLET_HD double power_sign(double x, double n) { return x < 0 && is_odd(n) ? -1 : 1; }

// p_0 = 1, p_1 = first, p_k+1 = 2 x p_k - p_k-1.
MOONLET_HD double chebyshev_recurrence(double x, double first, double n) {
  double before = 1, here = first;
  for (int k = 1; k < n; ++k) {
    const double next = 2 * x * here - before;
    before = here;
    here = next;
  }
  return here;
}

// Whether a Chebyshev polynomial with this p_1 needs no angle with the cosine x: `value` is it
// then. Higher orders lose less through the angle, outside of -1 to 1 a hyperbolic one.
MOONLET_HD bool chebyshev_without_angle(double x, double first, double n, double& value) {
  if (!(n > 0))
    value = n == 0 ? 1 : n < 0 ? 0 : kNaN;
  else if (x != x || fabs(x) == kInf)
    value = x != x ? x : power_sign(x, n) * kInf;
  else if (n <= (fabs(x) > 1 ? 64 : 8))
    value = chebyshev_recurrence(x, first, n);
  else
    return false;
  return true;
}

// The first and the second kind: cos(n a) and sin((n + 1) a) / sin(a).
MOONLET_HD double chebyshev_t(double x, double n) {
  n = trunc(n);
  double value;
  if (chebyshev_without_angle(x, x, n, value)) return value;
  const double size = fabs(x);
  return power_sign(x, n) * (size > 1 ? cosh(n * acosh(size)) : cos(n * acos(size)));
}
MOONLET_HD double chebyshev_u(double x, double n) {
  n = trunc(n);
  double value;
  if (chebyshev_without_angle(x, 2 * x, n, value)) return value;
  const double size = fabs(x), sign = power_sign(x, n);
  if (size == 1) return sign * (n + 1);
  const double angle = size > 1 ? acosh(size) : acos(size), many = (n + 1) * angle;
  return sign * (size > 1 ? sinh(many) / sinh(angle) : sin(many) / sin(angle));
}

// The third and the fourth kind at x >= 0: cos((n + 1/2) a) / cos(a / 2) and
// sin((n + 1/2) a) / sin(a / 2).
MOONLET_HD double chebyshev_v_angle(double x, double n) {
  const double half = 0.5 * (x > 1 ? acosh(x) : acos(x)), many = (2 * n + 1) * half;
  return x > 1 ? cosh(many) / cosh(half) : cos(many) / cos(half);
}
MOONLET_HD double chebyshev_w_angle(double x, double n) {
  if (x == 1) return 2 * n + 1;
  const double half = 0.5 * (x > 1 ? acosh(x) : acos(x)), many = (2 * n + 1) * half;
  return x > 1 ? sinh(many) / sinh(half) : sin(many) / sin(half);
}

// Below 0 each is the other at -x, with the sign of (-1)^n.
MOONLET_HD double chebyshev_v(double x, double n) {
  n = trunc(n);
  double value;
  if (chebyshev_without_angle(x, 2 * x - 1, n, value)) return value;
  return x >= 0 ? chebyshev_v_angle(x, n) : power_sign(x, n) * chebyshev_w_angle(-x, n);
}
MOONLET_HD double chebyshev_w(double x, double n) {
  n = trunc(n);
  double value;
  if (chebyshev_without_angle(x, 2 * x + 1, n, value)) return value;
  return x >= 0 ? chebyshev_w_angle(x, n) : power_sign(x, n) * chebyshev_v_angle(-x, n);
}

// Hermite polynomials, of the physicists (factor 2) and of the probabilists (factor 1):
// p_k+1 = factor (x p_k - k p_k-1). Orders above 512 give NaN.
MOONLET_HD double hermite(double x, double n, double factor) {
  n = trunc(n);
  if (n != n || n <= 0) return n == 0 ? 1 : n < 0 ? 0 : kNaN;
  if (fabs(x) == kInf) return power_sign(x, n) * kInf;
  if (n > 512) return kNaN;
  double before = 1, here = factor * x;
  for (int k = 1; k < n; ++k) {
    const double next = factor * (x * here - k * before);
    before = here;
    here = next;
  }
  return here;
}

// The highest order of the two polynomials whose recurrence takes a step for each order.
inline constexpr double kMaxSteps = 65536;

// (k + 1) L_k+1 = (2 k + 1 - x) L_k - k L_k-1. Orders above 65536 give NaN.
MOONLET_HD double laguerre(double x, double n) {
  n = trunc(n);
  if (n != n || n <= 0) return n == 0 ? 1 : n < 0 ? 0 : kNaN;
  if (fabs(x) == kInf) return power_sign(-x, n) * kInf;
  if (x == 0) return 1;
  if (n > kMaxSteps) return kNaN;
  double before = 1, here = 1 - x;
  for (int k = 1; k < n && here == here; ++k) {
    const double next = ((2 * k + 1 - x) * here - k * before) / (k + 1);
    before = here;
    here = next;
  }
  return here;
}

// (k + 1) P_k+1 = (2 k + 1) x P_k - k P_k-1. Orders above 65536 give NaN.
MOONLET_HD double legendre(double x, double n) {
  n = trunc(n);
  if (n != n || n <= 0) return n == 0 ? 1 : n < 0 ? 0 : kNaN;
  if (fabs(x) == kInf) return power_sign(x, n) * kInf;
  if (fabs(x) == 1) return power_sign(x, n);
  if (n > kMaxSteps) return kNaN;
  double before = 1, here = x;
  for (int k = 1; k < n; ++k) {
    const double next = ((2 * k + 1) * x * here - k * before) / (k + 1);
    // Outside of -1 to 1 they grow with the order and keep the sign of x^k.
    if (fabs(next) == kInf) return power_sign(x, n) * kInf;
    before = here;
    here = next;
  }
  return here;
}

}  // namespace moonlet::special

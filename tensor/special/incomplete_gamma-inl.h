// tensor/special/incomplete_gamma-inl.h: the regularised incomplete gamma functions of vectors and
// single values, with the digits of float32. Included after functors-inl.h, and as often.
#if defined(MOONLET_TENSOR_SPECIAL_INCOMPLETE_GAMMA_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOONLET_TENSOR_SPECIAL_INCOMPLETE_GAMMA_INL_H_
#undef MOONLET_TENSOR_SPECIAL_INCOMPLETE_GAMMA_INL_H_
#else
#define MOONLET_TENSOR_SPECIAL_INCOMPLETE_GAMMA_INL_H_
#endif

#include "tensor/special/incomplete_gamma.h"
#include "tensor/special/series-inl.h"

#ifdef HWY_NAMESPACE
HWY_BEFORE_NAMESPACE();
#endif
namespace moonlet {
namespace MOONLET_FUNCTOR_NAMESPACE {
namespace special {

// x^a e^-x / gamma(a + 1), by Stirling's form of gamma(a + 8) (DLMF 5.11.1).
template <class V>
MOONLET_FN V gamma_density_next(V a, V x) {
  static constexpr double kRest[] = {1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188};
  const V b = a + V(8), inverse = V(1) / b;
  V product = a + V(1);
  for (int k = 2; k < 8; ++k) product = product * (a + V(k));
  const V stirling = (b - V(0.5)) * vlog(b) - b + V(0.91893853320467274178) +
                     inverse * vpoly(kRest, inverse * inverse);
  return product * vexp(a * vlog(x) - x - stirling);
}

// P over that density by its power series (DLMF 8.7.1), for x not much above a.
template <class V>
MOONLET_LONG_FN V gamma_series(V a, V x) {
  V term(1), sum(1);
  for (V n(1); any(term > V(1e-15) * sum); n = n + V(1)) {
    term = term * (x / (a + n));
    sum = sum + term;
  }
  return sum;
}

// Q over a times that density by its continued fraction (DLMF 8.9.2), for x not below a + 1: the
// last and the one but last of its convergents, scaled to a denominator of 1 every few steps.
template <class V>
MOONLET_LONG_FN V gamma_fraction(V a, V x) {
  const V one(1);
  V b = x + one - a, value = one / b, last(0), n = one;
  V before(0), under_before = value, under = one;
  while (any(vabs(value - last) > V(1e-10) * value)) {
    last = value;
    V top = value;
    for (int step = 0; step < 4; ++step) {
      const V factor = n * (a - n);
      b = b + V(2);
      const V next = b * top + factor * before, under_next = b * under + factor * under_before;
      before = top, top = next, under_before = under, under = under_next;
      n = n + one;
    }
    const V scale = one / under;
    value = top * scale, before = before * scale, under_before = under_before * scale;
    under = one;
  }
  return value;
}

// P(a, x), or Q(a, x) as `upper` says, with about ten digits: by the series below a + 1, by the
// fraction above. Of the smallest a, where Q is the difference of equal numbers, of large ones and
// of those without a density one by one.
template <class V>
MOONLET_LONG_FN V gamma_part(V given_a, V given_x, bool upper) {
  const V one(1), two(2);
  const auto fits =
      (given_a >= V(1e-4)) && (given_a <= V(100)) && (given_x > V(0)) && (given_x < V(kInf));
  const auto each = [upper](double a, double x) { return upper ? igammac(a, x) : igamma(a, x); };
  if (!any(fits)) return each_lane(each, given_a, given_x);
  const V a = select(fits, given_a, one), x = select(fits, given_x, one);
  const V density = gamma_density_next(a, x);
  const auto low = x < a + one;
  V p(0), q(0);
  if (any(low)) p = density * gamma_series(a, select(low, x, one));
  if (any(!low)) q = density * a * gamma_fraction(a, select(low, a + two, x));
  const V y = upper ? select(low, one - p, q) : select(low, p, one - q);
  if (!any(!fits)) return y;
  return select(fits, y, each_lane(each, select(fits, V(0), given_a), select(fits, one, given_x)));
}

}  // namespace special
}  // namespace MOONLET_FUNCTOR_NAMESPACE
}  // namespace moonlet
#ifdef HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // toggle

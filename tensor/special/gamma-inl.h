// tensor/special/gamma-inl.h: Hurwitz's zeta function and the derivatives of digamma, of vectors
// and single values. Included after functors-inl.h, and as often.
#if defined(MOONLET_TENSOR_SPECIAL_GAMMA_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOONLET_TENSOR_SPECIAL_GAMMA_INL_H_
#undef MOONLET_TENSOR_SPECIAL_GAMMA_INL_H_
#else
#define MOONLET_TENSOR_SPECIAL_GAMMA_INL_H_
#endif

#include "tensor/special/digamma-inl.h"
#include "tensor/special/series-inl.h"

#ifdef HWY_NAMESPACE
HWY_BEFORE_NAMESPACE();
#endif
namespace moonlet {
namespace MOONLET_FUNCTOR_NAMESPACE {
namespace special {

// a^-x, and the same for whole x from 1 to some dozens.
struct AnyPower {
  template <class V>
  MOONLET_FN V operator()(V a, V x) const {
    return vpow(a, -x);
  }
};
struct WholePower {
  template <class V>
  MOONLET_FN V operator()(V a, V x) const {
    V product(1);
    for (V rest = x; any(rest > V(0)); rest = vfloor(V(0.5) * rest), a = a * a)
      product = select(is_odd(rest), product * a, product);
    return V(1) / product;
  }
};

// The sum of ((q + k) / unit)^-x for k >= 0, x > 1 and q > 0: some terms, the rest by
// Euler-Maclaurin (DLMF 25.11.28).
template <class Power = AnyPower, class V>
MOONLET_LONG_FN V zeta_of_positive(V x, V q, V unit) {
  // Bernoulli's number of index 2k over (2k)!.
  static constexpr double kTerms[] = {
      0.08333333333333333,    -0.001388888888888889,   3.306878306878307e-05,
      -8.267195767195768e-07, 2.08767569878681e-08,    -5.284190138687493e-10,
      1.3382536530684679e-11, -3.3896802963225827e-13, 8.586062056277845e-15,
      -2.174868698558062e-16, 5.5090028283602295e-18,  -1.3954464685812522e-19};
  const V zero(0), one(1), inf(kInf);
  // Terms until the rest is nothing, or the series in (x / (2 pi a))^2 falls by 25 at each step;
  // not beyond where a + 1 is a.
  const V enough = vmin(V(0.5) * (x + V(24)), V(1e15));
  V sum = zero, a = q;
  auto more = (a < enough) && (x < inf);
  while (any(more)) {
    const V term = Power()(a / unit, x);
    sum = select(more, sum + term, sum);
    a = select(more, a + one, a);
    more = more && (a < enough) && (term > V(1e-18) * sum) && (sum < inf);
  }
  const V power = Power()(a / unit, x), inverse = one / (a * a);
  sum = sum + (power * a / (x - one) + V(0.5) * power);
  // x (x + 1) ... (x + 2k - 2) a^(-x - 2k + 1)
  V factor = power * x / a;
  for (int k = 0; k < 12; ++k) {
    const V term = factor * V(kTerms[k]);
    const auto counts = vabs(term) > V(1e-18) * sum;
    if (!any(counts)) break;
    sum = select(counts, sum + term, sum);
    factor = factor * ((x + V(2 * k + 1)) * (x + V(2 * k + 2)) * inverse);
  }
  const V ends = select(q > one, zero, select(q == one, one, inf));
  return select(x == inf, ends, select(q == inf, zero, sum));
}

// The same for q < 0 and whole x: the terms below zero are a finite sum, the difference of two
// values, each that of a positive number with the sign of (-1)^-x.
template <class Power, class V>
MOONLET_LONG_FN V zeta_of_negative(V x, V q) {
  const V one(1), above = q - vfloor(q), below = one - above;
  const V negative =
      zeta_of_positive<Power>(x, below, one) - zeta_of_positive<Power>(x, one - q, one);
  return zeta_of_positive<Power>(x, above, one) + select(is_odd(x), -negative, negative);
}

// Hurwitz's zeta function.
template <class Power = AnyPower, class V>
MOONLET_LONG_FN V zeta(V x, V q) {
  const V zero(0), one(1), inf(kInf), nan(kNaN);
  const auto below = q <= zero;
  V y = zeta_of_positive<Power>(x, select(below, one, q), one);
  if (any(below)) {
    const auto pole = q == vfloor(q), fits = below && !pole && (x == vtrunc(x)) && (x < inf);
    V lower = nan;
    if (any(fits)) lower = zeta_of_negative<Power>(select(fits, x, V(2)), select(fits, q, V(-0.5)));
    lower = select(fits, lower, select(pole && (q > -inf), inf, nan));
    y = select(below, lower, y);
  }
  y = select(x == one, inf, select(x > one, y, nan));
  return select(q != q, q, y);
}

// The derivative of order n >= 1 of digamma, (-1)^(n + 1) n! zeta(n + 1, x) (DLMF 5.15.1), where
// the factorial or the sum may leave the doubles and the product does not.
MOONLET_FN double polygamma_of_any(double x, double n) {
  const double sum = zeta(n + 1, x);
  double size = tgamma(n + 1) * sum;
  if (x > 0 && (n >= 170 || sum < 1e-290))
    size = exp(fn::vlgamma(n + 1) - (n + 1) * log(x)) * zeta_of_positive(n + 1, x, x);
  else if (n >= 170)
    size = copysign(exp(fn::vlgamma(n + 1) + log(fabs(sum))), sum);
  return is_odd(n) ? size : -size;
}
// Of orders whose factorial is exact, otherwise one by one.
template <bool Short = false, class V>
MOONLET_LONG_FN V polygamma(V x, V n) {
  const V one(1), zero(0);
  if (!any(n != one)) return trigamma<Short>(x);
  const V low = vmin(n, V(22)), sum = zeta<WholePower>(low + one, x);
  V size = sum;
  for (V k(2); any(k <= low); k = k + one) size = select(k <= low, size * k, size);
  const V y = select(is_odd(n), size, -size);
  const auto normal = (sum > V(1e-290)) && (sum < V(1e290));
  const auto fits = (n == low) && ((x <= zero) || normal || (x != x));
  if (!any(!fits)) return y;
  const auto each = [](double value, double order)
                        MOONLET_LAMBDA { return polygamma_of_any(value, order); };
  return select(fits, y, each_lane(each, select(fits, one, x), select(fits, one, n)));
}

}  // namespace special
}  // namespace MOONLET_FUNCTOR_NAMESPACE
}  // namespace moonlet
#ifdef HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // toggle

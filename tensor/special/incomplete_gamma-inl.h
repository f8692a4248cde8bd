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

// P or Q for large a and x near a: the first orders of Temme's expansion, as gamma_uniform.
template <class V>
MOONLET_LONG_FN V gamma_near_equal(V a, V x, bool upper) {
  static constexpr double kFirst[] = {
      -0.3333333333333333,    0.08333333333333333,     -0.014814814814814815,
      0.0011574074074074073,  0.0003527336860670194,   -0.0001787551440329218,
      3.919263178522438e-05,  -2.185448510679992e-06,  -1.85406221071516e-06,
      8.296711340953087e-07,  -1.7665952736826078e-07, 6.707853543401498e-09,
      1.0261809784240309e-08, -4.382036018453353e-09,  9.14769958223679e-10};
  static constexpr double kSecond[] = {
      -0.001851851851851852,   -0.003472222222222222,  0.0026455026455026454,
      -0.0009902263374485596,  0.00020576131687242798, -4.018775720164609e-07,
      -1.8098550334489977e-05, 7.64916091608111e-06,   -1.6120900894563446e-06,
      4.647127802807434e-09,   1.378633446915721e-07};
  static constexpr double kThird[] = {0.004133597883597883,   -0.0026813271604938273,
                                      0.0007716049382716049,  2.0093878600823047e-06,
                                      -0.0001073665322636516, 5.2923448829120125e-05,
                                      -1.2760635188618728e-05};
  static constexpr double kFourth[] = {0.0006494341563786008, 0.00022947209362139917,
                                       -0.0004691894943952557, 0.00026772063206283885};
  // u - log(1 + u) = s u - 2 (atanh(s) - s)
  static constexpr double kAtanh[] = {1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9,  1.0 / 11, 1.0 / 13,
                                      1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21, 1.0 / 23};
  const V half(0.5), u = (x - a) / a, s = u / (u + V(2)), square = s * s;
  const V half_square = s * u - V(2) * s * square * vpoly(kAtanh, square);
  const V eta = vcopysign(vsqrt(half_square + half_square), u), inverse = V(1) / a;
  const V low = vfma(vpoly(kFourth, eta), inverse, vpoly(kThird, eta));
  const V sum = vfma(vfma(low, inverse, vpoly(kSecond, eta)), inverse, vpoly(kFirst, eta));
  const V rest = vexp(-a * half_square) / vsqrt(V(2 * kPi) * a) * sum, root = eta * vsqrt(half * a);
  return upper ? half * verfc(root) + rest : half * verfc(-root) - rest;
}

// The same elsewhere: by the series below a + 1, by the fraction above. Of the smallest a, where Q
// is the difference of equal numbers, of the largest and of those without a density one by one.
template <class V>
MOONLET_LONG_FN V gamma_elsewhere(V given_a, V given_x, bool upper) {
  const V one(1), two(2);
  const auto fits =
      (given_a >= V(1e-4)) && (given_a <= V(1e5)) && (given_x > V(0)) && (given_x < V(kInf));
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
  const V other_a = select(fits, V(0), given_a), other_x = select(fits, one, given_x);
  return select(fits, y, each_lane(each, other_a, other_x));
}

// P(a, x), or Q(a, x) as `upper` says, with about ten digits.
template <class V>
MOONLET_FN V gamma_part(V a, V x, bool upper) {
  const V one(1), large(200);
  const auto near_equal = (a > V(100)) && (a < V(kInf)) && (vabs(x - a) < V(0.5) * a);
  if (!any(near_equal)) return gamma_elsewhere(a, x, upper);
  const V y = gamma_near_equal(select(near_equal, a, large), select(near_equal, x, large), upper);
  if (!any(!near_equal)) return y;
  const V other_a = select(near_equal, one, a), other_x = select(near_equal, one, x);
  return select(near_equal, y, gamma_elsewhere(other_a, other_x, upper));
}

}  // namespace special
}  // namespace MOONLET_FUNCTOR_NAMESPACE
}  // namespace moonlet
#ifdef HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // toggle

// tensor/special/digamma-inl.h: the first and the second derivative of the gamma function's
// logarithm, of vectors and single values. Included after functors-inl.h, and as often.
#if defined(MOONLET_TENSOR_SPECIAL_DIGAMMA_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOONLET_TENSOR_SPECIAL_DIGAMMA_INL_H_
#undef MOONLET_TENSOR_SPECIAL_DIGAMMA_INL_H_
#else
#define MOONLET_TENSOR_SPECIAL_DIGAMMA_INL_H_
#endif

#include "tensor/special/series-inl.h"

#ifdef HWY_NAMESPACE
HWY_BEFORE_NAMESPACE();
#endif
namespace moonlet {
namespace MOONLET_FUNCTOR_NAMESPACE {
namespace special {

// pi / tan(pi x), from the distance to the nearest whole number, which is exact.
template <class V>
MOONLET_FN V pi_cotangent(V x) {
  return V(kPi) / vtan(V(kPi) * (x - vround(x)));
}

// From where the asymptotic series have the digits of results in float64, or in float32 if Short.
template <bool Short>
inline constexpr double kAsymptotic = Short ? 4 : 10;

// For x >= 2: the recurrence digamma(x + 1) = digamma(x) + 1 / x up to there, then the asymptotic
// series (DLMF 5.11.2).
template <bool Short, class V>
MOONLET_FN V digamma_above_2(V x) {
  static constexpr double kTail[] = {1.0 / 12,  -1.0 / 120,     1.0 / 252, -1.0 / 240,
                                     1.0 / 132, -691.0 / 32760, 1.0 / 12};
  const V one(1), zero(0), end(kAsymptotic<Short>);
  V steps = zero;
  while (any(x < end)) {
    steps = steps + select(x < end, one / x, zero);
    x = x + select(x < end, one, zero);
  }
  const V inverse = one / x, r = inverse * inverse;
  return vlog(x) - V(0.5) * inverse - r * vpoly(kTail, r) - steps;
}

// From 1 to 2 a Chebyshev series of what is left when the zero is divided out; below, the
// recurrence or the reflection (DLMF 5.5.4).
template <bool Short = false, class V>
MOONLET_LONG_FN V digamma(V x) {
  constexpr int kTerms = Short ? 14 : 0;
  static constexpr double kSeries[] = {
      0.983570260441567,       -0.2270640863346444,     0.03336889902393011,
      -0.005320077271596548,   0.0008788656937820505,   -0.00014773492650606044,
      2.5060543468359146e-05,  -4.2721034029993324e-06, 7.302769272465923e-07,
      -1.2502886813559594e-07, 2.1425009322359472e-08,  -3.673295918565179e-09,
      6.299717236108931e-10,   -1.080593028883266e-10,  1.853735192053638e-11,
      -3.18023536582553e-12,   5.456147570322795e-13,   -9.360993131036438e-14,
      1.606064636295075e-14,   -2.7555431377438815e-15, 4.727736178601912e-16,
      -8.11148420346509e-17,   1.391707769474154e-17,   -2.3877901082188625e-18};
  const V zero(0), one(1), two(2);
  const V up = select(x < zero, one - x, select(x < one, x + one, x));
  V y = either(
      up <= two,
      [&]() MOONLET_LAMBDA {
        const V from_zero = (up - V(1.4616321449683622)) - V(9.549995429965697e-17);
        return from_zero * chebyshev<kTerms>(kSeries, up + up - V(3));
      },
      [&]() MOONLET_LAMBDA { return digamma_above_2<Short>(up); });
  if (!any(x < one)) return y;
  const V reflected = select(x == vround(x), V(kNaN), y - pi_cotangent(x));
  y = select(x < zero, reflected, select(x < one, y - one / x, y));
  return select(x == zero, vcopysign(V(kInf), -x), y);
}

// The derivative of digamma: the recurrence trigamma(x + 1) = trigamma(x) - 1 / x^2, then the
// asymptotic series (DLMF 5.15.8), below 0 the reflection (DLMF 5.15.6).
template <bool Short = false, class V>
MOONLET_LONG_FN V trigamma(V x) {
  static constexpr double kTail[] = {1.0 / 6,  -1.0 / 30,       1.0 / 42, -1.0 / 30,
                                     5.0 / 66, -691.0 / 2730.0, 7.0 / 6,  -3617.0 / 510};
  const V one(1), zero(0), end(kAsymptotic<Short>);
  V up = select(x <= zero, one - x, x), sum = zero;
  while (any(up < end)) {
    sum = sum + select(up < end, one / (up * up), zero);
    up = up + select(up < end, one, zero);
  }
  const V inverse = one / up, r = inverse * inverse;
  const V y = sum + (inverse + (V(0.5) * r + inverse * r * vpoly(kTail, r)));
  if (!any(x <= zero)) return y;
  const V sine = vsin(V(kPi) * (x - vround(x))) * V(1 / kPi);
  return select(x <= zero, one / (sine * sine) - y, y);
}

}  // namespace special
}  // namespace MOONLET_FUNCTOR_NAMESPACE
}  // namespace moonlet
#ifdef HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // toggle

// tensor/cpu/simd/simd_trig-inl.h: trigonometric functions, their inverses, distances and
// neighbours of simd::Vec, within 2 ulp as in simd_exp-inl.h. Included by simd-inl.h, once per
// Highway target.
#if defined(MOONLET_TENSOR_CPU_SIMD_TRIG_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOONLET_TENSOR_CPU_SIMD_TRIG_INL_H_
#undef MOONLET_TENSOR_CPU_SIMD_TRIG_INL_H_
#else
#define MOONLET_TENSOR_CPU_SIMD_TRIG_INL_H_
#endif

#include "hwy/highway.h"
#include "tensor/cpu/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace moonlet {
namespace HWY_NAMESPACE {

// The remainder by pi / 2 is exact enough below these bounds: pi / 2 is taken in parts, of which
// the products with small whole numbers are exact.
template <class T>
inline constexpr double kTrigBound = sizeof(T) == 4 ? 8192 : 1e6;

// x = n pi / 2 + r, |r| <= pi / 4: n, the sine and cosine of r, and in float64 what they drop.
template <class T>
struct QuarterTurn {
  Vec<T> n, sine, cosine, sine_rest, cosine_rest;
};
HWY_INLINE QuarterTurn<float> quarter_turn(Vec<float> x) {
  using V = Vec<float>;
  const V n = vround(x * V(0.636619772367581));
  V r = vfma(n, V(-1.5703125), x);
  r = vfma(n, V(-4.837512969970703125e-4), r);
  r = vfma(n, V(-7.549789948768648e-8), r);
  r = vfma(n, V(1.7151244994428829e-15), r);
  const V z = r * r;
  const V s = vfma(poly(z, -0.166666552, 0.00833215751, -0.000195143773) * z, r, r);
  const V c =
      vfma(poly(z, 0.0416666456, -0.00138873479, 2.44358653e-05) * z, z, vfma(z, V(-0.5), V(1)));
  return {n, s, c, V(0), V(0)};
}
HWY_INLINE QuarterTurn<double> quarter_turn(Vec<double> x) {
  using V = Vec<double>;
  const V n = vround(x * V(0.63661977236758134308));
  const V first = vfma(n, V(-1.57079632673412561417e+00), x);
  const V second = n * V(6.07710050630396597660e-11);
  const V near = first - second;
  const V rest = vfma(n, V(-2.02226624879595063154e-21), (first - near) - second);
  const V r = near + rest, low = (near - r) + rest;
  const V z = r * r, half = V(0.5) * z, one(1);
  const V s = z * r *
              poly(z, -0.16666666666666665, 0.0083333333333308871, -0.00019841269836665881,
                   2.7557316054593913e-6, -2.5051121875169608e-8, 1.5917412836707386e-10);
  const V c = z * z *
              poly(z, 0.041666666666666665, -0.0013888888888887359, 2.4801587298707701e-5,
                   -2.755731724172776e-7, 2.0876140031390974e-9, -1.1382184214477529e-11);
  const V top = one - half, s_rest = vfma(low, top, s);
  const V c_rest = ((one - top) - half) + vfma(-r, low, c);
  const V sine = r + s_rest, cosine = top + c_rest;
  return {n, sine, cosine, (r - sine) + s_rest, (top - cosine) + c_rest};
}

// Where the whole number n has this bit.
template <class T>
HWY_INLINE Mask<T> has_bit(Vec<T> n, int bit) {
  const auto set = hn::Set(Bits<T>(), static_cast<hn::TFromD<Bits<T>>>(bit));
  return {hn::RebindMask(Tag<T>(), hn::TestBit(whole_bits(n, 0), set))};
}
template <class T>
HWY_INLINE Vec<T> negated_where(Mask<T> m, Vec<T> x) {
  return select(m, -x, x);
}

// sin(x + quarters pi / 2)
template <class T>
HWY_INLINE Vec<T> sine_of_turn(const QuarterTurn<T>& turn, double quarters) {
  const Vec<T> n = turn.n + Vec<T>(quarters);
  return negated_where(has_bit(n, 2), select(has_bit(n, 1), turn.cosine, turn.sine));
}
template <class T, class F>
HWY_INLINE Vec<T> with_large_lanes(Vec<T> x, Vec<T> y, F f) {
  const Mask<T> fits = vabs(x) < Vec<T>(kTrigBound<T>);
  return any(!fits) ? select(fits, y, each_lane(f, x)) : y;
}
template <class T>
HWY_INLINE Vec<T> vsin(Vec<T> x) {
  const Vec<T> y = select(x == Vec<T>(0), x, sine_of_turn(quarter_turn(x), 0));
  return with_large_lanes(x, y, [](T v) { return fn::vsin(v); });
}
template <class T>
HWY_INLINE Vec<T> vcos(Vec<T> x) {
  return with_large_lanes(x, sine_of_turn(quarter_turn(x), 1), [](T v) { return fn::vcos(v); });
}
HWY_INLINE Vec<double> vtan(Vec<double> x) {
  using V = Vec<double>;
  const auto turn = quarter_turn(x);
  const Mask<double> odd = has_bit(turn.n, 1);
  const V over = select(odd, turn.cosine, turn.sine), under = select(odd, turn.sine, turn.cosine);
  const V over_rest = select(odd, turn.cosine_rest, turn.sine_rest);
  const V under_rest = select(odd, turn.sine_rest, turn.cosine_rest);
  const V inverse = V(1) / under, q = over * inverse;
  const V y = q + (vfma(-q, under, over) + over_rest - q * under_rest) * inverse;
  return with_large_lanes(x, select(x == V(0), x, negated_where(odd, y)),
                          [](double v) { return fn::vtan(v); });
}
// By a polynomial of r, in quarters of an odd number by its inverse.
HWY_INLINE Vec<float> vtan(Vec<float> x) {
  using V = Vec<float>;
  const V n = vround(x * V(0.636619772367581));
  const V high = vfma(n, V(-4.837512969970703125e-4), vfma(n, V(-1.5703125), x));
  const V third(-7.549789948768648e-8), part = n * third, r = high + part;
  const V lost = ((high - r) + part) + vproduct_rest(n, third, part);
  const V low = vfma(n, V(1.7151244994428829e-15), lost);
  const V z = r * r;
  const V p = poly(z, 0.333333332825, 0.133333437619, 0.0539647741543, 0.0219133041992,
                   0.00859581175723, 0.00446026060813, -4.46984181644e-5, 0.00181156001894);
  const V rest = vfma(p * z, r, vfma(z, low, low)), y = r + rest, y_rest = (r - y) + rest;
  const V inverse = V(-1) / y;
  const V odd = vfma(vfma(inverse, y, V(1)) + inverse * y_rest, inverse, inverse);
  return with_large_lanes(x, select(x == V(0), x, select(has_bit(n, 1), odd, y)),
                          [](float v) { return fn::vtan(v); });
}

// asin(a) as part + rest for a <= 1/2, above as pi / 2 - 2 (part + rest) of the root of (1 - a)
// / 2.
template <class T>
struct ArcSine {
  Mask<T> small;
  Vec<T> part, rest;
};
template <class T>
HWY_INLINE ArcSine<T> arc_sine(Vec<T> a) {
  const Vec<T> half(0.5), zero(0);
  const Mask<T> small = a <= half;
  const Vec<T> square = select(small, a * a, half - half * a);
  const Vec<T> part = select(small, a, vsqrt(square));
  Vec<T> p;
  if constexpr (sizeof(T) == 4)
    p = poly(square, 0.16666666337430907, 0.075000945434974235, 0.044599401528512184,
             0.031100662735494568, 0.017149238357677253, 0.03369084720283012);
  else
    p = poly(square, 0.16666666666666668, 0.074999999999984329, 0.04464285714635543,
             0.030381944138531247, 0.022372172942149888, 0.017352392720869973, 0.013971212973552933,
             0.011479177415184906, 0.010322814350185779, 0.0054575067186403583,
             0.017400879442694022, -0.014851887071247203, 0.028757851367421565);
  // What the root has lost: (square - part^2) / (2 part).
  const Vec<T> lost = vfma(-part, part, square) / (part + part);
  const Mask<T> exact = small || (part == zero);
  return {small, part, vfma(p * square, part, select(exact, zero, lost))};
}
constexpr double kHalfPi = 1.57079632679489661923;
// What float32 and float64 lack of pi / 2.
template <class T>
inline constexpr double kHalfPiRest = sizeof(T) == 4 ? -4.37113900018624283e-8
                                                     : 6.12323399573676603587e-17;
template <class T>
HWY_INLINE Vec<T> vasin(Vec<T> x) {
  const auto arc = arc_sine(vabs(x));
  const Vec<T> sum = arc.part + arc.rest;
  const Vec<T> far = Vec<T>(kHalfPi) - (sum + sum - Vec<T>(kHalfPiRest<T>));
  return vcopysign(select(arc.small, sum, far), x);
}
template <class T>
HWY_INLINE Vec<T> vacos(Vec<T> x) {
  const auto arc = arc_sine(vabs(x));
  const Vec<T> half_pi(kHalfPi), low(kHalfPiRest<T>);
  const Vec<T> sum = arc.part + arc.rest, twice = sum + sum;
  const Vec<T> inner = half_pi - (vcopysign(arc.part, x) - (low - vcopysign(arc.rest, x)));
  const Vec<T> outer = select(x < Vec<T>(0), (half_pi + half_pi) - (twice - (low + low)), twice);
  return select(arc.small, inner, outer);
}

// The angle of the point (x, y) for x, y >= 0, by atan(t) = quarters pi / 4 + atan of a t below
// tan(pi / 8); past a half turn's `from` it is subtracted.
template <class T>
HWY_INLINE Vec<T> first_angle(Vec<T> y, Vec<T> x, Mask<T> from_half_turn) {
  const Vec<T> bound(0.41421356237309504880), zero(0);
  const Mask<T> low = y <= bound * x, high = x < bound * y;
  const Vec<T> over = select(low, y, select(high, -x, y - x));
  const Vec<T> under = select(low, x, select(high, y, y + x));
  const Vec<T> t = select(over == zero, zero, over / under), z = t * t;
  const Vec<T> eighths = select(low, zero, select(high, Vec<T>(2), Vec<T>(1)));
  Vec<T> p;
  if constexpr (sizeof(T) == 4)
    p = poly(z, -0.33333331760863766, 0.19999540413603538, -0.14263953171156329,
             0.10743705260895021, -0.064518412768827972);
  else
    p = poly(z, -0.33333333333333333, 0.19999999999999804, -0.14285714285659807,
             0.11111111105153429, -0.090909087534004996, 0.076922963721299638,
             -0.066664248336135524, 0.058789283985172323, -0.052304498567092407,
             0.045515730866641905, -0.034570044186095536, 0.016285183029865667);
  const Vec<T> turns = select(from_half_turn, Vec<T>(4) - eighths, eighths) * Vec<T>(0.5);
  const Vec<T> sign = select(from_half_turn, Vec<T>(-1), Vec<T>(1));
  const Vec<T> rest = vfma(turns, Vec<T>(kHalfPiRest<T>), sign * (p * z * t));
  return vfma(turns, Vec<T>(kHalfPi), vfma(sign, t, rest));
}
template <class T>
HWY_INLINE Vec<T> vatan(Vec<T> x) {
  const Vec<T> one(1), a = vabs(x);
  return vcopysign(first_angle(a, one, a < Vec<T>(0)), x);
}
template <class T>
HWY_INLINE Vec<T> vatan2(Vec<T> y, Vec<T> x) {
  const Vec<T> inf(HUGE_VAL), one(1), zero(0);
  Vec<T> a = vabs(y), b = vabs(x);
  const Mask<T> infinite = (a == inf) && (b == inf);
  // Their sum stays in the range, and so do quotients of tiny numbers.
  const Vec<T> large = vmax(a, b), huge = constant<T>(1e38, 1e307),
               tiny = constant<T>(1e-30, 1e-290);
  const Vec<T> scale = select(large > huge, Vec<T>(0.25),
                              select(large < tiny, constant<T>(16777216, 9007199254740992), one));
  a = select(infinite, one, a * scale);
  b = select(infinite, one, b * scale);
  const Mask<T> left = vcopysign(one, x) < zero;
  const Vec<T> angle = vcopysign(first_angle(a, b, left), y);
  return select((x != x) || (y != y), x + y, angle);
}

template <class T>
HWY_INLINE Vec<T> vhypot(Vec<T> x, Vec<T> y) {
  const Vec<T> inf(HUGE_VAL);
  Vec<T> size;
  if constexpr (sizeof(T) == 4) {
    size = in_double([](auto a, auto b) HWY_ATTR { return vsqrt(vfma(a, a, b * b)); }, x, y);
  } else {
    const Vec<T> large = vmax(vabs(x), vabs(y)), one(1);
    const Mask<T> big = large > Vec<T>(1e150), small = large < Vec<T>(1e-140);
    const Vec<T> scale = select(big, Vec<T>(0x1p-600), select(small, Vec<T>(0x1p600), one));
    const Vec<T> back = select(big, Vec<T>(0x1p600), select(small, Vec<T>(0x1p-600), one));
    const Vec<T> a = x * scale, b = y * scale;
    size = vsqrt(vfma(a, a, b * b)) * back;
  }
  return select((vabs(x) == inf) || (vabs(y) == inf), inf, size);
}

// Parts and neighbours of the formats.
template <class T>
HWY_INLINE Mask<T> has_digits(Vec<T> x) {
  return (x != Vec<T>(0)) && (vabs(x) < Vec<T>(HUGE_VAL));
}
// A magnitude from 1/2 to 1, as m is split from sqrt(1/2) on.
template <class T>
HWY_INLINE Vec<T> vexponent(Vec<T> x) {
  Vec<T> n;
  const Vec<T> m = split_any_power(vabs(x), n);
  return select(has_digits(x), select(m < Vec<T>(1), n, n + Vec<T>(1)), Vec<T>(0));
}
template <class T>
HWY_INLINE Vec<T> vmantissa(Vec<T> x) {
  Vec<T> n;
  const Vec<T> m = split_any_power(vabs(x), n);
  const Vec<T> half = select(m < Vec<T>(1), m, m * Vec<T>(0.5));
  return select(has_digits(x), vcopysign(half, x), x);
}
template <class T>
HWY_INLINE Vec<T> vpower_of_two(Vec<T> n) {
  const Vec<T> bound = constant<T>(200, 1500);
  return scale_by_power(Vec<T>(1), vmax(vmin(n, bound), -bound));
}
template <class T>
HWY_INLINE Vec<T> vleading_power(Vec<T> x) {
  return from_bits<T>(hn::And(bits_of(x), bits_of(Vec<T>(HUGE_VAL))));
}
template <class T>
HWY_INLINE Vec<T> vnextafter(Vec<T> x, Vec<T> y) {
  const Bits<T> du;
  const Vec<T> zero(0), smallest = from_bits<T>(hn::Set(du, 1));
  const auto one = hn::Set(du, 1), bits = bits_of(x);
  const Vec<T> more = from_bits<T>(hn::Add(bits, one)), less = from_bits<T>(hn::Sub(bits, one));
  const Mask<T> up = ((x < y) && (x > zero)) || ((x > y) && (x < zero));
  const Vec<T> moved = select(x == zero, vcopysign(smallest, y), select(up, more, less));
  return select((x != x) || (y != y), x + y, select(x == y, y, moved));
}

}  // namespace HWY_NAMESPACE
}  // namespace moonlet
HWY_AFTER_NAMESPACE();

#endif  // toggle

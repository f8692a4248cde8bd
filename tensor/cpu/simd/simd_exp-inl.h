// tensor/cpu/simd/simd_exp-inl.h: exponentials, logarithms, powers, hyperbolic functions and their
// inverses of simd::Vec, within 2 ulp in float32 and float64 where the target multiplies and adds
// in one step. Polynomials are interpolated for these files at Chebyshev points, with 50 digits.
// Included by simd-inl.h, once per Highway target.
#if defined(MOONLET_TENSOR_CPU_SIMD_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOONLET_TENSOR_CPU_SIMD_EXP_INL_H_
#undef MOONLET_TENSOR_CPU_SIMD_EXP_INL_H_
#else
#define MOONLET_TENSOR_CPU_SIMD_EXP_INL_H_
#endif

#include "hwy/highway.h"
#include "tensor/cpu/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace moonlet {
namespace HWY_NAMESPACE {

// What vectors of unusual numbers take: a call where it is rare, so that the usual ones stay short.
#undef MOONLET_RARE_FN
#if HWY_TARGET > HWY_AVX3
#define MOONLET_RARE_FN HWY_NOINLINE
#else
#define MOONLET_RARE_FN HWY_INLINE
#endif

constexpr double kLn2 = 0.69314718055994530942;
constexpr double kLog2e = 1.4426950408889634074;

// 2^n for whole n whose power is a normal number.
template <class T>
HWY_INLINE Vec<T> power_of_two(Vec<T> n) {
  return from_bits<T>(hn::ShiftLeft<kDigits<T>>(whole_bits(n, kBias<T>)));
}

// y 2^n for whole n in twice the range of exponents, rounded once.
template <class T>
HWY_INLINE Vec<T> scale_by_power(Vec<T> y, Vec<T> n) {
#if HWY_TARGET <= HWY_AVX3
  if constexpr (sizeof(T) == 4)
    return vec<T>(hn::Vec<Tag<T>>{_mm512_scalef_ps(y.v.raw, n.v.raw)});
  else
    return vec<T>(hn::Vec<Tag<T>>{_mm512_scalef_pd(y.v.raw, n.v.raw)});
#else
  const Vec<T> half = vfloor(n * Vec<T>(0.5));
  return y * power_of_two(half) * power_of_two(n - half);
#endif
}

// e^r - 1 for |r| <= ln2 / 2.
template <class T>
HWY_INLINE Vec<T> expm1_near(Vec<T> r) {
  Vec<T> p;
  if constexpr (sizeof(T) == 4)
    p = poly(r, 0.50000000134592216, 0.16666666681615915, 0.041666464991106769,
             0.008333310932790487, 0.0013933642689829187, 0.00019890982710792465);
  else
    p = poly(r, 0.5, 0.16666666666666667, 0.041666666666624156, 0.008333333333330064,
             0.0013888888917199862, 0.00019841269863042962, 2.4801521317484084e-5,
             2.7557268476553696e-6, 2.7620078203806393e-7, 2.5100377619606371e-8);
  return vfma(p, r * r, r);
}

// x - n ln2 for the whole n next to x / ln2, and what rounding has lost of it.
template <class T>
HWY_INLINE Vec<T> exp_exponent(Vec<T> x) {
  return vround(x * Vec<T>(kLog2e));
}
template <class T>
HWY_INLINE Vec<T> exp_rest(Vec<T> x, Vec<T> n, Vec<T>& lost) {
  const Vec<T> low = constant<T>(2.12194440e-4, -1.90821492927058770002e-10);
  const Vec<T> high = vfma(n, constant<T>(-0.693359375, -6.93147180369123816490e-1), x);
  const Vec<T> r = vfma(n, low, high);
  lost = vfma(n, low, high - r);
  return r;
}
template <class T>
HWY_INLINE Vec<T> exp_rest(Vec<T> x, Vec<T> n) {
  Vec<T> lost;
  return exp_rest(x, n, lost);
}

// e^x where that is a normal number; NaN of NaN.
template <class T>
HWY_INLINE Vec<T> exp_normal(Vec<T> x) {
  const Vec<T> n = exp_exponent(x);
  return (expm1_near(exp_rest(x, n)) + Vec<T>(1)) * power_of_two(n);
}
// The same, and 0 for all x below that range.
template <class T>
HWY_INLINE Vec<T> exp_or_0(Vec<T> x) {
  const Vec<T> least = -constant<T>(87, 708);
  return select(x < least, Vec<T>(0), exp_normal(vmax(least, x)));
}

// e^x 2^shift for x within bounds beyond which it is 0 or infinite; NaN gives a bound's.
template <class T>
HWY_INLINE Vec<T> exp_scaled(Vec<T> x, double shift) {
  const Vec<T> c = vmax(vmin(x, constant<T>(92, 715)), constant<T>(-106, -750));
  const Vec<T> n = exp_exponent(c);
  return scale_by_power(expm1_near(exp_rest(c, n)) + Vec<T>(1), n + Vec<T>(shift));
}
template <class T>
MOONLET_RARE_FN Vec<T> exp_any(Vec<T> x) {
  return select(x != x, x, exp_scaled(x, 0));
}
template <class T>
HWY_INLINE Vec<T> vexp(Vec<T> x) {
#if HWY_TARGET > HWY_AVX3
  if (!any(!(vabs(x) < constant<T>(87, 708)))) return exp_normal(x);
#endif
  return exp_any(x);
}
template <class T>
HWY_INLINE Vec<T> vexp2(Vec<T> x) {
  const Vec<T> c = vmax(vmin(x, constant<T>(130, 1030)), constant<T>(-152, -1080));
  const Vec<T> n = vround(c);
  const Vec<T> y = expm1_near((c - n) * Vec<T>(kLn2)) + Vec<T>(1);
  return select(x != x, x, scale_by_power(y, n));
}
template <class T>
HWY_INLINE Vec<T> vexpm1(Vec<T> x) {
  const Vec<T> c = vmax(vmin(x, constant<T>(89, 710)), Vec<T>(-40));
  const Vec<T> n = exp_exponent(c);
  // In halves, as 2^n may leave the range where the result does not.
  const Vec<T> half = power_of_two(n - Vec<T>(1));
  const Vec<T> y = vfma(expm1_near(exp_rest(c, n)), half, half - Vec<T>(0.5));
  return select((x != x) || (x == Vec<T>(0)), x, y + y);
}

// m and n with x = m 2^n, m from sqrt(1/2) to sqrt(2), for normal x.
template <class T>
HWY_INLINE Vec<T> split_power(Vec<T> x, Vec<T>& n) {
  const Bits<T> du;
  using Word = hn::TFromD<Bits<T>>;
  constexpr auto kOne = static_cast<Word>(sizeof(T) == 4 ? 0x3f800000 : 0x3ff0000000000000);
  constexpr auto kRoot = static_cast<Word>(sizeof(T) == 4 ? 0x3f3504f3 : 0x3fe6a09e667f3bcd);
  constexpr double kMagic = sizeof(T) == 4 ? 8388608 : 4503599627370496;
  const auto bits = bits_of(x);
  const auto e = hn::ShiftRight<kDigits<T>>(hn::Add(bits, hn::Set(du, kOne - kRoot)));
  n = from_bits<T>(hn::Or(e, bits_of(Vec<T>(kMagic)))) - Vec<T>(kMagic + kBias<T>);
  return from_bits<T>(hn::Add(hn::Sub(bits, hn::ShiftLeft<kDigits<T>>(e)), hn::Set(du, kOne)));
}

// log(1 + f) + n ln2 for 1 + f from sqrt(1/2) to sqrt(2).
template <class T>
HWY_INLINE Vec<T> log_near(Vec<T> f, Vec<T> n) {
  const Vec<T> f2 = f * f;
  Vec<T> y;
  if constexpr (sizeof(T) == 4) {
    const Vec<T> r = poly(f, 0.333333105, -0.249999866, 0.20002152, -0.166691974, 0.142199188,
                          -0.123857982, 0.118660353, -0.117796667, 0.0691798329);
    y = vfma(f2, Vec<T>(-0.5), vfma(n, Vec<T>(-2.12194440e-4), r * f * f2));
  } else {
    // In s = f / (2 + f), where log(1 + f) = 2 atanh(s).
    const Vec<T> s = f / (Vec<T>(2) + f), z = s * s, half = Vec<T>(0.5) * f2;
    const Vec<T> r =
        z * poly(z, 0.66666666666666697, 0.39999999999899239, 0.28571428626095892,
                 0.22222211115144162, 0.18182890556695604, 0.15331674030167862, 0.1461703754879165);
    y = vfma(n, Vec<T>(1.90821492927058770002e-10), s * (half + r)) - half;
  }
  return vfma(n, constant<T>(0.693359375, 6.93147180369123816490e-1), f + y);
}

// The logarithm's values where x is not a positive number, y elsewhere.
template <class T>
HWY_INLINE Vec<T> log_ends(Vec<T> x, Vec<T> y) {
  const Vec<T> inf(HUGE_VAL), zero(0);
  y = select(x == inf, x, select(x == zero, -inf, y));
  return select(x >= zero, y, select(x != x, x, Vec<T>(NAN)));
}

// The same split for all positive x.
template <class T>
HWY_INLINE Vec<T> split_any_power(Vec<T> x, Vec<T>& n) {
  const Mask<T> tiny = x < constant<T>(1.17549435e-38, 2.2250738585072014e-308);
  const Vec<T> scale = constant<T>(8388608, 18014398509481984.0);
  const Vec<T> m = split_power(select(tiny, x * scale, x), n);
  n = n - select(tiny, constant<T>(23, 54), Vec<T>(0));
  return m;
}

template <class T>
MOONLET_RARE_FN Vec<T> log_any(Vec<T> x) {
  Vec<T> n;
  const Vec<T> m = split_any_power(x, n);
  return log_ends(x, log_near(m - Vec<T>(1), n));
}
template <class T>
HWY_INLINE Vec<T> vlog(Vec<T> x) {
  const Vec<T> smallest = constant<T>(1.17549435e-38, 2.2250738585072014e-308);
  if (any(!((x >= smallest) && (x < Vec<T>(HUGE_VAL))))) return log_any(x);
  Vec<T> n;
  const Vec<T> m = split_power(x, n);
  return log_near(m - Vec<T>(1), n);
}
template <class T>
HWY_INLINE Vec<T> vlog2(Vec<T> x) {
  Vec<T> n;
  const Vec<T> m = split_any_power(x, n);
  const Vec<T> y = log_near(m - Vec<T>(1), Vec<T>(0));
  return log_ends(x, n + vfma(y, Vec<T>(kLog2e - 1), y));
}
template <class T>
HWY_INLINE Vec<T> vlog10(Vec<T> x) {
  Vec<T> n;
  const Vec<T> m = split_any_power(x, n);
  const Vec<T> y = log_near(m - Vec<T>(1), Vec<T>(0));
  // Both constants in two parts, the first of the power's short enough for exact products.
  const Vec<T> rest = vfma(y, constant<T>(-1.01030400e-8, 1.09831965021676508e-17),
                           n * constant<T>(4.60503820e-6, 3.69423907715893078616e-13));
  const Vec<T> low = vfma(y, Vec<T>(0.43429448190325182765), rest);
  return log_ends(x, vfma(n, constant<T>(0.301025390625, 3.01029995663611771306e-1), low));
}

// log(1 + v + rest) for v >= -1 and a rest that is small beside 1 + v.
template <class T>
HWY_INLINE Vec<T> log1p_sum(Vec<T> v, Vec<T> rest, Vec<T> more_powers = Vec<T>(0)) {
  const Vec<T> one(1), u = one + v, back = u - one;
  const Vec<T> dropped = (one - (u - back)) + (v - back) + rest;
  Vec<T> n;
  const Vec<T> m = split_power(u, n);
  // What was dropped counts for nothing where its power is not a normal number.
  const Vec<T> scale = power_of_two(-vmin(n, constant<T>(100, 1000)));
  return log_near(vfma(dropped, scale, m - one), n + more_powers);
}
template <class T>
HWY_INLINE Vec<T> vlog1p(Vec<T> x) {
  const Vec<T> inf(HUGE_VAL), one(1);
  const Vec<T> y = select(x == -one, -inf, log1p_sum(x, Vec<T>(0)));
  return select((x > -one) && (x != Vec<T>(0)) && (x < inf), y,
                select(x < -one, Vec<T>(NAN), select(x == -one, -inf, x)));
}

// log(1 + x) for x from 0 to 1: x less a small rest, in s = x / (2 + x), where it is 2 atanh(s).
template <class T>
HWY_INLINE Vec<T> vlog1p_unit(Vec<T> x) {
  const Vec<T> s = x / (Vec<T>(2) + x), z = s * s, half = Vec<T>(0.5) * x * x;
  Vec<T> p;
  if constexpr (sizeof(T) == 4)
    p = poly(z, 0.66666667320527412, 0.39999706331929717, 0.28592357994302838, 0.21706575800880373,
             0.23224329224023349);
  else
    p = poly(z, 0.66666666666666659, 0.40000000000014583, 0.28571428567108757, 0.22222222717427863,
             0.18181789436132858, 0.15385570064958623, 0.13314144209654936, 0.12001072809590713,
             0.088007384861446739, 0.16164045611943532);
  return x - (half - s * vfma(p, z, half));
}

// Hyperbolic functions: the even and the odd part of e^a, each a polynomial where it would lose
// digits.
template <class T>
HWY_INLINE Vec<T> vcosh(Vec<T> x) {
  const Vec<T> half = exp_scaled(vabs(x), -1);
  return select(x != x, x, half + Vec<T>(0.25) / half);
}
template <class T>
HWY_INLINE Vec<T> vsinh(Vec<T> x) {
  const Vec<T> a = vabs(x), z = x * x, half = exp_scaled(a, -1);
  Vec<T> p;
  if constexpr (sizeof(T) == 4)
    p = poly(z, 0.16666666646842134, 0.0083333396759170609, 0.00019838101968683889,
             2.8062802582276946e-6);
  else
    p = poly(z, 0.16666666666666667, 0.0083333333333333334, 0.00019841269841269773,
             2.7557319224040339e-6, 2.5052108364058041e-8, 1.6059048396350562e-10,
             7.6466253616566577e-13, 2.8445264169895286e-15);
  const Vec<T> near = vfma(p * z, x, x), far = vcopysign(half - Vec<T>(0.25) / half, x);
  return select(a > Vec<T>(1), far, near);
}
// e^(2 a) - 1 = high power + (power - 1) for a up to 20: the n are so small, or count for so
// little, that ln2 need not be in two parts.
template <class T>
struct DoubledExp {
  Vec<T> high, power;
};
template <class T>
HWY_INLINE DoubledExp<T> doubled_exp(Vec<T> a) {
  // The low bits of `whole` are the power's exponent.
  const Vec<T> magic((sizeof(T) == 4 ? 12582912.0 : 6755399441055744.0) + kBias<T>);
  const Vec<T> twice = a + a, whole = vfma(twice, Vec<T>(kLog2e), magic), n = whole - magic;
  return {expm1_near(vfma(n, Vec<T>(-kLn2), twice)),
          from_bits<T>(hn::ShiftLeft<kDigits<T>>(bits_of(whole)))};
}
// 1 / x for a normal number x, the last digit apart. A division of the largest vectors takes as
// long as a dozen products.
template <class T>
HWY_INLINE Vec<T> near_inverse(Vec<T> x) {
#if HWY_TARGET <= HWY_AVX3
  if constexpr (sizeof(T) == 4) {
    const Vec<T> guess = vec<T>(hn::ApproximateReciprocal(x.v));
    return vfma(vfma(-guess, x, Vec<T>(1)), guess, guess);
  }
#endif
  return Vec<T>(1) / x;
}
// By a polynomial, from 0.55 on 1 - 2 / (e^(2 a) + 1), which is 1 from 20 on.
template <class T>
HWY_INLINE Vec<T> vtanh(Vec<T> x) {
  const Vec<T> a = vabs(x), z = x * x, one(1);
  Vec<T> p;
  if constexpr (sizeof(T) == 4)
    p = poly(z, -0.33333332005908134, 0.13333113458732416, -0.053909375641847945,
             0.02130906232857862, -0.0066096140128846231);
  else
    p = poly(z, -0.33333333333333333, 0.13333333333332713, -0.053968253967431739,
             0.021869488493563038, -0.0088632343954180956, 0.0035921103470961766,
             -0.0014556615775702364, 0.00058893480724470277, -0.00023463104528300406,
             8.5107079273541128e-5, -2.0598556673275168e-5);
  const auto exp = doubled_exp(vmin(a, Vec<T>(20)));
  const Vec<T> inverse = near_inverse(vfma(exp.high, exp.power, exp.power + one));
  const Vec<T> near = vfma(p * z, a, a), far = vfma(Vec<T>(-2), inverse, one);
  return vcopysign(select(a > Vec<T>(0.55), far, near), x);
}

// The inverses: logarithms of 1 + v, of which the bits that v drops are kept.
template <class T>
HWY_INLINE Vec<T> vasinh(Vec<T> x) {
  const Vec<T> a = vabs(x), zero(0), one(1);
  const Mask<T> large = a > constant<T>(1e9, 1e18);
  // a + a^2 / (1 + sqrt(1 + a^2)); of large ones a twice.
  const Vec<T> safe = select(large, one, a), square = safe * safe;
  const Vec<T> w = square / (one + vsqrt(one + square));
  const Vec<T> v = safe + w, rest = (safe - v) + w;
  const Vec<T> y =
      log1p_sum(select(large, a, v), select(large, zero, rest), select(large, one, zero));
  return select(a < Vec<T>(HUGE_VAL), select(x == zero, x, vcopysign(y, x)), x);
}
template <class T>
HWY_INLINE Vec<T> vacosh(Vec<T> x) {
  const Vec<T> zero(0), one(1);
  const Mask<T> large = x > constant<T>(1e9, 1e18);
  const Vec<T> t = select(large, one, x) - one, square = vfma(t, t, t + t), root = vsqrt(square);
  const Vec<T> lost = select(root == zero, zero, vfma(-root, root, square) / (root + root));
  const Vec<T> v = t + root, rest = ((root - v) + t) + lost;
  const Vec<T> y =
      log1p_sum(select(large, x, v), select(large, zero, rest), select(large, one, zero));
  return select(x < Vec<T>(HUGE_VAL), select(x >= one, y, Vec<T>(NAN)), x);
}
template <class T>
HWY_INLINE Vec<T> vatanh(Vec<T> x) {
  // Half the logarithm of 1 + 2 a / (1 - a).
  const Vec<T> a = vabs(x), one(1), d = one - a, dropped = (one - d) - a;
  const Vec<T> inverse = one / d, q = (a + a) * inverse;
  const Vec<T> rest = (vfma(-q, d, a + a) - q * dropped) * inverse;
  const Vec<T> y = Vec<T>(0.5) * log1p_sum(q, rest);
  const Vec<T> ends = select(a == one, Vec<T>(HUGE_VAL), Vec<T>(NAN));
  return select(x == Vec<T>(0), x, vcopysign(select(a < one, y, ends), x));
}

}  // namespace HWY_NAMESPACE
}  // namespace moonlet
HWY_AFTER_NAMESPACE();

#endif  // toggle

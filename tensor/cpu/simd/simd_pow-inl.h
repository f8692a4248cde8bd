// tensor/cpu/simd/simd_pow-inl.h: powers of vectors, as 2^(y log2 |x|): of float32 in float64, of
// float64 within 1 ulp with the logarithm and its product as sums of two numbers, since y enlarges
// their errors by up to 2^10. Included by simd-inl.h, once per Highway target.
#if defined(MOONLET_TENSOR_CPU_SIMD_POW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOONLET_TENSOR_CPU_SIMD_POW_INL_H_
#undef MOONLET_TENSOR_CPU_SIMD_POW_INL_H_
#else
#define MOONLET_TENSOR_CPU_SIMD_POW_INL_H_
#endif

#include <array>
#include <limits>

#include "tensor/cpu/simd/simd-inl.h"
#include "tensor/cpu/simd/simd_exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace moonlet {
namespace HWY_NAMESPACE {

using F64 = Vec<double>;

// The sum of a number and one much smaller.
struct Pair {
  F64 high, low;
};
HWY_INLINE Pair product(F64 a, F64 b) {
  const F64 high = a * b;
  return {high, vfma(a, b, -high)};
}
HWY_INLINE Pair product(Pair a, Pair b) {
  const Pair p = product(a.high, b.high);
  return {p.high, p.low + vfma(a.high, b.low, a.low * b.high)};
}
// a + b for |a| >= |b|, or a = 0.
HWY_INLINE Pair sum(F64 a, Pair b) {
  const F64 high = a + b.high;
  return {high, ((a - high) + b.high) + b.low};
}

// 1/5 + w/7 + w^2/9 + ..., to 2^-56 of it for w up to (sqrt(2) - 1)^4.
HWY_INLINE F64 atanh_rest(F64 w) {
  F64 y(1.0 / 27);
  for (int k = 25; k >= 5; k -= 2) y = vfma(y, w, F64(1.0 / k));
  return y;
}

// log2(x) of a positive normal number, to 2^-64 of it.
HWY_INLINE Pair log2_pair(F64 x) {
  const Tag<double> d;
  const hn::RebindToSigned<Tag<double>> di;
  // x = m 2^e with m from sqrt(1/2) to sqrt(2).
  const auto bits = hn::BitCast(di, x.v);
  const auto exponent = hn::ShiftRight<52>(hn::Sub(bits, hn::Set(di, 0x3FE6A09E667F3BCD)));
  const F64 m = vec<double>(hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<52>(exponent))));
  const F64 shift(0x1.8p52);  // a number whose last bits hold small integers
  const F64 e = vec<double>(hn::BitCast(d, hn::Add(exponent, hn::BitCast(di, shift.v)))) - shift;
  // ln m = 2 atanh(s) = 2 s (1 + w (1/3 + w rest)) with s = (m - 1) / (m + 1) and w = s^2.
  const F64 f = m - F64(1), z = m + F64(1), inverse = F64(1) / z, quotient = f * inverse;
  const F64 left = vfma(-quotient, z, f) - quotient * (m - (z - F64(1)));
  const Pair s = {quotient, left * inverse}, w = product(s, s);
  Pair t = product(w.high, atanh_rest(w.high));
  t = sum(F64(1.0 / 3), {t.high, t.low + F64(1.8503717077085943e-17)});
  const Pair series = sum(F64(1), product(w, t));
  const Pair factor = {F64(2.8853900817779268), F64(4.0710547481862066e-17)};  // 2 / ln 2
  return sum(e, product(product(s, factor), series));
}

// 2^r for |r| slightly above 1/2 at most: the powers of ln 2 over factorials.
HWY_INLINE F64 exp2_near(F64 r) {
  constexpr int kTerms = 14;
  constexpr auto factors = [] {
    std::array<double, kTerms> c = {1};
    for (int k = 1; k < kTerms; ++k) c[k] = c[k - 1] * 0.69314718055994530942 / k;
    return c;
  }();
  F64 y(factors[kTerms - 1]);
  for (int k = kTerms - 2; k >= 0; --k) y = vfma(y, r, F64(factors[k]));
  return y;
}

// y 2^n for whole n in twice the range of exponents, rounded once.
HWY_INLINE F64 times_power_of_two(F64 y, F64 n) {
  const Tag<double> d;
  const hn::RebindToSigned<Tag<double>> di;
  const auto power = [&](F64 k) {
    const F64 shift(0x1.8p52 + 1023);
    return vec<double>(hn::BitCast(d, hn::ShiftLeft<52>(hn::BitCast(di, (k + shift).v))));
  };
  const F64 half = vfloor(n * F64(0.5));
  return y * power(half) * power(n - half);
}

// |x|^y for a normal x and a y whose products do not overflow.
HWY_INLINE F64 power_of_size(F64 x, F64 y) {
  const Pair log = log2_pair(vabs(x));
  const Pair p = product(log, {y, F64(0)});
  const F64 bound(1100);
  const F64 high = vmax(vmin(p.high, bound), -bound), n = vround(high);
  const F64 r = (high - n) + select(high == p.high, p.low, F64(0));
  return times_power_of_two(exp2_near(r), n);
}

HWY_INLINE F64 pow_by_vectors(F64 x, F64 y) {
  const F64 whole = vfloor(y), half = y * F64(0.5), power = power_of_size(x, y);
  const Mask<double> negative = x < F64(0), odd = (whole == y) && (vfloor(half) != half);
  const F64 of_negative = select(whole == y, select(odd, -power, power), F64(NAN));
  const F64 result = select(negative, of_negative, power), size = vabs(x);
  const Mask<double> fits = (size >= F64(std::numeric_limits<double>::min())) &&
                            (size < F64(HUGE_VAL)) && (vabs(y) < F64(1e300));
  if (!any(!fits)) return result;
  return select(fits, result, each_lane([](double a, double b) { return fn::vpow(a, b); }, x, y));
}

// |x|^y of float32, in float64.
HWY_INLINE F64 wide_power(F64 x, F64 y) {
  const Vec<double> one(1), inf(HUGE_VAL), size = vabs(x);
  const Mask<double> is_one =
      (y == Vec<double>(0)) || (x == one) || ((size == one) && (vabs(y) == inf));
  return select(is_one, one, vexp2(y * vlog2(size)));
}
HWY_INLINE Vec<float> power_by_sign(Vec<float> x, Vec<float> y, Vec<float> power) {
  const Vec<float> whole = vfloor(y), half = y * Vec<float>(0.5);
  const Mask<float> odd = (whole == y) && (vfloor(half) != half);
  const Mask<float> none =
      (x < Vec<float>(0)) && (x > Vec<float>(-HUGE_VAL)) && (whole != y) && (y == y);
  return select(none, Vec<float>(NAN), select(odd, vcopysign(power, x), power));
}
// x^3 but for a last rounding, as other powers come out.
HWY_INLINE Vec<float> cube(Vec<float> x) {
  return in_double([](auto a) HWY_ATTR { return a * a * a; }, x);
}
HWY_INLINE Vec<double> cube(Vec<double> x) {
  const Vec<double> square = x * x, product = square * x;
  const Vec<double> missed = vfma(square, x, -product) + vfma(x, x, -square) * x;
  // A zero keeps its sign.
  const Vec<double> whole = vcopysign(product + missed, product);
  return select(vabs(product) < Vec<double>(HUGE_VAL), whole, product);
}
template <class T>
HWY_INLINE Vec<T> root(Vec<T> x) {
  return select(vabs(x) == Vec<T>(HUGE_VAL), vabs(x), vsqrt(x + Vec<T>(0)));
}
template <class T>
HWY_INLINE Vec<T> any_power(Vec<T> x, Vec<T> y) {
  if constexpr (sizeof(T) == 4)
    return power_by_sign(x, y,
                         in_double([](auto a, auto b) HWY_ATTR { return wide_power(a, b); }, x, y));
  // Without fused products the pairs would be no better than single numbers.
  else if constexpr (MOONLET_FUSES_PRODUCTS)
    return pow_by_vectors(x, y);
  else
    return each_lane([](T a, T b) -> T { return fn::vpow(a, b); }, x, y);
}
template <class T>
HWY_INLINE Vec<T> vpow(Vec<T> x, Vec<T> y) {
  // The most common powers, all but cubes exact to rounding either way.
  const Mask<T> is_square = y == Vec<T>(2), is_inverse = y == Vec<T>(-1), is_cube = y == Vec<T>(3),
                is_root = y == Vec<T>(0.5);
  if (!any(!is_square)) return x * x;
  if (!any(!is_inverse)) return Vec<T>(1) / x;
  if (!any(!is_cube)) return cube(x);
  if (!any(!is_root)) return root(x);
  // Those among others are computed in the same way, so that no value depends on what stands beside
  // it.
  const Vec<T> power = any_power(x, y);
  if (!any(is_square || is_inverse || is_cube || is_root)) return power;
  const Vec<T> rest = select(is_cube, cube(x), select(is_root, root(x), power));
  return select(is_square, x * x, select(is_inverse, Vec<T>(1) / x, rest));
}

}  // namespace HWY_NAMESPACE
}  // namespace moonlet
HWY_AFTER_NAMESPACE();

#endif  // toggle

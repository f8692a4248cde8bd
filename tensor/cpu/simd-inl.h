// tensor/cpu/simd-inl.h: simd::Vec, a Highway vector with the functors' vocabulary: operators,
// select, and the math functions. float32 has its own approximations (minimax polynomials fitted
// for this file, within 4 ulp); the rarer functions and float64 call the C library lane by lane.
// Included once per Highway target.
#if defined(MOONLET_TENSOR_CPU_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOONLET_TENSOR_CPU_SIMD_INL_H_
#undef MOONLET_TENSOR_CPU_SIMD_INL_H_
#else
#define MOONLET_TENSOR_CPU_SIMD_INL_H_
#endif

#include "hwy/highway.h"
#include "tensor/functor_math.h"

HWY_BEFORE_NAMESPACE();
namespace moonlet {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The vectors' functions join the single values', which this namespace would hide otherwise.
using fn::select;
using fn::any;
using fn::vabs;
using fn::vsqrt;
using fn::vfloor;
using fn::vceil;
using fn::vround;
using fn::vtrunc;
using fn::vadd;
using fn::vsub;
using fn::vmul;
using fn::vmin;
using fn::vmax;
using fn::vcopysign;
using fn::vconj;
using fn::vmantissa;
using fn::vexponent;
using fn::vpower_of_two;
using fn::vexp;
using fn::vexp2;
using fn::vexpm1;
using fn::vlog;
using fn::vlog2;
using fn::vlog10;
using fn::vlog1p;
using fn::vsin;
using fn::vcos;
using fn::vtan;
using fn::vasin;
using fn::vacos;
using fn::vatan;
using fn::vsinh;
using fn::vcosh;
using fn::vtanh;
using fn::vasinh;
using fn::vacosh;
using fn::vatanh;
using fn::verf;
using fn::verfc;
using fn::vfmod;
using fn::vatan2;
using fn::vhypot;
using fn::vnextafter;
using fn::vfloor_div;
using fn::vremainder;
using fn::vpow;

template <class T>
using Tag = hn::ScalableTag<T>;

template <class T>
struct Mask {
  using Raw = decltype(hn::Eq(hn::Zero(Tag<T>()), hn::Zero(Tag<T>())));
  Raw m;
};

template <class T>
struct Vec {
  using Lane = T;
  using Raw = decltype(hn::Zero(Tag<T>()));
  Raw v;
  HWY_INLINE Vec() : v(hn::Zero(Tag<T>())) {}
  HWY_INLINE Vec(double value) : v(hn::Set(Tag<T>(), static_cast<T>(value))) {}
};
template <class T, class R>
HWY_INLINE Vec<T> vec(R raw) {
  Vec<T> out;
  out.v = raw;
  return out;
}

#define MOONLET_OP(op, f)                             \
  template <class T>                                  \
  HWY_INLINE Vec<T> operator op(Vec<T> a, Vec<T> b) { \
    return vec<T>(hn::f(a.v, b.v));                   \
  }
MOONLET_OP(+, Add)
MOONLET_OP(-, Sub)
MOONLET_OP(*, Mul)
MOONLET_OP(/, Div)
#undef MOONLET_OP
#define MOONLET_OP(op, f)                              \
  template <class T>                                   \
  HWY_INLINE Mask<T> operator op(Vec<T> a, Vec<T> b) { \
    return {hn::f(a.v, b.v)};                          \
  }
MOONLET_OP(<, Lt)
MOONLET_OP(<=, Le)
MOONLET_OP(>, Gt)
MOONLET_OP(>=, Ge)
MOONLET_OP(==, Eq)
#undef MOONLET_OP
template <class T>
HWY_INLINE Mask<T> operator!=(Vec<T> a, Vec<T> b) {
  return {hn::Not(hn::Eq(a.v, b.v))};
}
template <class T>
HWY_INLINE Vec<T> operator-(Vec<T> a) {
  return vec<T>(hn::Neg(a.v));
}
template <class T>
HWY_INLINE Mask<T> operator&&(Mask<T> a, Mask<T> b) {
  return {hn::And(a.m, b.m)};
}
template <class T>
HWY_INLINE Mask<T> operator||(Mask<T> a, Mask<T> b) {
  return {hn::Or(a.m, b.m)};
}
template <class T>
HWY_INLINE Mask<T> operator!(Mask<T> a) {
  return {hn::Not(a.m)};
}
template <class T>
HWY_INLINE Vec<T> select(Mask<T> m, Vec<T> a, Vec<T> b) {
  return vec<T>(hn::IfThenElse(m.m, a.v, b.v));
}
template <class T>
HWY_INLINE bool any(Mask<T> m) {
  return !hn::AllFalse(Tag<T>(), m.m);
}

#define MOONLET_UNARY(name, f)       \
  template <class T>                 \
  HWY_INLINE Vec<T> name(Vec<T> x) { \
    return vec<T>(hn::f(x.v));       \
  }
MOONLET_UNARY(vabs, Abs)
MOONLET_UNARY(vsqrt, Sqrt)
MOONLET_UNARY(vfloor, Floor)
MOONLET_UNARY(vceil, Ceil)
MOONLET_UNARY(vround, Round)
MOONLET_UNARY(vtrunc, Trunc)
#undef MOONLET_UNARY
template <class T>
HWY_INLINE Vec<T> vconj(Vec<T> x) {
  return x;
}
#define MOONLET_BINARY(name, f)                \
  template <class T>                           \
  HWY_INLINE Vec<T> name(Vec<T> x, Vec<T> y) { \
    return vec<T>(hn::f(x.v, y.v));            \
  }
MOONLET_BINARY(vadd, Add)
MOONLET_BINARY(vsub, Sub)
MOONLET_BINARY(vmul, Mul)
MOONLET_BINARY(vmin, Min)
MOONLET_BINARY(vmax, Max)
MOONLET_BINARY(vcopysign, CopySign)
#undef MOONLET_BINARY
// a * b + c
template <class T>
HWY_INLINE Vec<T> fma(Vec<T> a, Vec<T> b, Vec<T> c) {
  return vec<T>(hn::MulAdd(a.v, b.v, c.v));
}

// The C library's function on each lane.
template <class T, class F>
HWY_INLINE Vec<T> each_lane(F f, Vec<T> x) {
  HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(T)];
  hn::Store(x.v, Tag<T>(), lanes);
  for (size_t i = 0; i < hn::Lanes(Tag<T>()); ++i) lanes[i] = f(lanes[i]);
  return vec<T>(hn::Load(Tag<T>(), lanes));
}
template <class T, class F>
HWY_INLINE Vec<T> each_lane(F f, Vec<T> x, Vec<T> y) {
  HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(T)];
  HWY_ALIGN T others[HWY_MAX_BYTES / sizeof(T)];
  hn::Store(x.v, Tag<T>(), lanes);
  hn::Store(y.v, Tag<T>(), others);
  for (size_t i = 0; i < hn::Lanes(Tag<T>()); ++i) lanes[i] = f(lanes[i], others[i]);
  return vec<T>(hn::Load(Tag<T>(), lanes));
}

#define MOONLET_LANES(name)                                    \
  template <class T>                                           \
  HWY_INLINE Vec<T> name(Vec<T> x) {                           \
    return each_lane([](T v) -> T { return fn::name(v); }, x); \
  }
MOONLET_LANES(vexp)
MOONLET_LANES(vexp2)
MOONLET_LANES(vexpm1)
MOONLET_LANES(vlog)
MOONLET_LANES(vlog2)
MOONLET_LANES(vlog10)
MOONLET_LANES(vlog1p)
MOONLET_LANES(vsin)
MOONLET_LANES(vcos)
MOONLET_LANES(vtan)
MOONLET_LANES(vasin)
MOONLET_LANES(vacos)
MOONLET_LANES(vatan)
MOONLET_LANES(vsinh)
MOONLET_LANES(vcosh)
MOONLET_LANES(vtanh)
MOONLET_LANES(vasinh)
MOONLET_LANES(vacosh)
MOONLET_LANES(vatanh)
MOONLET_LANES(verf)
MOONLET_LANES(verfc)
MOONLET_LANES(vmantissa)
MOONLET_LANES(vexponent)
MOONLET_LANES(vpower_of_two)
#undef MOONLET_LANES
#define MOONLET_LANES(name)                                               \
  template <class T>                                                      \
  HWY_INLINE Vec<T> name(Vec<T> x, Vec<T> y) {                            \
    return each_lane([](T a, T b) -> T { return fn::name(a, b); }, x, y); \
  }
MOONLET_LANES(vfmod)
MOONLET_LANES(vatan2)
MOONLET_LANES(vhypot)
MOONLET_LANES(vnextafter)
MOONLET_LANES(vfloor_div)
MOONLET_LANES(vremainder)
#undef MOONLET_LANES
template <class T>
HWY_INLINE Vec<T> vpow(Vec<T> x, Vec<T> y) {
  // Squares are exact to rounding either way, and by far the most common power.
  if (!any(y != Vec<T>(2))) return x * x;
  return each_lane([](T a, T b) -> T { return fn::vpow(a, b); }, x, y);
}

using F32 = Vec<float>;

// The polynomial c0 + c1 x + c2 x^2 ... by Horner's rule.
template <class... Rest>
HWY_INLINE F32 poly(F32 x, double c0, Rest... rest) {
  if constexpr (sizeof...(rest) == 0)
    return F32(c0);
  else
    return fma(poly(x, rest...), x, F32(c0));
}

// 2^n for whole n in [-126, 127].
HWY_INLINE F32 power_of_two(F32 n) {
  const hn::RebindToSigned<Tag<float>> di;
  const auto bits = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, n.v), hn::Set(di, 127)));
  return vec<float>(hn::BitCast(Tag<float>(), bits));
}

// x = n ln2 + r with |r| <= ln2 / 2; returns r + r^2 P(r) = e^r - 1.
HWY_INLINE F32 exp_reduced(F32 x, F32 n) {
  F32 r = fma(n, F32(-0.693359375), x);
  r = fma(n, F32(2.12194440e-4), r);
  const F32 p = poly(r, 0.5, 0.166665196, 0.0416662097, 0.00836886186, 0.00139504031);
  return fma(p, r * r, r);
}
HWY_INLINE F32 exp_exponent(F32 x) { return vround(x * F32(1.44269504088896)); }

// y 2^n for whole n in [-252, 254], rounded once.
HWY_INLINE F32 scale_by_power(F32 y, F32 n) {
#if HWY_TARGET <= HWY_AVX3
  return vec<float>(hn::Vec<Tag<float>>{_mm512_scalef_ps(y.v.raw, n.v.raw)});
#else
  const F32 half = vfloor(n * F32(0.5));
  return y * power_of_two(half) * power_of_two(n - half);
#endif
}

HWY_INLINE F32 vexp(F32 x) {
  // Beyond these the result is 0 or infinite; min and max give the bound for a NaN, too.
  const F32 c = vmax(vmin(x, F32(90)), F32(-106));
  const F32 n = exp_exponent(c);
  const F32 y = scale_by_power(exp_reduced(c, n) + F32(1), n);
  return select(x != x, x, y);
}

HWY_INLINE F32 vexpm1(F32 x) {
  const F32 c = vmax(vmin(x, F32(80)), F32(-40));
  const F32 n = exp_exponent(c);
  const F32 scale = power_of_two(n);
  F32 y = fma(exp_reduced(c, n), scale, scale - F32(1));
  if (any(x > F32(80))) y = select(x > F32(80), vexp(x), y);
  return select((x != x) || (x == F32(0)), x, y);
}

HWY_INLINE F32 vlog(F32 x) {
  const Tag<float> d;
  const hn::RebindToSigned<Tag<float>> di;
  const Mask<float> tiny = x < F32(1.17549435e-38);
  const F32 scaled = select(tiny, x * F32(8388608), x);
  // Takes the exponent so that the mantissa lies in [sqrt(1/2), sqrt(2)).
  const auto bits = hn::BitCast(di, scaled.v);
  const auto e = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(di, 0x3f3504f3)));
  const F32 m = vec<float>(hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(e))));
  const F32 n = vec<float>(hn::ConvertTo(d, e)) - select(tiny, F32(23), F32(0));
  const F32 f = m - F32(1);
  const F32 f2 = f * f;
  const F32 r = poly(f, 0.333333105, -0.249999866, 0.20002152, -0.166691974, 0.142199188,
                     -0.123857982, 0.118660353, -0.117796667, 0.0691798329);
  F32 y = fma(n, F32(-2.12194440e-4), r * f * f2);
  y = fma(f2, F32(-0.5), y);
  y = fma(n, F32(0.693359375), f + y);
  const F32 inf(HUGE_VAL);
  y = select(x == F32(0), -inf, y);
  y = select(x == inf, x, y);
  return select(x >= F32(0), y, select(x != x, x, F32(NAN)));
}

HWY_INLINE F32 vlog1p(F32 x) {
  // Kahan's correction of log(1 + x) for the rounding of the sum.
  const F32 u = F32(1) + x;
  const F32 y = vlog(u) * (x / (u - F32(1)));
  return select((u == F32(1)) || (x == F32(HUGE_VAL)) || (x != x), x, y);
}

// Reduces by pi/2 in four parts, exact enough below this bound.
constexpr double kTrigBound = 8192;

// sin(x + quarter * pi/2)
HWY_INLINE F32 sin_quarter(F32 x, int quarter) {
  const hn::RebindToSigned<Tag<float>> di;
  const F32 n = vround(x * F32(0.636619772367581));
  F32 r = fma(n, F32(-1.5703125), x);
  r = fma(n, F32(-4.837512969970703125e-4), r);
  r = fma(n, F32(-7.549789948768648e-8), r);
  r = fma(n, F32(1.7151244994428829e-15), r);
  const F32 z = r * r;
  const F32 s = fma(poly(z, -0.166666552, 0.00833215751, -0.000195143773) * z, r, r);
  const F32 c =
      fma(poly(z, 0.0416666456, -0.00138873479, 2.44358653e-05) * z, z, fma(z, F32(-0.5), F32(1)));
  const auto q = hn::Add(hn::ConvertTo(di, n.v), hn::Set(di, quarter));
  const auto odd = hn::RebindMask(Tag<float>(), hn::TestBit(q, hn::Set(di, 1)));
  const auto sign = hn::ShiftLeft<30>(hn::And(q, hn::Set(di, 2)));
  const auto y = hn::IfThenElse(odd, c.v, s.v);
  return vec<float>(hn::Xor(y, hn::BitCast(Tag<float>(), sign)));
}
template <class F>
HWY_INLINE F32 with_large_lanes(F32 x, F32 y, F f) {
  const Mask<float> fits = vabs(x) < F32(kTrigBound);
  return any(!fits) ? select(fits, y, each_lane(f, x)) : y;
}
HWY_INLINE F32 vsin(F32 x) {
  const F32 y = select(x == F32(0), x, sin_quarter(x, 0));
  return with_large_lanes(x, y, [](float v) { return sinf(v); });
}
HWY_INLINE F32 vcos(F32 x) {
  return with_large_lanes(x, sin_quarter(x, 1), [](float v) { return cosf(v); });
}

HWY_INLINE F32 vtanh(F32 x) {
  // (e^2a - 1) / (e^2a + 1), from e^2a - 1, which keeps its digits near 0; 1 from a = 10 on.
  const F32 a = vmin(vabs(x), F32(10)) * F32(2);
  const F32 n = exp_exponent(a);
  const F32 scale = power_of_two(n);
  const F32 m = fma(exp_reduced(a, n), scale, scale - F32(1));
  return select(x != x, x, vcopysign(m / (m + F32(2)), x));
}

HWY_INLINE F32 verf(F32 x) {
  const F32 a = vabs(x);
  const F32 z = x * x;
  const F32 near = fma(poly(z, 0.128379166, -0.376126379, 0.112837829, -0.0268654451, 0.00522107491,
                            -0.000848471129, 0.000112705442, -9.68013592e-06),
                       x, x);
  // log(erfc(a)) as a polynomial on [1, 4]; beyond, erf is 1.
  const F32 log_rest =
      poly(vmin(a, F32(4)), 0.000188035861, -1.12957835, -0.633219898, -0.108418547, 0.0252082404,
           -0.00420455635, 0.000441335345, -2.1686772e-05);
  const F32 far = F32(1) - vexp(log_rest);
  return select((a < F32(1)) || (x != x), near, vcopysign(far, x));
}

}  // namespace HWY_NAMESPACE
}  // namespace moonlet
HWY_AFTER_NAMESPACE();

#endif  // toggle

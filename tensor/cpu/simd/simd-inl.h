// tensor/cpu/simd/simd-inl.h: simd::Vec, a Highway vector with the functors' vocabulary: operators,
// select, and rounding to lanes; the math functions are in the files that it includes at the end.
// Included once per Highway target.
#if defined(MOONLET_TENSOR_CPU_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOONLET_TENSOR_CPU_SIMD_INL_H_
#undef MOONLET_TENSOR_CPU_SIMD_INL_H_
#else
#define MOONLET_TENSOR_CPU_SIMD_INL_H_
#endif

#include <bit>

#include "hwy/highway.h"
#include "tensor/functors/functor_math.h"

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
using fn::vleading_power;
using fn::vexp;
using fn::vexp2;
using fn::vexpm1;
using fn::vlog;
using fn::vlog2;
using fn::vlog10;
using fn::vlog1p;
using fn::vlog1p_unit;
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
using fn::verfc_sum;
using fn::vnormal_cdf;
using fn::vlgamma;
using fn::vfma;
using fn::vpoly;
using fn::vproduct_rest;
using fn::in_double;
using fn::each_lane;
using fn::is_float32;
using fn::vfmod;
using fn::vfloor_div;
using fn::vremainder;
using fn::vatan2;
using fn::vhypot;
using fn::vnextafter;
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
HWY_INLINE Vec<T> vfma(Vec<T> a, Vec<T> b, Vec<T> c) {
  return vec<T>(hn::MulAdd(a.v, b.v, c.v));
}

// What rounding has dropped of the product a * b; by halves of the digits (Veltkamp 1968) where the
// target has no product and sum in one.
template <class T>
HWY_INLINE Vec<T> vproduct_rest(Vec<T> a, Vec<T> b, Vec<T> product) {
#if MOONLET_FUSES_PRODUCTS
  return vfma(a, b, -product);
#else
  const Vec<T> split(sizeof(T) == 4 ? 4097.0 : 134217729.0);
  const Vec<T> a_split = a * split, a_high = a_split - (a_split - a), a_low = a - a_high;
  const Vec<T> b_split = b * split, b_high = b_split - (b_split - b), b_low = b - b_high;
  return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low;
#endif
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

// The remainder with the sign of x, exact as the C library's.
template <class T>
HWY_INLINE Vec<T> vfmod(Vec<T> x, Vec<T> y) {
  const auto whole = [](T a, T b) -> T { return fn::vfmod(a, b); };
#if MOONLET_FUSES_PRODUCTS
  // Below this bound the rounded quotient is at most one too large, and what is left is exact.
  const Vec<T> bound(static_cast<double>(int64_t{1} << (std::numeric_limits<T>::digits - 1)));
  const Vec<T> size = vabs(x), unit = vabs(y), quotient = vtrunc(size / unit);
  Vec<T> rest = vfma(-quotient, unit, size);
  rest = select(rest < Vec<T>(0), rest + unit, rest);
  rest = vcopysign(select(quotient == Vec<T>(0), size, rest), x);
  const Mask<T> fits = quotient < bound;
  return any(!fits) ? select(fits, rest, each_lane(whole, x, y)) : rest;
#else
  return each_lane(whole, x, y);
#endif
}

// Rounded to float32; in Highway's own loops infinities would become the largest number.
template <class D, class V>
HWY_INLINE auto narrowed_to(D narrow, V wide) {
#if HWY_TARGET == HWY_EMU128
  const Tag<double> d;
  HWY_ALIGN double from[hn::MaxLanes(Tag<double>())];
  HWY_ALIGN float to[hn::MaxLanes(Tag<double>())];
  hn::Store(wide, d, from);
  for (size_t i = 0; i < hn::Lanes(d); ++i) to[i] = static_cast<float>(from[i]);
  return hn::Load(narrow, to);
#else
  return hn::DemoteTo(narrow, wide);
#endif
}

// f, which takes vectors of float64, of vectors of float32 or of float64.
template <class F, class... V>
HWY_INLINE Vec<double> in_double(F f, Vec<double> x, V... more) {
  return f(x, more...);
}
template <class F, class... V>
HWY_INLINE Vec<float> in_double(F f, Vec<float> x, V... more) {
  const Tag<double> d;
#if HWY_TARGET == HWY_SCALAR
  const auto y = f(vec<double>(hn::PromoteTo(d, x.v)), vec<double>(hn::PromoteTo(d, more.v))...);
  return vec<float>(hn::DemoteTo(Tag<float>(), y.v));
#else
  const hn::Half<Tag<float>> half;
  const auto low = [&](Vec<float> v)
                       HWY_ATTR { return vec<double>(hn::PromoteTo(d, hn::LowerHalf(half, v.v))); };
  const auto high = [&](Vec<float> v) HWY_ATTR {
    return vec<double>(hn::PromoteTo(d, hn::UpperHalf(half, v.v)));
  };
  const Vec<double> a = f(low(x), low(more)...), b = f(high(x), high(more)...);
  return vec<float>(hn::Combine(Tag<float>(), narrowed_to(half, b.v), narrowed_to(half, a.v)));
#endif
}

// The polynomial c[0] + c[1] x + c[2] x^2 ..., in halves (Estrin 1960): the steps of one half need
// not wait for those of the other. powers[k] is x^(2^k).
template <size_t First, size_t Count, class T, size_t N>
HWY_INLINE Vec<T> poly_part(const Vec<T>* powers, const double (&c)[N]) {
  if constexpr (Count == 1) {
    return Vec<T>(c[First]);
  } else {
    constexpr size_t kLow = std::bit_floor(Count - 1);
    return vfma(poly_part<First + kLow, Count - kLow>(powers, c), powers[std::countr_zero(kLow)],
                poly_part<First, kLow>(powers, c));
  }
}
template <class T, size_t N>
HWY_INLINE Vec<T> vpoly(const double (&c)[N], Vec<T> x) {
  Vec<T> powers[5];
  powers[0] = x;
  for (int k = 1; k < 5; ++k) powers[k] = powers[k - 1] * powers[k - 1];
  return poly_part<0, N>(powers, c);
}
template <class T, class... C>
HWY_INLINE Vec<T> poly(Vec<T> x, C... coefficients) {
  const double c[] = {static_cast<double>(coefficients)...};
  return vpoly(c, x);
}

// A constant, rounded differently for float32 and float64.
template <class T>
HWY_INLINE Vec<T> constant(double f32, double f64) {
  return Vec<T>(sizeof(T) == 4 ? f32 : f64);
}

// How a format lies in its bits: the bits of the digits, what is added to exponents.
template <class T>
inline constexpr int kDigits = sizeof(T) == 4 ? 23 : 52;
template <class T>
inline constexpr int kBias = sizeof(T) == 4 ? 127 : 1023;
template <class T>
using Bits = hn::RebindToUnsigned<Tag<T>>;
template <class T>
HWY_INLINE auto bits_of(Vec<T> x) {
  return hn::BitCast(Bits<T>(), x.v);
}
template <class T, class B>
HWY_INLINE Vec<T> from_bits(B bits) {
  return vec<T>(hn::BitCast(Tag<T>(), bits));
}
// The low bits are whole n's, for |n| below 2^21.
template <class T>
HWY_INLINE auto whole_bits(Vec<T> n, double bias) {
  return bits_of(n + Vec<T>((sizeof(T) == 4 ? 12582912.0 : 6755399441055744.0) + bias));
}

}  // namespace HWY_NAMESPACE
}  // namespace moonlet
HWY_AFTER_NAMESPACE();

#include "tensor/cpu/simd/simd_erf-inl.h"
#include "tensor/cpu/simd/simd_exp-inl.h"
#include "tensor/cpu/simd/simd_gamma-inl.h"
#include "tensor/cpu/simd/simd_pow-inl.h"
#include "tensor/cpu/simd/simd_trig-inl.h"

#endif  // toggle

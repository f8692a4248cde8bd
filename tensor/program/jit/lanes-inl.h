// tensor/program/jit/lanes-inl.h: a Highway target whose vectors are nodes of a trace, so that the
// functors and the math of tensor/cpu/simd/, which are written for any target, say what they
// compute: machine code made of a trace does the very steps that kernels do. Included after
// hwy/highway.h by op_table-inl.h, which names the namespace and the target whose ways are taken.
#include "hwy/highway.h"

#include <bit>
#include <cmath>
#include <type_traits>

#include "tensor/program/jit/trace.h"

namespace hwy {
namespace HWY_NAMESPACE {

using moonlet::program::jit::Code;
using moonlet::program::jit::tracing;

template <class T>
struct Register {
  int id;
};
// A vector of T; `raw` as Highway's.
template <class T>
struct Traced {
  Register<T> raw;
};
template <class T>
struct TracedMask {
  int id;
};
template <class T>
struct ScalableTag {
  using Lane = T;
};
template <class D>
using TFromD = typename D::Lane;
template <class D>
using Vec = Traced<typename D::Lane>;
template <class T, class D>
using Rebind = ScalableTag<T>;
template <class D>
using RebindToUnsigned =
    ScalableTag<std::conditional_t<sizeof(typename D::Lane) == 4, uint32_t, uint64_t>>;
template <class D>
using RebindToSigned =
    ScalableTag<std::conditional_t<sizeof(typename D::Lane) == 4, int32_t, int64_t>>;
template <class D>
struct Half {
  using Lane = typename D::Lane;
};
// Both halves of a vector are the vector: what is done to them is the same.
template <class T>
struct HalfOf {
  int id;
};

template <class T>
inline constexpr int kSize = static_cast<int>(sizeof(T));
template <class T>
Traced<T> node(Code code, int a, int b = -1, int c = -1, int imm = 0) {
  return {{tracing->add(code, kSize<T>, a, b, c, imm)}};
}
template <class T>
TracedMask<T> mask(Code code, int a, int b = -1) {
  return {tracing->add(code, kSize<T>, a, b)};
}
template <class T>
int bits_node(T value) {
  if constexpr (sizeof(T) == 4)
    return tracing->constant(4, std::bit_cast<uint32_t>(value));
  else
    return tracing->constant(8, std::bit_cast<uint64_t>(value));
}

template <class T, class U>
Traced<T> Set(ScalableTag<T>, U value) {
  return {{bits_node(static_cast<T>(value))}};
}
template <class T>
Traced<T> Zero(ScalableTag<T> d) {
  return Set(d, 0);
}
template <class T, class U>
Traced<T> BitCast(ScalableTag<T>, Traced<U> x) {
  static_assert(sizeof(T) == sizeof(U));
  return {{x.raw.id}};
}
template <class T, class U>
TracedMask<T> RebindMask(ScalableTag<T>, TracedMask<U> m) {
  static_assert(sizeof(T) == sizeof(U));
  return {m.id};
}

#define MOONLET_TRACED_BINARY(name, floating, whole)                                     \
  template <class T>                                                                     \
  Traced<T> name(Traced<T> a, Traced<T> b) {                                             \
    return node<T>(std::is_floating_point_v<T> ? Code::floating : Code::whole, a.raw.id, \
                   b.raw.id);                                                            \
  }
MOONLET_TRACED_BINARY(Add, Add, IntAdd)
MOONLET_TRACED_BINARY(Sub, Sub, IntSub)
MOONLET_TRACED_BINARY(Mul, Mul, IntMul)
#undef MOONLET_TRACED_BINARY
// A division by a power of two is a product, for the compiler as well.
template <class T>
Traced<T> Div(Traced<T> a, Traced<T> b) {
  static_assert(std::is_floating_point_v<T>);
  if (tracing->is_constant(b.raw.id)) {
    const uint64_t bits = (*tracing)[b.raw.id].bits;
    T value;
    if constexpr (sizeof(T) == 4)
      value = std::bit_cast<T>(static_cast<uint32_t>(bits));
    else
      value = std::bit_cast<T>(bits);
    int exponent;
    const T mantissa = std::frexp(value, &exponent);
    if ((mantissa == T(0.5) || mantissa == T(-0.5)) && exponent > -60 && exponent < 60)
      return node<T>(Code::Mul, a.raw.id, bits_node(T(1) / value));
  }
  return node<T>(Code::Div, a.raw.id, b.raw.id);
}
#define MOONLET_TRACED_FLOATING(name, ...)      \
  template <class T>                            \
  Traced<T> name(Traced<T> a) {                 \
    static_assert(std::is_floating_point_v<T>); \
    return node<T>(__VA_ARGS__);                \
  }
MOONLET_TRACED_FLOATING(Sqrt, Code::Sqrt, a.raw.id)
MOONLET_TRACED_FLOATING(ApproximateReciprocal, Code::NearInverse, a.raw.id)
MOONLET_TRACED_FLOATING(Round, Code::Round, a.raw.id, -1, -1, 8)
MOONLET_TRACED_FLOATING(Floor, Code::Round, a.raw.id, -1, -1, 9)
MOONLET_TRACED_FLOATING(Ceil, Code::Round, a.raw.id, -1, -1, 10)
MOONLET_TRACED_FLOATING(Trunc, Code::Round, a.raw.id, -1, -1, 11)
#undef MOONLET_TRACED_FLOATING
template <class T>
int sign_bit() {
  return tracing->constant(kSize<T>, uint64_t{1} << (8 * sizeof(T) - 1));
}
template <class T>
Traced<T> Neg(Traced<T> a) {
  if constexpr (std::is_floating_point_v<T>)
    return node<T>(Code::Xor, a.raw.id, sign_bit<T>());
  else
    return Sub(Zero(ScalableTag<T>()), a);
}
template <class T>
Traced<T> Abs(Traced<T> a) {
  static_assert(std::is_floating_point_v<T>);
  return node<T>(Code::And, a.raw.id,
                 tracing->constant(kSize<T>, ~(uint64_t{1} << (8 * sizeof(T) - 1))));
}
template <class T>
Traced<T> CopySign(Traced<T> a, Traced<T> sign) {
  static_assert(std::is_floating_point_v<T>);
  return node<T>(Code::CopySign, a.raw.id, sign.raw.id);
}
template <class T>
Traced<T> Min(Traced<T> a, Traced<T> b) {
  static_assert(std::is_floating_point_v<T>);
  return node<T>(Code::Min, a.raw.id, b.raw.id);
}
template <class T>
Traced<T> Max(Traced<T> a, Traced<T> b) {
  static_assert(std::is_floating_point_v<T>);
  return node<T>(Code::Max, a.raw.id, b.raw.id);
}
template <class T>
Traced<T> MulAdd(Traced<T> a, Traced<T> b, Traced<T> c) {
  return node<T>(Code::Fma, a.raw.id, b.raw.id, c.raw.id);
}
// What simd_exp-inl.h calls where AVX-512 is the target.
#undef _mm512_scalef_ps
#undef _mm512_scalef_pd
inline Register<float> _mm512_scalef_ps(Register<float> x, Register<float> n) {
  return {tracing->add(Code::Scale, 4, x.id, n.id)};
}
inline Register<double> _mm512_scalef_pd(Register<double> x, Register<double> n) {
  return {tracing->add(Code::Scale, 8, x.id, n.id)};
}

template <class T>
Traced<T> And(Traced<T> a, Traced<T> b) {
  return node<T>(Code::And, a.raw.id, b.raw.id);
}
template <class T>
Traced<T> Or(Traced<T> a, Traced<T> b) {
  return node<T>(Code::Or, a.raw.id, b.raw.id);
}
template <int kBits, class T>
Traced<T> ShiftLeft(Traced<T> a) {
  return node<T>(Code::ShiftLeft, a.raw.id, -1, -1, kBits);
}
template <int kBits, class T>
Traced<T> ShiftRight(Traced<T> a) {
  if (std::is_signed_v<T>) tracing->refuse();
  return node<T>(Code::ShiftRight, a.raw.id, -1, -1, kBits);
}

#define MOONLET_TRACED_COMPARISON(name, code, first, second)                                   \
  template <class T>                                                                           \
  TracedMask<T> name(Traced<T> a, Traced<T> b) {                                               \
    return mask<T>(std::is_floating_point_v<T> ? Code::code : Code::Int##code, first, second); \
  }
MOONLET_TRACED_COMPARISON(Eq, Equal, a.raw.id, b.raw.id)
MOONLET_TRACED_COMPARISON(Lt, Less, a.raw.id, b.raw.id)
MOONLET_TRACED_COMPARISON(Le, LessEqual, a.raw.id, b.raw.id)
MOONLET_TRACED_COMPARISON(Gt, Less, b.raw.id, a.raw.id)
MOONLET_TRACED_COMPARISON(Ge, LessEqual, b.raw.id, a.raw.id)
#undef MOONLET_TRACED_COMPARISON
template <class T>
TracedMask<T> TestBit(Traced<T> x, Traced<T> bit) {
  const int zero = tracing->constant(kSize<T>, 0);
  return mask<T>(Code::MaskNot, mask<T>(Code::IntEqual, And(x, bit).raw.id, zero).id);
}
template <class T>
TracedMask<T> Not(TracedMask<T> m) {
  return mask<T>(Code::MaskNot, m.id);
}
template <class T>
TracedMask<T> And(TracedMask<T> a, TracedMask<T> b) {
  return mask<T>(Code::MaskAnd, a.id, b.id);
}
template <class T>
TracedMask<T> Or(TracedMask<T> a, TracedMask<T> b) {
  return mask<T>(Code::MaskOr, a.id, b.id);
}
template <class T>
Traced<T> IfThenElse(TracedMask<T> m, Traced<T> a, Traced<T> b) {
  return node<T>(Code::Select, m.id, a.raw.id, b.raw.id);
}
// Where it asks whether rare values are there, the way that is right for all is taken.
template <class T>
bool AllFalse(ScalableTag<T>, TracedMask<T> m) {
  const auto& known = (*tracing)[m.id];
  if (known.code == Code::MaskConstant) return known.bits == 0;
  tracing->branch();
  return false;
}

// Single lanes are out of reach.
template <class T>
void Store(Traced<T>, ScalableTag<T>, T*) {
  tracing->refuse();
}
template <class T>
Traced<T> Load(ScalableTag<T> d, const T*) {
  return Zero(d);
}
template <class T>
size_t Lanes(ScalableTag<T>) {
  return 0;
}

template <class T>
HalfOf<T> LowerHalf(Half<ScalableTag<T>>, Traced<T> x) {
  return {x.raw.id};
}
template <class T>
HalfOf<T> UpperHalf(Half<ScalableTag<T>>, Traced<T> x) {
  return {x.raw.id};
}
inline Traced<double> PromoteTo(ScalableTag<double>, HalfOf<float> x) {
  return node<double>(Code::Widen, x.id);
}
inline HalfOf<float> DemoteTo(Half<ScalableTag<float>>, Traced<double> x) {
  return {node<float>(Code::Narrow, x.raw.id).raw.id};
}
inline Traced<float> Combine(ScalableTag<float>, HalfOf<float>, HalfOf<float> low) {
  return {{low.id}};
}

}  // namespace HWY_NAMESPACE
}  // namespace hwy

// tensor/cpu/reduce/reduce_extremes.cpp: both extremes of a run in one pass, one version per
// instruction set, chosen when the program runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/reduce/reduce_extremes.cpp"
//
#include "tensor/cpu/pointwise/pointwise_targets.h"
//
#include "hwy/foreach_target.h"
//
#include <algorithm>
#include <bit>
#include <limits>
#include "hwy/highway.h"

#include "tensor/cpu/reduce/reduce.h"
#include "tensor/cpu/simd/fold_vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace moonlet::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

struct Least {
  template <class D, class V>
  static HWY_INLINE V merge(D, V a, V b) {
    return hn::Min(a, b);
  }
};
struct Largest {
  template <class D, class V>
  static HWY_INLINE V merge(D, V a, V b) {
    return hn::Max(a, b);
  }
};

// Accumulators of as many elements as d has lanes. Comparisons let NaN through, so that is kept
// apart.
template <class D>
class Accumulators {
  using T = hn::TFromD<D>;
  using V = hn::Vec<D>;
  using Limits = std::numeric_limits<T>;

 public:
  explicit HWY_INLINE Accumulators(D d)
      : d_(d),
        low_(hn::Set(d, Limits::has_infinity ? Limits::infinity() : Limits::max())),
        high_(hn::Set(d, Limits::has_infinity ? -Limits::infinity() : Limits::lowest())),
        nan_(hn::FirstN(d, 0)) {}
  HWY_INLINE void add(V v) {
    low_ = hn::Min(low_, v);
    high_ = hn::Max(high_, v);
    if constexpr (Limits::has_infinity) nan_ = hn::Or(nan_, hn::IsNaN(v));
  }
  HWY_INLINE Extremes<T> result() const {
    if (!hn::AllFalse(d_, nan_)) return {Limits::quiet_NaN(), Limits::quiet_NaN()};
    return {moonlet::HWY_NAMESPACE::fold_lanes<Least>(d_, low_),
            moonlet::HWY_NAMESPACE::fold_lanes<Largest>(d_, high_)};
  }

 private:
  D d_;
  V low_, high_;
  hn::Mask<D> nan_;
};

template <class T>
HWY_INLINE Extremes<T> joined(Extremes<T> a, Extremes<T> b) {
  if (a.least != a.least) return a;
  if (b.least != b.least) return b;
  return {std::min(a.least, b.least), std::max(a.largest, b.largest)};
}

// The extremes of the values that read(tag, index) gives for [0, n); some are read twice.
template <class T, class Read>
HWY_INLINE Extremes<T> extremes_of(int64_t n, Read&& read) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  if (n < lanes) {
    Accumulators few(one);
    for (int64_t i = 0; i < n; ++i) few.add(read(one, i));
    return few.result();
  }
  Accumulators even(d), odd(d);
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    even.add(read(d, i));
    odd.add(read(d, i + lanes));
  }
  if (i + lanes <= n) even.add(read(d, i));
  odd.add(read(d, n - lanes));
  return joined(even.result(), odd.result());
}

template <class T>
Extremes<T> wide_extremes(const T* HWY_RESTRICT x, int64_t n) {
  return extremes_of<T>(n, [&](auto d, int64_t i) HWY_ATTR { return hn::LoadU(d, x + i); });
}

// The bits of 16-bit floats as integers of the same order: those of negative ones reversed but for
// the sign. What lies beyond the infinities is NaN.
constexpr int16_t kNumber = 0x7fff;
template <class Half>
Extremes<float> narrow_extremes(const Half* HWY_RESTRICT x, int64_t n) {
  const auto* bits = reinterpret_cast<const int16_t*>(x);
  const auto ends = extremes_of<int16_t>(n, [&](auto d, int64_t i) HWY_ATTR {
    const auto v = hn::LoadU(d, bits + i);
    return hn::Xor(v, hn::And(hn::BroadcastSignBit(v), hn::Set(d, kNumber)));
  });
  const auto infinity = static_cast<int16_t>(Half(std::numeric_limits<float>::infinity()).bits);
  if (ends.largest > infinity || ends.least < ~infinity) {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    return {kNan, kNan};
  }
  const auto value = [](int16_t key) {
    Half out;
    out.bits = static_cast<uint16_t>(key < 0 ? key ^ kNumber : key);
    return static_cast<float>(out);
  };
  return {value(ends.least), value(ends.largest)};
}

Extremes<float> ends_f32(const float* x, int64_t n) { return wide_extremes(x, n); }
Extremes<double> ends_f64(const double* x, int64_t n) { return wide_extremes(x, n); }
Extremes<int64_t> ends_i64(const int64_t* x, int64_t n) { return wide_extremes(x, n); }
template <class T>
Extremes<int64_t> small_extremes(const T* HWY_RESTRICT x, int64_t n) {
  const Extremes<T> ends = wide_extremes(x, n);
  return {ends.least, ends.largest};
}
Extremes<int64_t> ends_i8(const int8_t* x, int64_t n) { return small_extremes(x, n); }
Extremes<int64_t> ends_u8(const uint8_t* x, int64_t n) { return small_extremes(x, n); }
Extremes<int64_t> ends_i16(const int16_t* x, int64_t n) { return small_extremes(x, n); }
Extremes<int64_t> ends_i32(const int32_t* x, int64_t n) { return small_extremes(x, n); }
Extremes<float> ends_bf16(const bfloat16* x, int64_t n) { return narrow_extremes(x, n); }
Extremes<float> ends_f16(const half* x, int64_t n) { return narrow_extremes(x, n); }

}  // namespace HWY_NAMESPACE
}  // namespace moonlet::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moonlet::cpu {

#define MOONLET_ENDS(In, suffix)                                 \
  HWY_EXPORT(ends_##suffix);                                     \
  template <>                                                    \
  Extremes<compute_t<In>> extremes<In>(const In* x, int64_t n) { \
    return HWY_DYNAMIC_DISPATCH(ends_##suffix)(x, n);            \
  }
MOONLET_ENDS(float, f32)
MOONLET_ENDS(double, f64)
MOONLET_ENDS(int64_t, i64)
MOONLET_ENDS(int32_t, i32)
MOONLET_ENDS(int16_t, i16)
MOONLET_ENDS(uint8_t, u8)
MOONLET_ENDS(int8_t, i8)
MOONLET_ENDS(bfloat16, bf16)
MOONLET_ENDS(half, f16)

}  // namespace moonlet::cpu
#endif

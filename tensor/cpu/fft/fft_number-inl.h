// tensor/cpu/fft/fft_number-inl.h: complex numbers on vectors, their parts apart, and the positions
// of a pass that are the lanes. Included once per Highway target.
#if defined(MOONLET_TENSOR_CPU_FFT_NUMBER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOONLET_TENSOR_CPU_FFT_NUMBER_INL_H_
#undef MOONLET_TENSOR_CPU_FFT_NUMBER_INL_H_
#else
#define MOONLET_TENSOR_CPU_FFT_NUMBER_INL_H_
#endif

#include "hwy/highway.h"
#include "tensor/cpu/fft/fft.h"

HWY_BEFORE_NAMESPACE();
namespace moonlet::cpu::fft {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
struct Number {
  hn::Vec<D> re, im;
};
template <class D>
HWY_INLINE Number<D> operator+(Number<D> a, Number<D> b) {
  return {hn::Add(a.re, b.re), hn::Add(a.im, b.im)};
}
template <class D>
HWY_INLINE Number<D> operator-(Number<D> a, Number<D> b) {
  return {hn::Sub(a.re, b.re), hn::Sub(a.im, b.im)};
}
template <class D>
HWY_INLINE Number<D> operator*(Number<D> a, Number<D> b) {
  return {hn::NegMulAdd(a.im, b.im, hn::Mul(a.re, b.re)),
          hn::MulAdd(a.im, b.re, hn::Mul(a.re, b.im))};
}
template <class D>
HWY_INLINE Number<D> conjugate(Number<D> a) {
  return {a.re, hn::Neg(a.im)};
}
// a + f b, a - i b, a + i b
template <class D>
HWY_INLINE Number<D> add_scaled(Number<D> a, hn::Vec<D> f, Number<D> b) {
  return {hn::MulAdd(f, b.re, a.re), hn::MulAdd(f, b.im, a.im)};
}
template <class D>
HWY_INLINE Number<D> scaled(hn::Vec<D> f, Number<D> b) {
  return {hn::Mul(f, b.re), hn::Mul(f, b.im)};
}
template <class D>
HWY_INLINE Number<D> minus_i(Number<D> a, Number<D> b) {
  return {hn::Add(a.re, b.im), hn::Sub(a.im, b.re)};
}
template <class D>
HWY_INLINE Number<D> plus_i(Number<D> a, Number<D> b) {
  return {hn::Sub(a.re, b.im), hn::Add(a.im, b.re)};
}

template <class D, class T>
HWY_INLINE Number<D> load(D d, const T* re, const T* im, int64_t at) {
  return {hn::LoadU(d, re + at), hn::LoadU(d, im + at)};
}
template <class D, class T>
HWY_INLINE Number<D> spread(D d, const Circle<T>& circle, size_t at) {
  return {hn::Set(d, circle.re[at]), hn::Set(d, circle.im[at])};
}
template <class D, class T>
HWY_INLINE void store(D d, Number<D> v, T* re, T* im, int64_t at) {
  hn::StoreU(v.re, d, re + at);
  hn::StoreU(v.im, d, im + at);
}

// Calls body(q) for vectors that cover [0, span); the last may do positions again, which is
// harmless as no pass reads what it writes.
template <class D, class Body>
HWY_INLINE void each_position(D d, int64_t span, Body&& body) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t q = 0; q + lanes <= span; q += lanes) body(q);
  if (span % lanes != 0) body(span - lanes);
}

// Numbers of neighbouring groups as lanes, to or from an order in which those of a group are
// neighbours.
template <class D>
class Mixed {
 public:
  using T = hn::TFromD<D>;
  void put(D d, int k, Number<D> x) { fft::HWY_NAMESPACE::store(d, x, re_, im_, k * kLanes); }
  Number<D> get(D d, int k) const { return fft::HWY_NAMESPACE::load(d, re_, im_, k * kLanes); }
  // The first `count` numbers of each group.
  void store(D d, int64_t count, T* re, T* im) const {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    for (int64_t lane = 0; lane < lanes; ++lane, re += count, im += count) {
      for (int64_t k = 0; k < count; ++k) {
        re[k] = re_[k * kLanes + lane];
        im[k] = im_[k * kLanes + lane];
      }
    }
  }
  void load(D d, int64_t count, const T* re, const T* im) {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    for (int64_t lane = 0; lane < lanes; ++lane, re += count, im += count) {
      for (int64_t k = 0; k < count; ++k) {
        re_[k * kLanes + lane] = re[k];
        im_[k * kLanes + lane] = im[k];
      }
    }
  }

 private:
  static constexpr int64_t kLanes = hn::MaxLanes(D());
  T re_[kLargestRadix * kLanes], im_[kLargestRadix * kLanes];
};

// Calls f with the widest vectors of at most `positions` lanes.
template <class T, class F>
HWY_INLINE void with_lanes(int64_t positions, F&& f) {
  const hn::ScalableTag<T> whole;
  if (positions >= static_cast<int64_t>(hn::Lanes(whole))) return f(whole);
  if (positions >= 8) return f(hn::CappedTag<T, 8>());
  if (positions >= 4) return f(hn::CappedTag<T, 4>());
  if (positions >= 2) return f(hn::CappedTag<T, 2>());
  f(hn::CappedTag<T, 1>());
}

}  // namespace HWY_NAMESPACE
}  // namespace moonlet::cpu::fft
HWY_AFTER_NAMESPACE();

#endif  // toggle

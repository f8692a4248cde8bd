// tensor/cpu/simd/widened-inl.h: elements read as vectors of the type that is computed in, and
// written from them, for kernels that Highway compiles once for each instruction set.
#if defined(MOONLET_TENSOR_CPU_WIDENED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOONLET_TENSOR_CPU_WIDENED_INL_H_
#undef MOONLET_TENSOR_CPU_WIDENED_INL_H_
#else
#define MOONLET_TENSOR_CPU_WIDENED_INL_H_
#endif

#include "hwy/highway.h"
#include "tensor/core/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace moonlet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The elements from x on, as many as d has lanes.
template <class D>
HWY_INLINE hn::Vec<D> widened(D d, const hn::TFromD<D>* x) {
  return hn::LoadU(d, x);
}
template <class D>
HWY_INLINE hn::Vec<D> widened(D d, const bfloat16* x) {
  const hn::Rebind<uint16_t, D> narrow;
  const hn::RebindToUnsigned<D> wide;
  const auto bits = hn::LoadU(narrow, reinterpret_cast<const uint16_t*>(x));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(wide, bits)));
}
template <class D>
HWY_INLINE hn::Vec<D> widened(D d, const half* x) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  // Highway's emulation knows no infinity and no NaN.
  HWY_ALIGN float lanes[hn::MaxLanes(D())];
  for (size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = static_cast<float>(x[i]);
  return hn::Load(d, lanes);
#else
  const hn::Rebind<hwy::float16_t, D> narrow;
  return hn::PromoteTo(d, hn::LoadU(narrow, reinterpret_cast<const hwy::float16_t*>(x)));
#endif
}

// The elements of two vectors from x on, in any order.
template <class D, class T>
HWY_INLINE void widened_pair(D d, const T* x, hn::Vec<D>& a, hn::Vec<D>& b) {
  a = widened(d, x);
  b = widened(d, x + hn::Lanes(d));
}
#if HWY_TARGET != HWY_SCALAR
// Those at even positions and those at odd ones, which are halves of 32 bits.
template <class D>
HWY_INLINE void widened_pair(D d, const bfloat16* x, hn::Vec<D>& a, hn::Vec<D>& b) {
  const hn::Repartition<uint16_t, D> narrow;
  const hn::RebindToUnsigned<D> wide;
  const auto bits = hn::BitCast(wide, hn::LoadU(narrow, reinterpret_cast<const uint16_t*>(x)));
  a = hn::BitCast(d, hn::ShiftLeft<16>(bits));
  b = hn::BitCast(d, hn::And(bits, hn::Set(wide, 0xffff0000u)));
}
#endif

// Writes the elements to y.
template <class D>
HWY_INLINE void store_narrowed(D d, hn::Vec<D> v, hn::TFromD<D>* y) {
  hn::StoreU(v, d, y);
}
// Rounds to nearest even; a NaN keeps its sign and is quiet.
template <class D>
HWY_INLINE void store_narrowed(D, hn::Vec<D> v, bfloat16* y) {
  const hn::Rebind<uint16_t, D> narrow;
  const hn::RebindToUnsigned<D> wide;
  const hn::RebindToSigned<D> integers;
  const auto bits = hn::BitCast(wide, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(wide, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(wide, 0x7fff)));
  const auto quiet = hn::Or(bits, hn::Set(wide, 0x400000));
  const auto chosen = hn::IfThenElse(hn::RebindMask(wide, hn::IsNaN(v)), quiet, rounded);
  const auto upper = hn::BitCast(integers, hn::ShiftRight<16>(chosen));
  hn::StoreU(hn::DemoteTo(narrow, upper), narrow, reinterpret_cast<uint16_t*>(y));
}

}  // namespace HWY_NAMESPACE
}  // namespace moonlet
HWY_AFTER_NAMESPACE();

#endif

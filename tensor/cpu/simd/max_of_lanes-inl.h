// tensor/cpu/simd/max_of_lanes-inl.h: the largest lane, with infinities also by Highway's own
// loops, which begin at the lowest finite number. Included once per Highway target.
#if defined(MOONLET_TENSOR_CPU_SIMD_MAX_OF_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOONLET_TENSOR_CPU_SIMD_MAX_OF_LANES_INL_H_
#undef MOONLET_TENSOR_CPU_SIMD_MAX_OF_LANES_INL_H_
#else
#define MOONLET_TENSOR_CPU_SIMD_MAX_OF_LANES_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace moonlet {
namespace HWY_NAMESPACE {

// In all lanes. Which one NaN gives depends on the processor.
template <class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> max_of_lanes(D d, hwy::HWY_NAMESPACE::Vec<D> v) {
  namespace hn = hwy::HWY_NAMESPACE;
#if HWY_TARGET == HWY_EMU128
  HWY_ALIGN hn::TFromD<D> lanes[hn::MaxLanes(D())];
  hn::Store(v, d, lanes);
  auto most = lanes[0];
  for (const auto lane : lanes) most = lane > most ? lane : most;
  return hn::Set(d, most);
#else
  return hn::MaxOfLanes(d, v);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace moonlet
HWY_AFTER_NAMESPACE();

#endif  // toggle

// tensor/cpu/simd/each_vector-inl.h: a loop over elements by whole vectors, for kernels that
// Highway compiles once for each instruction set.
#if defined(MOONLET_TENSOR_CPU_EACH_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOONLET_TENSOR_CPU_EACH_VECTOR_INL_H_
#undef MOONLET_TENSOR_CPU_EACH_VECTOR_INL_H_
#else
#define MOONLET_TENSOR_CPU_EACH_VECTOR_INL_H_
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "tensor/runtime/interrupt.h"

HWY_BEFORE_NAMESPACE();
namespace moonlet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Calls step(tag, index) for all of [0, n): whole vectors first, then single elements. Looks at the
// stop flag between blocks.
template <class T, class Step>
HWY_INLINE void each_vector(int64_t n, Step&& step) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (;;) {
    const int64_t end = std::min(n, i + kStopBlock);
    for (; i + lanes <= end; i += lanes) step(d, i);
    if (end == n) break;
    stop_if_requested();
  }
  for (; i < n; ++i) step(hn::CappedTag<T, 1>(), i);
}

}  // namespace HWY_NAMESPACE
}  // namespace moonlet
HWY_AFTER_NAMESPACE();

#endif

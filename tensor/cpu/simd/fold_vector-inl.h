// tensor/cpu/simd/fold_vector-inl.h: one value from many by whole vectors, for kernels that Highway
// compiles once for each instruction set.
#if defined(MOONLET_TENSOR_CPU_FOLD_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOONLET_TENSOR_CPU_FOLD_VECTOR_INL_H_
#undef MOONLET_TENSOR_CPU_FOLD_VECTOR_INL_H_
#else
#define MOONLET_TENSOR_CPU_FOLD_VECTOR_INL_H_
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/simd/widened-inl.h"

HWY_BEFORE_NAMESPACE();
namespace moonlet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// One value from the lanes of a vector, by halves.
template <class F, class D>
HWY_INLINE hn::TFromD<D> fold_lanes([[maybe_unused]] D d, hn::Vec<D> v) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (hn::MaxLanes(D()) > 1) {
    const hn::Half<D> half;
    return fold_lanes<F>(half, F::merge(half, hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
#endif
  return hn::GetLane(v);
}

// x[0] to x[n - 1], 16-bit floats as float32, folded by F, which has a static `start<T>()` that an
// accumulator begins with, `join(tag, accumulator, x)` and `merge(tag, a, b)` of two accumulators.
// No accumulator takes more than kFoldSteps elements one after the other, so that sums stay exact
// with short vectors, too.
inline constexpr int64_t kFoldSteps = thresholds::kFoldSteps;
template <class F, class In>
compute_t<In> fold_vector(const In* HWY_RESTRICT x, int64_t n) {
  using T = compute_t<In>;
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto start = hn::Set(d, F::template start<T>());
  auto total = start;
  int64_t i = 0;
  while (i + 4 * lanes <= n) {
    auto a0 = start, a1 = start, a2 = start, a3 = start;
    auto v0 = start, v1 = start, v2 = start, v3 = start;
    const int64_t end = std::min(n - 4 * lanes, i + (kFoldSteps - 1) * 4 * lanes);
    for (; i <= end; i += 4 * lanes) {
      widened_pair(d, x + i, v0, v1);
      widened_pair(d, x + i + 2 * lanes, v2, v3);
      a0 = F::join(d, a0, v0);
      a1 = F::join(d, a1, v1);
      a2 = F::join(d, a2, v2);
      a3 = F::join(d, a3, v3);
    }
    total = F::merge(d, total, F::merge(d, F::merge(d, a0, a1), F::merge(d, a2, a3)));
  }
  for (; i + lanes <= n; i += lanes) total = F::join(d, total, widened(d, x + i));
  auto last = hn::Set(one, fold_lanes<F>(d, total));
  for (; i < n; ++i) last = F::join(one, last, widened(one, x + i));
  return hn::GetLane(last);
}

}  // namespace HWY_NAMESPACE
}  // namespace moonlet
HWY_AFTER_NAMESPACE();

#endif

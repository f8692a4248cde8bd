// tensor/cpu/fold_vector-inl.h: one value from many by whole vectors, for kernels that Highway
// compiles once for each instruction set.
#if defined(MOONLET_TENSOR_CPU_FOLD_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOONLET_TENSOR_CPU_FOLD_VECTOR_INL_H_
#undef MOONLET_TENSOR_CPU_FOLD_VECTOR_INL_H_
#else
#define MOONLET_TENSOR_CPU_FOLD_VECTOR_INL_H_
#endif

#include <algorithm>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace moonlet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// x[0] to x[n - 1] folded by F, which has a static `start<T>()` that an accumulator begins with,
// `join(tag, accumulator, x)` and `merge(tag, a, b)` of two accumulators. No accumulator takes more
// than kFoldSteps elements one after the other, so that sums stay exact with short vectors, too.
inline constexpr int64_t kFoldSteps = 32;
template <class F, class T>
T fold_vector(const T* HWY_RESTRICT x, int64_t n) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto start = hn::Set(d, F::template start<T>());
  auto total = start;
  int64_t i = 0;
  while (i + 4 * lanes <= n) {
    auto a0 = start, a1 = start, a2 = start, a3 = start;
    const int64_t end = std::min(n - 4 * lanes, i + (kFoldSteps - 1) * 4 * lanes);
    for (; i <= end; i += 4 * lanes) {
      a0 = F::join(d, a0, hn::LoadU(d, x + i));
      a1 = F::join(d, a1, hn::LoadU(d, x + i + lanes));
      a2 = F::join(d, a2, hn::LoadU(d, x + i + 2 * lanes));
      a3 = F::join(d, a3, hn::LoadU(d, x + i + 3 * lanes));
    }
    total = F::merge(d, total, F::merge(d, F::merge(d, a0, a1), F::merge(d, a2, a3)));
  }
  for (; i + lanes <= n; i += lanes) total = F::join(d, total, hn::LoadU(d, x + i));
  HWY_ALIGN T parts[hn::MaxLanes(hn::ScalableTag<T>())];
  hn::Store(total, d, parts);
  for (int64_t half = lanes / 2; half > 0; half /= 2) {
    for (int64_t j = 0; j < half; ++j) {
      parts[j] = hn::GetLane(F::merge(one, hn::Set(one, parts[j]), hn::Set(one, parts[j + half])));
    }
  }
  auto last = hn::Set(one, parts[0]);
  for (; i < n; ++i) last = F::join(one, last, hn::Set(one, x[i]));
  return hn::GetLane(last);
}

}  // namespace HWY_NAMESPACE
}  // namespace moonlet
HWY_AFTER_NAMESPACE();

#endif

// tensor/cpu/simd/exp_sums-inl.h: sums of exponentials of rows, and of columns in tiles, as softmax
// and cross entropy take them. Included once per Highway target.
#if defined(MOONLET_TENSOR_CPU_SIMD_EXP_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOONLET_TENSOR_CPU_SIMD_EXP_SUMS_INL_H_
#undef MOONLET_TENSOR_CPU_SIMD_EXP_SUMS_INL_H_
#else
#define MOONLET_TENSOR_CPU_SIMD_EXP_SUMS_INL_H_
#endif

#include <algorithm>
#include <limits>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/simd/fold_vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace moonlet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int64_t kSoftmaxTile = thresholds::reduce::kSoftmaxTile;

// exp that keeps NaN, for arguments not above 0.
template <class D, class V>
HWY_INLINE V exp_below(D d, V x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, x));
}

// A sum of whole vectors and of the single elements at the end, in double after kMost additions, so
// that long sums stay exact.
template <class T>
struct Sum {
  static constexpr int kMost = thresholds::reduce::kSoftmaxSum;
  hn::Vec<hn::ScalableTag<T>> wide;
  int added;
  double rest;
  // Written out, because an implicit one is compiled for the baseline target.
  HWY_INLINE Sum() : wide(hn::Zero(hn::ScalableTag<T>())), added(0), rest(0) {}
  template <class D, class V>
  HWY_INLINE void add(D d, V v) {
    if constexpr (std::is_same_v<D, hn::ScalableTag<T>> &&
                  !std::is_same_v<D, hn::CappedTag<T, 1>>) {
      wide = hn::Add(wide, v);
      if (++added < kMost) return;
      rest += hn::GetLane(hn::SumOfLanes(d, wide));
      wide = hn::Zero(d);
      added = 0;
    } else {
      rest += hn::GetLane(v), (void)d;
    }
  }
  HWY_INLINE T total() const {
    const hn::ScalableTag<T> d;
    return static_cast<T>(hn::GetLane(hn::SumOfLanes(d, wide)) + rest);
  }
};

// The larger of two; which, when one is NaN, does not matter here.
struct Greatest {
  template <class D, class V>
  static HWY_INLINE V join(D, V a, V b) {
    return hn::Max(a, b);
  }
  template <class D, class V>
  static HWY_INLINE V merge(D, V a, V b) {
    return hn::Max(a, b);
  }
  template <class T>
  static T start() {
    return -std::numeric_limits<T>::infinity();
  }
};

template <class T>
T row_max(const T* x, int64_t n) {
  T best = -std::numeric_limits<T>::infinity();
  cpu::serial_for(n, 1, [&](int64_t begin, int64_t end) HWY_ATTR {
    best = std::max(best, fold_vector<Greatest>(x + begin, end - begin));
  });
  return best;
}

// Calls row(i) for the rows [begin, n) of a tile of columns; looks at the stop flag now and then.
template <class Row>
HWY_INLINE void each_tile_row(int64_t begin, int64_t n, Row&& row) {
  constexpr int64_t kRows = kStopBlock / kSoftmaxTile;
  for (int64_t i = begin; i < n; ++i) {
    if (i % kRows == kRows - 1) stop_if_requested();
    row(i);
  }
}

// Fewer elements than a vector has, and `fill` behind them.
template <class T>
HWY_INLINE hn::Vec<hn::ScalableTag<T>> load_part(const T* x, int64_t n, T fill) {
  const hn::ScalableTag<T> d;
#if HWY_TARGET <= HWY_AVX2
  // Lanes outside the mask touch no memory.
  const auto mask = hn::FirstN(d, static_cast<size_t>(n));
  return hn::IfThenElse(mask, hn::MaskedLoad(mask, d, x), hn::Set(d, fill));
#else
  HWY_ALIGN T padded[hn::MaxLanes(d)];
  hn::Store(hn::Set(d, fill), d, padded);
  std::copy_n(x, n, padded);
  return hn::Load(d, padded);
#endif
}
template <class T>
HWY_INLINE void store_part(hn::Vec<hn::ScalableTag<T>> v, T* y, int64_t n) {
  const hn::ScalableTag<T> d;
#if HWY_TARGET <= HWY_AVX2
  hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(n)), d, y);
#else
  HWY_ALIGN T padded[hn::MaxLanes(d)];
  hn::Store(v, d, padded);
  std::copy_n(padded, n, y);
#endif
}

// Of a job over a tensor seen as (outer, n, inner) calls body(offset, entry, width) for each of its
// units [begin, end): a whole row, or a tile of columns, whose entries are side by side.
template <class Job, class Body>
HWY_INLINE void each_unit(const Job& job, Body&& body) {
  const int64_t tiles = (job.inner + kSoftmaxTile - 1) / kSoftmaxTile;
  for (int64_t u = job.begin; u < job.end; ++u) {
    const int64_t outer = u / tiles, column = u % tiles * kSoftmaxTile;
    body(outer * job.n * job.inner + column, outer * job.inner + column,
         std::min(kSoftmaxTile, job.inner - column));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace moonlet
HWY_AFTER_NAMESPACE();

#endif  // toggle

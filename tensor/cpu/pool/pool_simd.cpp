// tensor/cpu/pool/pool_simd.cpp: pooling with the lanes of a vector on windows beside each other,
// one version per instruction set, chosen when the program runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/pool/pool_simd.cpp"
//
#include "tensor/cpu/pointwise/pointwise_targets.h"
//
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "tensor/cpu/pool/pool.h"
#include "tensor/cpu/simd/max_of_lanes-inl.h"
#include "tensor/runtime/interrupt.h"

HWY_BEFORE_NAMESPACE();
namespace moonlet::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The lanes of vectors of 128 bits: with fewer, single elements are as fast.
template <class T>
constexpr size_t kFewestLanes = 16 / sizeof(T);

// Calls step(tag, index) for blocks that cover [0, count): the longest vectors that fit, the last
// of which begins early, or single elements.
template <class T, size_t kLanes = hn::MaxLanes(hn::ScalableTag<T>()), class Step>
HWY_INLINE void cover(int64_t count, Step&& step) {
  const hn::CappedTag<T, kLanes> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  if (count >= lanes) {
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes) step(d, i);
    if (i < count) step(d, count - lanes);
  } else if constexpr (kLanes > kFewestLanes<T>) {
    cover<T, kLanes / 2>(count, step);
  } else if constexpr (kLanes > 1) {
    cover<T, 1>(count, step);
  }
}

// How the elements of the lanes lie: beside each other, every second one, or further apart.
enum class Step { One, Two, Any };

// The elements of tap `offset` of the windows from x on. No load passes the last tap of the last
// window, of which Step::Two needs two.
template <Step kStep, class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_tap(D d, const T* HWY_RESTRICT x, int64_t offset, int64_t stride) {
  if constexpr (hn::MaxLanes(D()) == 1) {
    return hn::Set(d, x[offset]);
  } else if constexpr (kStep == Step::One) {
    return hn::LoadU(d, x + offset);
  } else if constexpr (kStep == Step::Two) {
    hn::Vec<D> even, odd;
    hn::LoadInterleaved2(d, x + (offset > 0 ? offset - 1 : 0), even, odd);
    return offset > 0 ? odd : even;
  } else {
    HWY_ALIGN T lanes[hn::MaxLanes(D())];
    for (size_t i = 0; i < hn::Lanes(d); ++i)
      lanes[i] = x[offset + static_cast<int64_t>(i) * stride];
    return hn::Load(d, lanes);
  }
}

// Calls visit(elements, offset) for the taps of the windows from x on; kTaps is their number in a
// row where it is known, next to each other.
template <Step kStep, int kTaps, class D, class T, class Visit>
HWY_INLINE void each_tap(D d, const PoolRow<T>& r, const T* HWY_RESTRICT x, Visit&& visit) {
  const int64_t taps = kTaps > 0 ? kTaps : r.taps, step = kTaps > 0 ? 1 : r.tap_step;
  for (int64_t i = 0; i < r.rows; ++i) {
    const T* HWY_RESTRICT line = x + i * r.row_step;
    for (int64_t k = 0; k < taps; ++k)
      visit(load_tap<kStep>(d, line, k * step, r.stride), i * r.row_step + k * step);
  }
}

template <class D, class V>
HWY_INLINE auto larger(D, V x, V best) {
  if constexpr (hwy::IsFloat<hn::TFromD<D>>())
    return hn::Or(hn::Gt(x, best), hn::IsNaN(x));
  else
    return hn::Gt(x, best);
}

// positions[i] = first + i * stride + offsets[i]
template <class D, class V>
HWY_INLINE void store_positions(D d, V offsets, int64_t first, int64_t stride, int64_t* positions) {
  HWY_ALIGN hn::TFromD<D> lanes[hn::MaxLanes(D())];
  hn::Store(offsets, d, lanes);
  for (size_t i = 0; i < hn::Lanes(d); ++i)
    positions[i] = first + static_cast<int64_t>(i) * stride + lanes[i];
}

template <Step kStep, int kTaps, class T>
void max_windows(const PoolRow<T>& r, int64_t first, T* values, int64_t* positions) {
  cover<T>(r.windows, [&](auto d, int64_t at) HWY_ATTR {
    const hn::RebindToSigned<decltype(d)> di;
    using I = hn::TFromD<decltype(di)>;
    const T* x = r.in + at * r.stride;
    auto best = load_tap<kStep>(d, x, 0, r.stride);
    auto offsets = hn::Zero(di);
    each_tap<kStep, kTaps>(d, r, x, [&](auto v, int64_t offset) HWY_ATTR {
      const auto take = larger(d, v, best);
      best = hn::IfThenElse(take, v, best);
      offsets =
          hn::IfThenElse(hn::RebindMask(di, take), hn::Set(di, static_cast<I>(offset)), offsets);
    });
    hn::StoreU(best, d, values + at);
    store_positions(di, offsets, first + at * r.stride, r.stride, positions + at);
  });
}

// The largest elements that the lanes have seen and their positions.
template <class D>
struct Largest {
  hn::Vec<D> best;
  hn::Vec<hn::RebindToSigned<D>> positions;

  // Looks at the elements x[at] and those behind it, further on than all so far.
  HWY_INLINE void see(D d, const hn::TFromD<D>* HWY_RESTRICT x, int64_t at) {
    const hn::RebindToSigned<D> di;
    const auto v = hn::LoadU(d, x + at);
    const auto take = larger(d, v, best);
    best = hn::IfThenElse(take, v, best);
    positions = hn::IfThenElse(hn::RebindMask(di, take),
                               hn::Iota(di, static_cast<hn::TFromD<decltype(di)>>(at)), positions);
  }
};

// The position of the last NaN that the lanes of `parts` have, or -1.
template <class D, size_t kParts>
HWY_INLINE int64_t last_nan_of(const Largest<D> (&parts)[kParts]) {
  if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
    const hn::RebindToSigned<D> di;
    auto position = hn::Set(di, -1);
    for (const auto& p : parts) {
      const auto is_nan = hn::RebindMask(di, hn::IsNaN(p.best));
      position = hn::Max(position, hn::IfThenElse(is_nan, p.positions, position));
    }
    if (!hn::AllTrue(di, hn::Eq(position, hn::Set(di, -1))))
      return hn::GetLane(hn::MaxOfLanes(di, position));
  }
  return -1;
}

// The position of the first of their largest elements, if none is NaN.
template <class D, size_t kParts>
HWY_INLINE int64_t first_largest_of(D d, const Largest<D> (&parts)[kParts]) {
  const hn::RebindToSigned<D> di;
  auto most = parts[0].best;
  for (const auto& p : parts) most = hn::Max(most, p.best);
  most = moonlet::HWY_NAMESPACE::max_of_lanes(d, most);
  const auto none = hn::Set(di, hwy::HighestValue<hn::TFromD<decltype(di)>>());
  auto position = none;
  for (const auto& p : parts) {
    const auto equal = hn::RebindMask(di, hn::Eq(p.best, most));
    position = hn::Min(position, hn::IfThenElse(equal, p.positions, none));
  }
  return hn::GetLane(hn::MinOfLanes(di, position));
}

// One window with rows of several vectors: the lanes are neighbouring taps, and what one step finds
// is not waited for by the next.
template <class T>
void max_of_long(const PoolRow<T>& r, const T* x, int64_t first, T* value, int64_t* position) {
  using D = hn::ScalableTag<T>;
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), last = r.taps - lanes;
  const Largest<D> start = {hn::LoadU(d, x), hn::Iota(hn::RebindToSigned<D>(), 0)};
  Largest<D> parts[4] = {start, start, start, start};
  const auto line = [&](auto& even, auto& odd, int64_t at) HWY_ATTR {
    int64_t k = 0;
    for (; k < last - lanes; k += 2 * lanes) {
      even.see(d, x, at + k);
      odd.see(d, x, at + k + lanes);
    }
    if (k < last) even.see(d, x, at + k);
    odd.see(d, x, at + last);
  };
  for (int64_t i = 0; i < r.rows; i += 2) {
    stop_if_requested();
    line(parts[0], parts[1], i * r.row_step);
    if (i + 1 < r.rows) line(parts[2], parts[3], (i + 1) * r.row_step);
  }
  const int64_t nan = last_nan_of(parts), at = nan >= 0 ? nan : first_largest_of(d, parts);
  *value = x[at];
  *position = first + at;
}

template <Step kStep, int kTaps, class T>
void mean_windows(const PoolRow<T>& r, T divisor, T* means) {
  cover<T>(r.windows, [&](auto d, int64_t at) HWY_ATTR {
    auto sum = hn::Zero(d);
    each_tap<kStep, kTaps>(d, r, r.in + at * r.stride,
                           [&](auto v, int64_t) HWY_ATTR { sum = hn::Add(sum, v); });
    hn::StoreU(hn::Div(sum, hn::Set(d, divisor)), d, means + at);
  });
}

template <class T>
void max_row_of(const PoolRow<T>& r, int64_t first, T* values, int64_t* positions) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  if (r.tap_step == 1 && r.taps >= lanes && r.windows < lanes) {
    for (int64_t i = 0; i < r.windows; ++i)
      max_of_long(r, r.in + i * r.stride, first + i * r.stride, values + i, positions + i);
    return;
  }
  if (r.stride == 1) return max_windows<Step::One, 0>(r, first, values, positions);
  if (r.stride != 2 || r.taps < 2) return max_windows<Step::Any, 0>(r, first, values, positions);
  if (r.taps == 2 && r.tap_step == 1) return max_windows<Step::Two, 2>(r, first, values, positions);
  max_windows<Step::Two, 0>(r, first, values, positions);
}

template <class T>
void mean_row_of(const PoolRow<T>& r, T divisor, T* means) {
  if (r.stride == 1) return mean_windows<Step::One, 0>(r, divisor, means);
  if (r.stride != 2 || r.taps < 2) return mean_windows<Step::Any, 0>(r, divisor, means);
  if (r.taps == 2 && r.tap_step == 1) return mean_windows<Step::Two, 2>(r, divisor, means);
  mean_windows<Step::Two, 0>(r, divisor, means);
}

void max_f32(const PoolRow<float>& r, int64_t first, float* values, int64_t* positions) {
  max_row_of(r, first, values, positions);
}
void max_f64(const PoolRow<double>& r, int64_t first, double* values, int64_t* positions) {
  max_row_of(r, first, values, positions);
}
void max_i64(const PoolRow<int64_t>& r, int64_t first, int64_t* values, int64_t* positions) {
  max_row_of(r, first, values, positions);
}
void mean_f32(const PoolRow<float>& r, float divisor, float* means) {
  mean_row_of(r, divisor, means);
}
void mean_f64(const PoolRow<double>& r, double divisor, double* means) {
  mean_row_of(r, divisor, means);
}

}  // namespace HWY_NAMESPACE
}  // namespace moonlet::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moonlet::cpu {

HWY_EXPORT(max_f32);
HWY_EXPORT(max_f64);
HWY_EXPORT(max_i64);
HWY_EXPORT(mean_f32);
HWY_EXPORT(mean_f64);

template <>
void max_row(const PoolRow<float>& r, int64_t first, float* values, int64_t* positions) {
  HWY_DYNAMIC_DISPATCH(max_f32)(r, first, values, positions);
}
template <>
void max_row(const PoolRow<double>& r, int64_t first, double* values, int64_t* positions) {
  HWY_DYNAMIC_DISPATCH(max_f64)(r, first, values, positions);
}
template <>
void max_row(const PoolRow<int64_t>& r, int64_t first, int64_t* values, int64_t* positions) {
  HWY_DYNAMIC_DISPATCH(max_i64)(r, first, values, positions);
}
template <>
void mean_row(const PoolRow<float>& r, float divisor, float* means) {
  HWY_DYNAMIC_DISPATCH(mean_f32)(r, divisor, means);
}
template <>
void mean_row(const PoolRow<double>& r, double divisor, double* means) {
  HWY_DYNAMIC_DISPATCH(mean_f64)(r, divisor, means);
}

}  // namespace moonlet::cpu
#endif

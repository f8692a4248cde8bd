// tensor/cpu/conv/conv_direct_simd.cpp: the loops of conv_direct.cpp, one version per instruction
// set, chosen when the program runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/conv/conv_direct_simd.cpp"
//
#include "tensor/cpu/pointwise/pointwise_targets.h"
//
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "tensor/cpu/conv/conv_direct_simd.h"

HWY_BEFORE_NAMESPACE();
namespace moonlet::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Vectors of a row that are computed at once; two where four rows of four would fill the registers.
constexpr int kVectors = thresholds::conv::kDirectVectors;
constexpr int vectors_of(int outputs) {
  return outputs == kDirectOutputs && HWY_TARGET != HWY_AVX3 ? kVectors / 2 : kVectors;
}

template <int kOutputs, int kCount, class T>
HWY_INLINE void correlate_at(const T* HWY_RESTRICT in, const Taps& taps,
                             const T* HWY_RESTRICT weights, const T* bias, T* out, int64_t step) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> sums[kOutputs][kCount];
  for (int o = 0; o < kOutputs; ++o)
    for (int v = 0; v < kCount; ++v) sums[o][v] = hn::Set(d, bias ? bias[o] : T(0));
  for (int64_t t = 0; t < taps.count; ++t, weights += kOutputs) {
    const T* const from = in + taps.offsets[t];
    hn::Vec<decltype(d)> x[kCount];
    for (int v = 0; v < kCount; ++v) x[v] = hn::LoadU(d, from + v * lanes);
    for (int o = 0; o < kOutputs; ++o) {
      const auto weight = hn::Set(d, weights[o]);
      for (int v = 0; v < kCount; ++v) sums[o][v] = hn::MulAdd(weight, x[v], sums[o][v]);
    }
  }
  for (int o = 0; o < kOutputs; ++o)
    for (int v = 0; v < kCount; ++v) hn::StoreU(sums[o][v], d, out + o * step + v * lanes);
}

template <int kOutputs, class T>
void correlate_all(const T* in, const Taps& taps, const T* weights, const T* bias, T* out,
                   int64_t step, int64_t count) {
  constexpr int kMost = vectors_of(kOutputs);
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  int64_t i = 0;
  for (; i + (kMost - 1) * lanes < count; i += kMost * lanes)
    correlate_at<kOutputs, kMost>(in + i, taps, weights, bias, out + i, step);
  for (; i < count; i += lanes)
    correlate_at<kOutputs, 1>(in + i, taps, weights, bias, out + i, step);
}

template <class T>
void correlate_of(int64_t outputs, const T* in, const Taps& taps, const T* weights, const T* bias,
                  T* out, int64_t step, int64_t count) {
  if (outputs == 1)
    correlate_all<1>(in, taps, weights, bias, out, step, count);
  else if (outputs == 2)
    correlate_all<2>(in, taps, weights, bias, out, step, count);
  else
    correlate_all<kDirectOutputs>(in, taps, weights, bias, out, step, count);
}

template <int kTaps, class T>
HWY_INLINE void sums_of(const T* HWY_RESTRICT grad, const T* HWY_RESTRICT in,
                        const int64_t* offsets, int64_t count, double* sums) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> parts[kTaps];
  const T* from[kTaps];
  for (int t = 0; t < kTaps; ++t) {
    parts[t] = hn::Zero(d);
    from[t] = in + offsets[t];
  }
  for (int64_t i = 0; i < count; i += lanes) {
    const auto g = hn::LoadU(d, grad + i);
    for (int t = 0; t < kTaps; ++t) parts[t] = hn::MulAdd(g, hn::LoadU(d, from[t] + i), parts[t]);
  }
  for (int t = 0; t < kTaps; ++t)
    sums[t] += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, parts[t])));
}

// The taps in equal shares of at most nine, which have a register each.
template <class T>
void tap_sums_of(const T* grad, const T* in, const Taps& taps, int64_t count, double* sums) {
  constexpr int64_t kMost = thresholds::conv::kDirectTaps;
  int64_t shares = (taps.count + kMost - 1) / kMost;
  for (int64_t t = 0; t < taps.count; --shares) {
    const int64_t n = (taps.count - t + shares - 1) / shares;
    const int64_t* const at = taps.offsets + t;
    double* const to = sums + t;
    switch (n) {
      case 9: sums_of<9>(grad, in, at, count, to); break;
      case 8: sums_of<8>(grad, in, at, count, to); break;
      case 7: sums_of<7>(grad, in, at, count, to); break;
      case 6: sums_of<6>(grad, in, at, count, to); break;
      case 5: sums_of<5>(grad, in, at, count, to); break;
      case 4: sums_of<4>(grad, in, at, count, to); break;
      case 3: sums_of<3>(grad, in, at, count, to); break;
      case 2: sums_of<2>(grad, in, at, count, to); break;
      default: sums_of<1>(grad, in, at, count, to);
    }
    t += n;
  }
}

template <class T>
void take_even_of(const T* HWY_RESTRICT from, T* HWY_RESTRICT to, int64_t count) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  // The last element of a pair may be behind the row.
  for (; i + lanes < count; i += lanes) {
    hn::Vec<decltype(d)> even, odd;
    hn::LoadInterleaved2(d, from + 2 * i, even, odd);
    hn::StoreU(even, d, to + i);
  }
  for (; i < count; ++i) to[i] = from[2 * i];
}

template <class T>
void interleave_of(const T* HWY_RESTRICT even, const T* HWY_RESTRICT odd, T* HWY_RESTRICT to,
                   int64_t count) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreInterleaved2(hn::LoadU(d, even + i), hn::LoadU(d, odd + i), d, to + 2 * i);
  for (; i < count; ++i) {
    to[2 * i] = even[i];
    to[2 * i + 1] = odd[i];
  }
}

template <class T>
void clip_at_zero_of(T* elements, int64_t count) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto x = hn::LoadU(d, elements + i);
    hn::StoreU(hn::IfThenZeroElse(hn::Le(x, hn::Zero(d)), x), d, elements + i);
  }
  for (; i < count; ++i) elements[i] = elements[i] <= T(0) ? T(0) : elements[i];
}

#define MOONLET_DIRECT(T, suffix)                                                                 \
  void correlate_##suffix(int64_t outputs, const T* in, const Taps& taps, const T* weights,       \
                          const T* bias, T* out, int64_t step, int64_t count) {                   \
    correlate_of(outputs, in, taps, weights, bias, out, step, count);                             \
  }                                                                                               \
  void tap_sums_##suffix(const T* grad, const T* in, const Taps& taps, int64_t count,             \
                         double* sums) {                                                          \
    tap_sums_of(grad, in, taps, count, sums);                                                     \
  }                                                                                               \
  void take_even_##suffix(const T* from, T* to, int64_t count) { take_even_of(from, to, count); } \
  void interleave_##suffix(const T* even, const T* odd, T* to, int64_t count) {                   \
    interleave_of(even, odd, to, count);                                                          \
  }                                                                                               \
  void clip_at_zero_##suffix(T* elements, int64_t count) { clip_at_zero_of(elements, count); }

MOONLET_DIRECT(float, f32)
MOONLET_DIRECT(double, f64)
#undef MOONLET_DIRECT

}  // namespace HWY_NAMESPACE
}  // namespace moonlet::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moonlet::cpu {

#define MOONLET_DIRECT(T, suffix)                                                                 \
  HWY_EXPORT(correlate_##suffix);                                                                 \
  HWY_EXPORT(tap_sums_##suffix);                                                                  \
  HWY_EXPORT(take_even_##suffix);                                                                 \
  HWY_EXPORT(interleave_##suffix);                                                                \
  HWY_EXPORT(clip_at_zero_##suffix);                                                              \
  void correlate(int64_t outputs, const T* in, const Taps& taps, const T* weights, const T* bias, \
                 T* out, int64_t step, int64_t count) {                                           \
    HWY_DYNAMIC_DISPATCH(correlate_##suffix)                                                      \
    (outputs, in, taps, weights, bias, out, step, count);                                         \
  }                                                                                               \
  void tap_sums(const T* grad, const T* in, const Taps& taps, int64_t count, double* sums) {      \
    HWY_DYNAMIC_DISPATCH(tap_sums_##suffix)(grad, in, taps, count, sums);                         \
  }                                                                                               \
  void take_even(const T* from, T* to, int64_t count) {                                           \
    HWY_DYNAMIC_DISPATCH(take_even_##suffix)(from, to, count);                                    \
  }                                                                                               \
  void interleave(const T* even, const T* odd, T* to, int64_t count) {                            \
    HWY_DYNAMIC_DISPATCH(interleave_##suffix)(even, odd, to, count);                              \
  }                                                                                               \
  void clip_at_zero(T* elements, int64_t count) {                                                 \
    HWY_DYNAMIC_DISPATCH(clip_at_zero_##suffix)(elements, count);                                 \
  }

MOONLET_DIRECT(float, f32)
MOONLET_DIRECT(double, f64)
#undef MOONLET_DIRECT

}  // namespace moonlet::cpu
#endif

// tensor/cpu/normalization/normalization_simd.cpp: the vectorised loops of normalisation, one
// version per instruction set, chosen when the program runs.
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/pointwise/pointwise_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/normalization/normalization_simd.cpp"
#include "hwy/foreach_target.h"

#include "hwy/highway.h"
#include "tensor/cpu/normalization/normalization.h"
#include "tensor/cpu/simd/each_vector-inl.h"
#include "tensor/cpu/simd/widened-inl.h"

HWY_BEFORE_NAMESPACE();
namespace moonlet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using cpu::NormRun;
using cpu::NormSums;

// Calls step(tag, index) for whole vectors that cover [0, n), of which the last may begin within
// the one before: `step` must give the same when it is called again. Fewer elements than a vector
// has come one by one.
template <class T, class Step>
HWY_INLINE void cover(int64_t n, Step&& step) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  if (n < lanes || n > kStopBlock) return each_vector<T>(n, step);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) step(d, i);
  if (i < n) step(d, n - lanes);
}

// The sums of less than two vectors in lanes that are elements of [i, n), i + lanes > n >= lanes.
template <class D, class V, class Step>
HWY_INLINE void add_last(D d, int64_t i, int64_t n, V& a, V& b, Step&& step) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto seen = hn::FirstN(d, static_cast<size_t>(lanes - (n - i)));
  auto last_a = hn::Zero(d), last_b = last_a;
  step(d, n - lanes, last_a, last_b);
  a = hn::Add(a, hn::IfThenZeroElse(seen, last_a));
  b = hn::Add(b, hn::IfThenZeroElse(seen, last_b));
}

// Sums of both values that step(tag, index, first, second) adds to, over [0, n): four vectors per
// sum, folded into double every block so that long runs stay exact.
template <class T, class Step>
HWY_INLINE NormSums sums(int64_t n, Step&& step) {
  constexpr int64_t kBlock = thresholds::normalization::kSumBlock;
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  NormSums total{0, 0};
  int64_t i = 0;
  while (i < n && n >= lanes) {
    if (i > 0) stop_if_requested();
    const int64_t stop = std::min(n, i + kBlock);
    auto a0 = hn::Zero(d), a1 = a0, a2 = a0, a3 = a0, b0 = a0, b1 = a0, b2 = a0, b3 = a0;
    for (; i + 4 * lanes <= stop; i += 4 * lanes) {
      step(d, i, a0, b0);
      step(d, i + lanes, a1, b1);
      step(d, i + 2 * lanes, a2, b2);
      step(d, i + 3 * lanes, a3, b3);
    }
    for (; i + lanes <= stop; i += lanes) step(d, i, a0, b0);
    if (stop == n && i < n) {
      add_last(d, i, n, a1, b1, step);
      i = n;
    }
    total.first += hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a0, a1), hn::Add(a2, a3))));
    total.second += hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(b0, b1), hn::Add(b2, b3))));
  }
  auto a = hn::Zero(one), b = a;
  for (; i < n; ++i) step(one, i, a, b);
  total.first += hn::GetLane(a);
  total.second += hn::GetLane(b);
  return total;
}

// The loops take the run by value: stores could change one behind a reference, and each step would
// read it again.

// Sum x and sum (x - mean)^2.
template <class T, class E>
HWY_INLINE NormSums moments(NormRun<T, E> r) {
  return sums<T>(r.n, [&](auto d, int64_t i, auto& a, auto& b) HWY_ATTR {
    const auto v = hn::Sub(widened(d, r.x + i), hn::Set(d, r.mean));
    a = hn::Add(a, v);
    b = hn::MulAdd(v, v, b);
  });
}

// The mean, and the sum of squared differences from it: from differences from the rounded mean, so
// that the squares are no larger than they must be.
template <class T, class E>
HWY_INLINE NormSums statistics(NormRun<T, E> r) {
  const double n = static_cast<double>(r.n);
  const NormSums all = sums<T>(r.n, [&](auto d, int64_t i, auto& a, auto&)
                                        HWY_ATTR { a = hn::Add(a, widened(d, r.x + i)); });
  r.mean = static_cast<T>(all.first / n);
  const NormSums apart = moments<T, E>(r);
  const double drift = apart.first / n;
  const double squares = apart.second - drift * apart.first;
  return {static_cast<double>(r.mean) + drift, squares < 0 ? 0 : squares};
}

// out = (x - mean) rstd scale weight + offset + bias
template <class T, class E>
HWY_INLINE void apply(NormRun<T, E> r) {
  const T factor = r.rstd * r.scale, shift = -r.rest * factor;
  if (!r.weight && !r.bias) {
    const T offset = r.offset + shift;
    return cover<T>(r.n, [&](auto d, int64_t i) HWY_ATTR {
      const auto v = hn::Sub(widened(d, r.x + i), hn::Set(d, r.mean));
      store_narrowed(d, hn::MulAdd(v, hn::Set(d, factor), hn::Set(d, offset)), r.out + i);
    });
  }
  cover<T>(r.n, [&](auto d, int64_t i) HWY_ATTR {
    const auto distance = hn::Sub(widened(d, r.x + i), hn::Set(d, r.mean));
    auto v = hn::MulAdd(distance, hn::Set(d, factor), hn::Set(d, shift));
    if (r.weight) v = hn::Mul(v, hn::LoadU(d, r.weight + i));
    v = hn::Add(v, r.bias ? hn::LoadU(d, r.bias + i) : hn::Set(d, r.offset));
    store_narrowed(d, v, r.out + i);
  });
}

// With a = grad scale weight and xh = (x - mean) rstd: sum a and sum a xh.
template <class T, class E>
HWY_INLINE NormSums gradient_sums(NormRun<T, E> r) {
  const T shift = -r.rest * r.rstd;
  return sums<T>(r.n, [&](auto d, int64_t i, auto& a, auto& b) HWY_ATTR {
    auto g = hn::Mul(widened(d, r.grad + i), hn::Set(d, r.scale));
    if (r.weight) g = hn::Mul(g, hn::LoadU(d, r.weight + i));
    const auto distance = hn::Sub(widened(d, r.x + i), hn::Set(d, r.mean));
    const auto xh = hn::MulAdd(distance, hn::Set(d, r.rstd), hn::Set(d, shift));
    a = hn::Add(a, g);
    b = hn::MulAdd(g, xh, b);
  });
}

// out = rstd (a - m1 - xh m2)
template <class T, class E>
HWY_INLINE void gradient(NormRun<T, E> r) {
  const T shift = -r.rest * r.rstd;
  cover<T>(r.n, [&](auto d, int64_t i) HWY_ATTR {
    auto g = hn::Mul(widened(d, r.grad + i), hn::Set(d, r.scale));
    if (r.weight) g = hn::Mul(g, hn::LoadU(d, r.weight + i));
    const auto rstd = hn::Set(d, r.rstd);
    const auto distance = hn::Sub(widened(d, r.x + i), hn::Set(d, r.mean));
    const auto xh = hn::MulAdd(distance, rstd, hn::Set(d, shift));
    const auto v = hn::NegMulAdd(xh, hn::Set(d, r.m2), hn::Sub(g, hn::Set(d, r.m1)));
    store_narrowed(d, hn::Mul(v, rstd), r.out + i);
  });
}

// weights += grad xh, biases += grad
template <class T, class E>
HWY_INLINE void add_gradients(NormRun<T, E> r, T* HWY_RESTRICT weights, T* HWY_RESTRICT biases) {
  const T shift = -r.rest * r.rstd;
  each_vector<T>(r.n, [&](auto d, int64_t i) HWY_ATTR {
    const auto g = widened(d, r.grad + i);
    const auto distance = hn::Sub(widened(d, r.x + i), hn::Set(d, r.mean));
    const auto xh = hn::MulAdd(distance, hn::Set(d, r.rstd), hn::Set(d, shift));
    hn::StoreU(hn::MulAdd(g, xh, hn::LoadU(d, weights + i)), d, weights + i);
    hn::StoreU(hn::Add(g, hn::LoadU(d, biases + i)), d, biases + i);
  });
}

#define MOONLET_NORM_LOOPS(T, E, suffix)                                               \
  NormSums moments_##suffix(const NormRun<T, E>& r) { return moments(r); }             \
  NormSums statistics_##suffix(const NormRun<T, E>& r) { return statistics(r); }       \
  void apply_##suffix(const NormRun<T, E>& r) { apply(r); }                            \
  NormSums gradient_sums_##suffix(const NormRun<T, E>& r) { return gradient_sums(r); } \
  void gradient_##suffix(const NormRun<T, E>& r) { gradient(r); }                      \
  void add_gradients_##suffix(const NormRun<T, E>& r, T* weights, T* biases) {         \
    add_gradients(r, weights, biases);                                                 \
  }
MOONLET_NORM_LOOPS(float, float, f32)
MOONLET_NORM_LOOPS(double, double, f64)
MOONLET_NORM_LOOPS(float, bfloat16, bf16)

}  // namespace HWY_NAMESPACE
}  // namespace moonlet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moonlet {
#define MOONLET_NORM_EXPORT(suffix)   \
  HWY_EXPORT(moments_##suffix);       \
  HWY_EXPORT(statistics_##suffix);    \
  HWY_EXPORT(apply_##suffix);         \
  HWY_EXPORT(gradient_sums_##suffix); \
  HWY_EXPORT(gradient_##suffix);      \
  HWY_EXPORT(add_gradients_##suffix);
MOONLET_NORM_EXPORT(f32)
MOONLET_NORM_EXPORT(f64)
MOONLET_NORM_EXPORT(bf16)

namespace cpu {
namespace {

// The same loops for runs that leave the range of T, in double, one element at a time; apart, so
// that the others pay for a test only.
template <class T, class E>
struct WideLoops {
  const NormRun<T, E>& r;

  double value(const E* x, int64_t i) const { return static_cast<double>(static_cast<T>(x[i])); }
  // (x - mean) rstd, of halves, whose difference is a double.
  double normal(int64_t i) const {
    return (value(r.x, i) / 2 - r.exact_mean / 2) * r.exact_rstd * 2;
  }
  double weight(int64_t i) const { return r.scale * (r.weight ? r.weight[i] : T(1)); }
  template <class F>
  void each(F&& f) const {
    serial_for(r.n, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) f(i);
    });
  }

  HWY_NOINLINE void apply() const {
    each([&](int64_t i) {
      const double bias = r.offset + (r.bias ? r.bias[i] : T(0));
      r.out[i] = E(static_cast<T>(normal(i) * weight(i) + bias));
    });
  }
  HWY_NOINLINE NormSums gradient_sums() const {
    NormSums all{0, 0};
    each([&](int64_t i) {
      const double g = value(r.grad, i) * weight(i);
      all.first += g, all.second += g * normal(i);
    });
    return all;
  }
  HWY_NOINLINE void gradient() const {
    each([&](int64_t i) {
      const double v = value(r.grad, i) * weight(i) - r.m1 - normal(i) * r.m2;
      r.out[i] = E(static_cast<T>(v * r.exact_rstd));
    });
  }
  HWY_NOINLINE void add_gradients(T* weights, T* biases) const {
    each([&](int64_t i) {
      weights[i] += static_cast<T>(value(r.grad, i) * normal(i));
      biases[i] += static_cast<T>(value(r.grad, i));
    });
  }
};

}  // namespace

#define MOONLET_NORM_TABLE(T, E, suffix)                                               \
  template <>                                                                          \
  NormSums NormLoops<T, E>::moments(const NormRun<T, E>& r) {                          \
    return HWY_DYNAMIC_DISPATCH(moments_##suffix)(r);                                  \
  }                                                                                    \
  template <>                                                                          \
  NormSums NormLoops<T, E>::statistics(const NormRun<T, E>& r) {                       \
    return HWY_DYNAMIC_DISPATCH(statistics_##suffix)(r);                               \
  }                                                                                    \
  template <>                                                                          \
  void NormLoops<T, E>::apply(const NormRun<T, E>& r) {                                \
    if (r.leaves_range) return WideLoops<T, E>{r}.apply();                             \
    HWY_DYNAMIC_DISPATCH(apply_##suffix)(r);                                           \
  }                                                                                    \
  template <>                                                                          \
  NormSums NormLoops<T, E>::gradient_sums(const NormRun<T, E>& r) {                    \
    if (r.leaves_range) return WideLoops<T, E>{r}.gradient_sums();                     \
    return HWY_DYNAMIC_DISPATCH(gradient_sums_##suffix)(r);                            \
  }                                                                                    \
  template <>                                                                          \
  void NormLoops<T, E>::gradient(const NormRun<T, E>& r) {                             \
    if (r.leaves_range) return WideLoops<T, E>{r}.gradient();                          \
    HWY_DYNAMIC_DISPATCH(gradient_##suffix)(r);                                        \
  }                                                                                    \
  template <>                                                                          \
  void NormLoops<T, E>::add_gradients(const NormRun<T, E>& r, T* weights, T* biases) { \
    if (r.leaves_range) return WideLoops<T, E>{r}.add_gradients(weights, biases);      \
    HWY_DYNAMIC_DISPATCH(add_gradients_##suffix)(r, weights, biases);                  \
  }
MOONLET_NORM_TABLE(float, float, f32)
MOONLET_NORM_TABLE(double, double, f64)
MOONLET_NORM_TABLE(float, bfloat16, bf16)

}  // namespace cpu
}  // namespace moonlet
#endif

// tensor/cpu/normalization_simd.cpp: the vectorised loops of normalisation, one version per
// instruction set, chosen when the program runs.
#include "tensor/cpu/pointwise_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/normalization_simd.cpp"
#include "hwy/foreach_target.h"

#include "hwy/highway.h"
#include "tensor/cpu/each_vector-inl.h"
#include "tensor/cpu/normalization.h"

HWY_BEFORE_NAMESPACE();
namespace moonlet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using cpu::NormRun;
using cpu::NormSums;

// Sums of both values that step(tag, index, first, second) adds to, over [0, n): two vectors per
// sum, folded into double every block so that long runs stay exact.
template <class T, class Step>
HWY_INLINE NormSums sums(int64_t n, Step&& step) {
  constexpr int64_t kBlock = 1024;
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  NormSums total{0, 0};
  int64_t i = 0;
  while (i + lanes <= n) {
    if (i > 0) stop_if_requested();
    const int64_t stop = std::min(n, i + kBlock);
    auto a0 = hn::Zero(d), a1 = a0, b0 = a0, b1 = a0;
    for (; i + 2 * lanes <= stop; i += 2 * lanes) {
      step(d, i, a0, b0);
      step(d, i + lanes, a1, b1);
    }
    for (; i + lanes <= stop; i += lanes) step(d, i, a0, b0);
    total.first += hn::GetLane(hn::SumOfLanes(d, hn::Add(a0, a1)));
    total.second += hn::GetLane(hn::SumOfLanes(d, hn::Add(b0, b1)));
  }
  auto a = hn::Zero(one), b = a;
  for (; i < n; ++i) step(one, i, a, b);
  total.first += hn::GetLane(a);
  total.second += hn::GetLane(b);
  return total;
}

// Sum x and sum (x - mean)^2.
template <class T>
NormSums moments(const NormRun<T>& r) {
  return sums<T>(r.n, [&](auto d, int64_t i, auto& a, auto& b) HWY_ATTR {
    const auto v = hn::Sub(hn::LoadU(d, r.x + i), hn::Set(d, r.mean));
    a = hn::Add(a, v);
    b = hn::MulAdd(v, v, b);
  });
}

// out = (x - mean) rstd scale weight + offset + bias
template <class T>
void apply(const NormRun<T>& r) {
  each_vector<T>(r.n, [&](auto d, int64_t i) HWY_ATTR {
    auto v =
        hn::Mul(hn::Sub(hn::LoadU(d, r.x + i), hn::Set(d, r.mean)), hn::Set(d, r.rstd * r.scale));
    if (r.weight) v = hn::Mul(v, hn::LoadU(d, r.weight + i));
    v = hn::Add(v, r.bias ? hn::LoadU(d, r.bias + i) : hn::Set(d, r.offset));
    hn::StoreU(v, d, r.out + i);
  });
}

// With a = grad scale weight and xh = (x - mean) rstd: sum a and sum a xh.
template <class T>
NormSums gradient_sums(const NormRun<T>& r) {
  return sums<T>(r.n, [&](auto d, int64_t i, auto& a, auto& b) HWY_ATTR {
    auto g = hn::Mul(hn::LoadU(d, r.grad + i), hn::Set(d, r.scale));
    if (r.weight) g = hn::Mul(g, hn::LoadU(d, r.weight + i));
    const auto xh = hn::Mul(hn::Sub(hn::LoadU(d, r.x + i), hn::Set(d, r.mean)), hn::Set(d, r.rstd));
    a = hn::Add(a, g);
    b = hn::MulAdd(g, xh, b);
  });
}

// out = rstd (a - m1 - xh m2)
template <class T>
void gradient(const NormRun<T>& r) {
  each_vector<T>(r.n, [&](auto d, int64_t i) HWY_ATTR {
    auto g = hn::Mul(hn::LoadU(d, r.grad + i), hn::Set(d, r.scale));
    if (r.weight) g = hn::Mul(g, hn::LoadU(d, r.weight + i));
    const auto rstd = hn::Set(d, r.rstd);
    const auto xh = hn::Mul(hn::Sub(hn::LoadU(d, r.x + i), hn::Set(d, r.mean)), rstd);
    const auto v = hn::NegMulAdd(xh, hn::Set(d, r.m2), hn::Sub(g, hn::Set(d, r.m1)));
    hn::StoreU(hn::Mul(v, rstd), d, r.out + i);
  });
}

// out += grad xh
template <class T>
void add_weight_gradient(const NormRun<T>& r) {
  each_vector<T>(r.n, [&](auto d, int64_t i) HWY_ATTR {
    const auto xh = hn::Mul(hn::Sub(hn::LoadU(d, r.x + i), hn::Set(d, r.mean)), hn::Set(d, r.rstd));
    hn::StoreU(hn::MulAdd(hn::LoadU(d, r.grad + i), xh, hn::LoadU(d, r.out + i)), d, r.out + i);
  });
}

#define MOONLET_NORM_LOOPS(T, suffix)                                               \
  NormSums moments_##suffix(const NormRun<T>& r) { return moments(r); }             \
  void apply_##suffix(const NormRun<T>& r) { apply(r); }                            \
  NormSums gradient_sums_##suffix(const NormRun<T>& r) { return gradient_sums(r); } \
  void gradient_##suffix(const NormRun<T>& r) { gradient(r); }                      \
  void add_weight_gradient_##suffix(const NormRun<T>& r) { add_weight_gradient(r); }
MOONLET_NORM_LOOPS(float, f32)
MOONLET_NORM_LOOPS(double, f64)

}  // namespace HWY_NAMESPACE
}  // namespace moonlet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moonlet {
#define MOONLET_NORM_EXPORT(T, suffix) \
  HWY_EXPORT(moments_##suffix);        \
  HWY_EXPORT(apply_##suffix);          \
  HWY_EXPORT(gradient_sums_##suffix);  \
  HWY_EXPORT(gradient_##suffix);       \
  HWY_EXPORT(add_weight_gradient_##suffix);
MOONLET_NORM_EXPORT(float, f32)
MOONLET_NORM_EXPORT(double, f64)

namespace cpu {

#define MOONLET_NORM_TABLE(T, suffix)                           \
  template <>                                                   \
  NormSums NormLoops<T>::moments(const NormRun<T>& r) {         \
    return HWY_DYNAMIC_DISPATCH(moments_##suffix)(r);           \
  }                                                             \
  template <>                                                   \
  void NormLoops<T>::apply(const NormRun<T>& r) {               \
    HWY_DYNAMIC_DISPATCH(apply_##suffix)(r);                    \
  }                                                             \
  template <>                                                   \
  NormSums NormLoops<T>::gradient_sums(const NormRun<T>& r) {   \
    return HWY_DYNAMIC_DISPATCH(gradient_sums_##suffix)(r);     \
  }                                                             \
  template <>                                                   \
  void NormLoops<T>::gradient(const NormRun<T>& r) {            \
    HWY_DYNAMIC_DISPATCH(gradient_##suffix)(r);                 \
  }                                                             \
  template <>                                                   \
  void NormLoops<T>::add_weight_gradient(const NormRun<T>& r) { \
    HWY_DYNAMIC_DISPATCH(add_weight_gradient_##suffix)(r);      \
  }
MOONLET_NORM_TABLE(float, f32)
MOONLET_NORM_TABLE(double, f64)

}  // namespace cpu
}  // namespace moonlet
#endif

// tensor/cpu/linalg/linalg_distance_simd.cpp: distances of one point to many, one version per
// instruction set, chosen when the program runs. Each lane has a point of its own.
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/pointwise/pointwise_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/linalg/linalg_distance_simd.cpp"
#include <algorithm>
#include <cmath>
#include <type_traits>
#include "hwy/foreach_target.h"

#include "hwy/highway.h"
#include "tensor/cpu/linalg/linalg_distance.h"
#include "tensor/cpu/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace moonlet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using cpu::Points;

template <class T>
HWY_INLINE Vec<T> load(const T* p) {
  return vec<T>(hn::LoadU(Tag<T>(), p));
}

// -1, 0 or 1.
template <class T>
HWY_INLINE Vec<T> sign_of(Vec<T> x) {
  return select(x > Vec<T>(0), Vec<T>(1), select(x < Vec<T>(0), Vec<T>(-1), Vec<T>(0)));
}

// Each norm by its sum over coordinates of `term`s and `root` of that; and its gradient with
// respect to the difference d of a coordinate, `gradient` times `weight`, which is the same for all
// coordinates.
template <class T>
struct Sum {
  static HWY_INLINE Vec<T> joined(Vec<T> a, Vec<T> b) { return a + b; }
};
template <class T>
struct CountNorm : Sum<T> {
  explicit CountNorm(double) {}
  HWY_INLINE Vec<T> term(Vec<T> d) const { return select(d == Vec<T>(0), Vec<T>(0), Vec<T>(1)); }
  HWY_INLINE Vec<T> root(Vec<T> sum) const { return sum; }
  HWY_INLINE Vec<T> weight(Vec<T>, Vec<T>) const { return Vec<T>(0); }
  HWY_INLINE Vec<T> gradient(Vec<T>, Vec<T>) const { return Vec<T>(0); }
};
template <class T>
struct AbsNorm : Sum<T> {
  explicit AbsNorm(double) {}
  HWY_INLINE Vec<T> term(Vec<T> d) const { return vabs(d); }
  HWY_INLINE Vec<T> root(Vec<T> sum) const { return sum; }
  HWY_INLINE Vec<T> weight(Vec<T> grad, Vec<T>) const { return grad; }
  HWY_INLINE Vec<T> gradient(Vec<T> d, Vec<T>) const { return sign_of(d); }
};
template <class T>
struct EuclideanNorm : Sum<T> {
  explicit EuclideanNorm(double) {}
  HWY_INLINE Vec<T> term(Vec<T> d) const { return d * d; }
  HWY_INLINE Vec<T> root(Vec<T> sum) const { return vsqrt(sum); }
  HWY_INLINE Vec<T> weight(Vec<T> grad, Vec<T> distance) const {
    return select(distance == Vec<T>(0), Vec<T>(0), grad / distance);
  }
  HWY_INLINE Vec<T> gradient(Vec<T> d, Vec<T>) const { return d; }
};
// The greatest; NaN is greater than all.
template <class T>
struct MaxNorm {
  explicit MaxNorm(double) {}
  static HWY_INLINE Vec<T> joined(Vec<T> a, Vec<T> b) { return select((b > a) || (b != b), b, a); }
  HWY_INLINE Vec<T> term(Vec<T> d) const { return vabs(d); }
  HWY_INLINE Vec<T> root(Vec<T> most) const { return most; }
  HWY_INLINE Vec<T> weight(Vec<T> grad, Vec<T>) const { return grad; }
  HWY_INLINE Vec<T> gradient(Vec<T> d, Vec<T> distance) const {
    return select(vabs(d) == distance, sign_of(d), Vec<T>(0));
  }
};
template <class T>
struct PowerNorm : Sum<T> {
  explicit PowerNorm(double p) : p_(p) {}
  HWY_INLINE Vec<T> term(Vec<T> d) const { return vpow(vabs(d), Vec<T>(p_)); }
  HWY_INLINE Vec<T> root(Vec<T> sum) const { return vpow(sum, Vec<T>(1 / p_)); }
  HWY_INLINE Vec<T> weight(Vec<T> grad, Vec<T> distance) const {
    return select(distance == Vec<T>(0), Vec<T>(0), grad / vpow(distance, Vec<T>(p_ - 1)));
  }
  HWY_INLINE Vec<T> gradient(Vec<T> d, Vec<T>) const {
    return select(d == Vec<T>(0), Vec<T>(0), sign_of(d) * vpow(vabs(d), Vec<T>(p_ - 1)));
  }

 private:
  double p_;
};

// sums[u] = the sum over coordinates [begin, end) for the points of vector u.
template <int kVectors, class T, class Norm>
HWY_INLINE void sum_run(const Norm& norm, const T* point, const T* others, int64_t stride,
                        int64_t begin, int64_t end, Vec<T>* sums) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(Tag<T>()));
  for (int u = 0; u < kVectors; ++u) sums[u] = Vec<T>(0);
  for (int64_t k = begin; k < end; ++k) {
    const Vec<T> own(static_cast<double>(point[k]));
    for (int u = 0; u < kVectors; ++u)
      sums[u] = Norm::joined(sums[u], norm.term(own - load(others + k * stride + u * lanes)));
  }
}

// Long sums are made of shorter ones, to lose few digits.
template <int kVectors, class T, class Norm>
HWY_INLINE void distances_of(const Norm& norm, const T* point, const T* others, int64_t dims,
                             int64_t stride, T* out) {
  constexpr int64_t kRun = thresholds::linalg::kDistanceRun;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(Tag<T>()));
  Vec<T> total[kVectors], some[kVectors], run[kVectors];
  for (int u = 0; u < kVectors; ++u) total[u] = Vec<T>(0);
  for (int64_t outer = 0; outer < dims; outer += kRun * kRun) {
    const int64_t stop = std::min(dims, outer + kRun * kRun);
    for (int u = 0; u < kVectors; ++u) some[u] = Vec<T>(0);
    for (int64_t k = outer; k < stop; k += kRun) {
      sum_run<kVectors>(norm, point, others, stride, k, std::min(stop, k + kRun), run);
      for (int u = 0; u < kVectors; ++u) some[u] = Norm::joined(some[u], run[u]);
    }
    for (int u = 0; u < kVectors; ++u) total[u] = Norm::joined(total[u], some[u]);
  }
  for (int u = 0; u < kVectors; ++u) hn::StoreU(norm.root(total[u]).v, Tag<T>(), out + u * lanes);
}

template <class T, class Norm>
void distances(const Norm& norm, const T* point, const Points<T>& others, int64_t count, T* out) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(Tag<T>()));
  const auto some = [&]<int kVectors>(std::integral_constant<int, kVectors>, int64_t j) HWY_ATTR {
    distances_of<kVectors>(norm, point, others.data + j, others.dims, others.stride, out + j);
  };
  int64_t j = 0;
  for (; j + 2 * lanes < count; j += 4 * lanes) some(std::integral_constant<int, 4>(), j);
  if (j + lanes < count) return some(std::integral_constant<int, 2>(), j);
  if (j < count) some(std::integral_constant<int, 1>(), j);
}

template <class T, class Norm>
void add_grads(const Norm& norm, const T* point, const Points<T>& others, int64_t count,
               const T* grad, const T* distance, T* sums) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(Tag<T>()));
  T weights[cpu::kPointVectors];
  for (int64_t from = 0; from < count; from += cpu::kPointVectors) {
    const int64_t n = std::min(cpu::kPointVectors, (count - from + lanes - 1) / lanes * lanes);
    for (int64_t j = 0; j < n; j += lanes)
      hn::StoreU(norm.weight(load(grad + from + j), load(distance + from + j)).v, Tag<T>(),
                 weights + j);
    for (int64_t k = 0; k < others.dims; ++k) {
      const T* line = others.data + k * others.stride + from;
      const Vec<T> own(static_cast<double>(point[k]));
      Vec<T> sum;
      for (int64_t j = 0; j < n; j += lanes)
        sum = vfma(norm.gradient(own - load(line + j), load(distance + from + j)),
                   load(weights + j), sum);
      sums[k] += hn::GetLane(hn::SumOfLanes(Tag<T>(), sum.v));
    }
  }
}

template <class T, class Run>
void with_norm(double p, Run&& run) {
  if (p == 0) return run(CountNorm<T>(p));
  if (p == 1) return run(AbsNorm<T>(p));
  if (p == 2) return run(EuclideanNorm<T>(p));
  // From 2^58 on the sum of powers has the root of the largest one, to the last digit of a double.
  if (p >= 0x1p58) return run(MaxNorm<T>(p));
  run(PowerNorm<T>(p));
}

void distances_f32(double p, const float* point, const Points<float>& others, int64_t count,
                   float* out) {
  with_norm<float>(p,
                   [&](const auto& norm) HWY_ATTR { distances(norm, point, others, count, out); });
}
void distances_f64(double p, const double* point, const Points<double>& others, int64_t count,
                   double* out) {
  with_norm<double>(p,
                    [&](const auto& norm) HWY_ATTR { distances(norm, point, others, count, out); });
}
void grads_f32(double p, const float* point, const Points<float>& others, int64_t count,
               const float* grad, const float* distance, float* sums) {
  with_norm<float>(p, [&](const auto& norm) HWY_ATTR {
    add_grads(norm, point, others, count, grad, distance, sums);
  });
}
void grads_f64(double p, const double* point, const Points<double>& others, int64_t count,
               const double* grad, const double* distance, double* sums) {
  with_norm<double>(p, [&](const auto& norm) HWY_ATTR {
    add_grads(norm, point, others, count, grad, distance, sums);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace moonlet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moonlet {
HWY_EXPORT(distances_f32);
HWY_EXPORT(distances_f64);
HWY_EXPORT(grads_f32);
HWY_EXPORT(grads_f64);
namespace cpu {

void distances_to(double p, const float* point, const Points<float>& others, int64_t count,
                  float* out) {
  HWY_DYNAMIC_DISPATCH(distances_f32)(p, point, others, count, out);
}
void distances_to(double p, const double* point, const Points<double>& others, int64_t count,
                  double* out) {
  HWY_DYNAMIC_DISPATCH(distances_f64)(p, point, others, count, out);
}
void add_distance_grads(double p, const float* point, const Points<float>& others, int64_t count,
                        const float* grad, const float* distance, float* sums) {
  HWY_DYNAMIC_DISPATCH(grads_f32)(p, point, others, count, grad, distance, sums);
}
void add_distance_grads(double p, const double* point, const Points<double>& others, int64_t count,
                        const double* grad, const double* distance, double* sums) {
  HWY_DYNAMIC_DISPATCH(grads_f64)(p, point, others, count, grad, distance, sums);
}

}  // namespace cpu
}  // namespace moonlet
#endif

// tensor/cpu/nn/loss_cross_entropy.cpp: the CPU kernels of the cross entropy of classes, which
// keeps no more of the softmax than the logarithm of its sum, and of its gradient, in one pass:
// along the rows when the classes lie side by side, across neighbouring columns otherwise.
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/pointwise/pointwise_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/nn/loss_cross_entropy.cpp"
#include <cmath>
#include <limits>
#include <vector>
#include "hwy/foreach_target.h"

#include "hwy/highway.h"
#include "tensor/cpu/common/contiguous.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/simd/each_vector-inl.h"
#include "tensor/cpu/simd/exp_sums-inl.h"
#include "tensor/cpu/simd/max_of_lanes-inl.h"

#ifndef MOONLET_TENSOR_CPU_LOSS_CROSS_ENTROPY_
#define MOONLET_TENSOR_CPU_LOSS_CROSS_ENTROPY_
namespace moonlet::cpu {

// The units [begin, end) of logits seen as (outer, n, inner), of which an entry is one of (outer,
// inner). Forward: `spread`, where given, is the sum over the classes of weight (sums - x).
// Backward: out = scale exp(x - sums) - every weight. A weight that is null is 1.
template <class T>
struct EntropyJob {
  const T *x, *weight;
  T *sums, *spread;
  const T *scale, *every;
  T* out;
  int64_t n, inner, begin, end;
};
}  // namespace moonlet::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace moonlet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using cpu::EntropyJob;

// Calls step(vector of x, index, how many of its lanes count) for whole vectors over n elements;
// those beyond the end are `fill`.
template <class T, class Step>
HWY_INLINE void each_whole_vector(const T* x, int64_t n, T fill, Step&& step) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), dense = n - n % lanes;
  each_vector<T>(dense, [&](auto, int64_t i) HWY_ATTR { step(hn::LoadU(d, x + i), i, lanes); });
  if (dense < n) step(load_part(x + dense, n - dense, fill), dense, n - dense);
}

// The weights of the classes from number i on, 0 beyond the last.
template <class T>
HWY_INLINE hn::Vec<hn::ScalableTag<T>> weights_at(const T* weight, int64_t i, int64_t count) {
  const hn::ScalableTag<T> d;
  const bool whole = count == static_cast<int64_t>(hn::Lanes(d));
  if (weight) return whole ? hn::LoadU(d, weight + i) : load_part(weight + i, count, T(0));
  if (whole) return hn::Set(d, T(1));
  return hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(count)), hn::Set(d, T(1)));
}

template <class T>
HWY_INLINE T top_of_row(const T* x, int64_t n) {
  const hn::ScalableTag<T> d;
  if (n > static_cast<int64_t>(hn::Lanes(d))) return row_max(x, n);
  return hn::GetLane(max_of_lanes(d, load_part(x, n, -std::numeric_limits<T>::infinity())));
}

template <class T>
void sums_of_row(const EntropyJob<T>& job, int64_t at, int64_t entry) {
  const hn::ScalableTag<T> d;
  const T *x = job.x + at, top = top_of_row(x, job.n);
  const bool spreads = job.spread != nullptr;
  Sum<T> sum, far, weights;
  each_whole_vector(x, job.n, -std::numeric_limits<T>::infinity(),
                    [&](hn::Vec<hn::ScalableTag<T>> v, int64_t i, int64_t count) HWY_ATTR {
                      const auto below = hn::Sub(v, hn::Set(d, top));
                      sum.add(d, exp_below(d, below));
                      if (!spreads) return;
                      const auto w = weights_at(job.weight, i, count);
                      // What is not there is infinitely far.
                      const auto there = hn::FirstN(d, static_cast<size_t>(count));
                      far.add(d, hn::IfThenElseZero(there, hn::Mul(below, w)));
                      weights.add(d, w);
                    });
  const T rest = std::log(sum.total());
  job.sums[entry] = top + rest;
  if (spreads) job.spread[entry] = rest * weights.total() - far.total();
}

template <class T>
void sums_of_tile(const EntropyJob<T>& job, int64_t at, int64_t entry, int64_t width) {
  const T* x = job.x + at;
  T top[kSoftmaxTile], sum[kSoftmaxTile], far[kSoftmaxTile];
  std::copy_n(x, width, top);
  std::fill_n(sum, width, T(0));
  std::fill_n(far, width, T(0));
  each_tile_row(1, job.n, [&](int64_t i) HWY_ATTR {
    each_vector<T>(width, [&](auto d, int64_t j) HWY_ATTR {
      hn::StoreU(hn::Max(hn::LoadU(d, top + j), hn::LoadU(d, x + i * job.inner + j)), d, top + j);
    });
  });
  T weights(0);
  each_tile_row(0, job.n, [&](int64_t i) HWY_ATTR {
    const T w = job.weight ? job.weight[i] : T(1);
    weights += w;
    each_vector<T>(width, [&](auto d, int64_t j) HWY_ATTR {
      const auto below = hn::Sub(hn::LoadU(d, x + i * job.inner + j), hn::LoadU(d, top + j));
      hn::StoreU(hn::Add(hn::LoadU(d, sum + j), exp_below(d, below)), d, sum + j);
      if (job.spread)
        hn::StoreU(hn::MulAdd(below, hn::Set(d, w), hn::LoadU(d, far + j)), d, far + j);
    });
  });
  for (int64_t j = 0; j < width; ++j) {
    const T rest = std::log(sum[j]);
    job.sums[entry + j] = top[j] + rest;
    if (job.spread) job.spread[entry + j] = rest * weights - far[j];
  }
}

template <class T>
void gradient_of_row(const EntropyJob<T>& job, int64_t at, int64_t entry) {
  const hn::ScalableTag<T> d;
  const auto sum = hn::Set(d, job.sums[entry]), scale = hn::Set(d, job.scale[entry]),
             every = hn::Set(d, job.every[entry]);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  T* out = job.out + at;
  each_whole_vector(job.x + at, job.n, T(0),
                    [&](hn::Vec<hn::ScalableTag<T>> v, int64_t i, int64_t count) HWY_ATTR {
                      const auto p = exp_below(d, hn::Sub(v, sum));
                      const auto base = hn::Mul(weights_at(job.weight, i, count), every);
                      const auto y = hn::MulSub(p, scale, base);
                      if (count == lanes)
                        hn::StoreU(y, d, out + i);
                      else
                        store_part(y, out + i, count);
                    });
}

template <class T>
void gradient_of_tile(const EntropyJob<T>& job, int64_t at, int64_t entry, int64_t width) {
  const T *sums = job.sums + entry, *scale = job.scale + entry, *every = job.every + entry;
  each_tile_row(0, job.n, [&](int64_t i) HWY_ATTR {
    const T* x = job.x + at + i * job.inner;
    T* out = job.out + at + i * job.inner;
    const T w = job.weight ? job.weight[i] : T(1);
    each_vector<T>(width, [&](auto d, int64_t j) HWY_ATTR {
      const auto p = exp_below(d, hn::Sub(hn::LoadU(d, x + j), hn::LoadU(d, sums + j)));
      const auto base = hn::Mul(hn::LoadU(d, every + j), hn::Set(d, w));
      hn::StoreU(hn::MulSub(p, hn::LoadU(d, scale + j), base), d, out + j);
    });
  });
}

template <class T>
void sums_of(const EntropyJob<T>& job) {
  each_unit(job, [&](int64_t at, int64_t entry, int64_t width) HWY_ATTR {
    job.inner == 1 ? sums_of_row(job, at, entry) : sums_of_tile(job, at, entry, width);
  });
}
template <class T>
void gradients_of(const EntropyJob<T>& job) {
  each_unit(job, [&](int64_t at, int64_t entry, int64_t width) HWY_ATTR {
    job.inner == 1 ? gradient_of_row(job, at, entry) : gradient_of_tile(job, at, entry, width);
  });
}

void sums_f32(const EntropyJob<float>& job) { sums_of(job); }
void sums_f64(const EntropyJob<double>& job) { sums_of(job); }
void gradients_f32(const EntropyJob<float>& job) { gradients_of(job); }
void gradients_f64(const EntropyJob<double>& job) { gradients_of(job); }

}  // namespace HWY_NAMESPACE
}  // namespace moonlet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moonlet {
HWY_EXPORT(sums_f32);
HWY_EXPORT(sums_f64);
HWY_EXPORT(gradients_f32);
HWY_EXPORT(gradients_f64);

namespace cpu {
namespace {

void run(bool backward, const EntropyJob<float>& job) {
  backward ? HWY_DYNAMIC_DISPATCH(gradients_f32)(job) : HWY_DYNAMIC_DISPATCH(sums_f32)(job);
}
void run(bool backward, const EntropyJob<double>& job) {
  backward ? HWY_DYNAMIC_DISPATCH(gradients_f64)(job) : HWY_DYNAMIC_DISPATCH(sums_f64)(job);
}

template <class T>
void run_units(bool backward, EntropyJob<T> job, int64_t outer) {
  constexpr int64_t kTile = thresholds::reduce::kSoftmaxTile;
  const int64_t tiles = (job.inner + kTile - 1) / kTile;
  parallel_for(outer * tiles, grain_for(job.n * std::min(job.inner, kTile) * 4),
               [&](int64_t begin, int64_t end) {
                 EntropyJob<T> part = job;
                 part.begin = begin, part.end = end;
                 run(backward, part);
               });
}

// The logits as (outer, classes, inner), and the class of each entry, -1 where it is ignored.
struct Entries {
  int64_t outer = 1, classes, inner = 1;
  std::vector<int64_t> at;
  Entries(const Tensor& x, const Tensor& target, int64_t ignore_index)
      : classes(x.size(x.dim() == 1 ? 0 : 1)) {
    if (x.dim() > 1) outer = x.size(0);
    for (int i = 2; i < x.dim(); ++i) inner *= x.size(i);
    const Tensor where = converted(target, DType::Int64);
    at.reserve(static_cast<size_t>(where.numel()));
    for (int64_t i = 0; i < where.numel(); ++i) {
      const int64_t value = where.elements<int64_t>()[i];
      check(value == ignore_index || (value >= 1 && value <= classes), "cross_entropy: target ",
            value, " is no class of 1 to ", classes);
      at.push_back(value == ignore_index ? -1 : value - 1);
    }
  }
  int64_t count() const { return static_cast<int64_t>(at.size()); }
};

template <class T>
const T* elements_or_null(const Tensor& x) {
  return x.defined() ? x.elements<T>() : nullptr;
}

}  // namespace

void native_cross_entropy(const Tensor& x, const Tensor& target, const Tensor& weight,
                          int64_t reduction, int64_t ignore_index, double label_smoothing,
                          Tensor& y, Tensor& logsumexp, Tensor& total_weight) {
  const Entries entries(x, target, ignore_index);
  const DType compute = compute_dtype(x.dtype());
  const Tensor source = converted(x, compute), weights = converted(weight, compute);
  Tensor sums = workspace(logsumexp, compute), each = workspace(y, compute);
  visit_compute<dtypes::floating>(compute, [&]<class T>() {
    std::vector<T> spread(label_smoothing > 0 ? entries.at.size() : 0);
    const T* w = elements_or_null<T>(weights);
    run_units<T>(
        false,
        {source.elements<T>(), w, sums.elements<T>(), spread.empty() ? nullptr : spread.data(),
         nullptr, nullptr, nullptr, entries.classes, entries.inner, 0, 0},
        entries.outer);
    const double share = label_smoothing / static_cast<double>(entries.classes);
    double sum = 0, total = 0;
    serial_for(entries.count(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t c = entries.at[static_cast<size_t>(i)];
        T loss(0);
        if (c >= 0) {
          const T factor = w ? w[c] : T(1);
          const int64_t inner = entries.inner;
          const T score =
              source.elements<T>()[(i / inner * entries.classes + c) * inner + i % inner];
          loss = factor * (sums.elements<T>()[i] - score);
          if (label_smoothing > 0)
            loss = static_cast<T>((1 - label_smoothing) * loss +
                                  share * spread[static_cast<size_t>(i)]);
          sum += loss;
          total += factor;
        }
        if (reduction == 0) each.elements<T>()[i] = loss;
      }
    });
    if (reduction != 0) *each.elements<T>() = static_cast<T>(reduction == 1 ? sum / total : sum);
    *total_weight.elements<T>() = static_cast<T>(total);
  });
  write_back(y, each), write_back(logsumexp, sums);
}

void cross_entropy_grad_x(const Tensor& grad, const Tensor& x, const Tensor& target,
                          const Tensor& weight, const Tensor& logsumexp, const Tensor& total_weight,
                          int64_t reduction, int64_t ignore_index, double label_smoothing,
                          Tensor& y) {
  if (x.numel() == 0) return;
  const Entries entries(x, target, ignore_index);
  const DType compute = compute_dtype(x.dtype());
  const Tensor source = converted(x, compute), weights = converted(weight, compute),
               gradient = converted(grad, compute), sums = converted(logsumexp, compute),
               all_weights = converted(total_weight, compute);
  Tensor out = workspace(y, compute);
  visit_compute<dtypes::floating>(compute, [&]<class T>() {
    const T* w = elements_or_null<T>(weights);
    const size_t count = entries.at.size();
    std::vector<T> scale(count), every(count), hit(count);
    double all = static_cast<double>(entries.classes);
    if (w) {
      all = 0;
      for (int64_t c = 0; c < entries.classes; ++c) all += w[c];
    }
    const double share = label_smoothing / static_cast<double>(entries.classes);
    const double parts = reduction == 1 ? static_cast<double>(*all_weights.elements<T>()) : 1;
    for (size_t i = 0; i < count; ++i) {
      if (entries.at[i] < 0) continue;
      const double g = gradient.elements<T>()[reduction == 0 ? i : 0] / parts;
      const double factor = (1 - label_smoothing) * (w ? w[entries.at[i]] : T(1));
      scale[i] = static_cast<T>(g * (factor + share * all));
      every[i] = static_cast<T>(g * share);
      hit[i] = static_cast<T>(g * factor);
    }
    run_units<T>(true,
                 {source.elements<T>(), w, sums.elements<T>(), nullptr, scale.data(), every.data(),
                  out.elements<T>(), entries.classes, entries.inner, 0, 0},
                 entries.outer);
    const int64_t inner = entries.inner;
    for (int64_t i = 0; i < entries.count(); ++i) {
      const int64_t c = entries.at[static_cast<size_t>(i)];
      if (c >= 0)
        out.elements<T>()[(i / inner * entries.classes + c) * inner + i % inner] -=
            hit[static_cast<size_t>(i)];
    }
  });
  write_back(y, out);
}

}  // namespace cpu
}  // namespace moonlet
#endif

// tensor/cpu/normalization.cpp: the CPU kernels of layer_norm and batch_norm and of their
// gradients. The loops over a run of elements are vectorised; both ops are built on them.
#include "tensor/cpu/pointwise_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/normalization.cpp"
#include <cmath>
#include "hwy/foreach_target.h"

#include "hwy/highway.h"
#include "tensor/cpu/contiguous.h"
#include "tensor/cpu/each_vector-inl.h"
#include "tensor/cpu/parallel.h"

#ifndef MOONLET_TENSOR_CPU_NORM_
#define MOONLET_TENSOR_CPU_NORM_
namespace moonlet::cpu {
// A run of n elements and what a loop over it needs; weight and bias may be null, and then are 1
// and 0. `scale`, `offset`: one weight and bias for the whole run, multiplied in as well.
template <class T>
struct Run {
  const T *x = nullptr, *grad = nullptr, *weight = nullptr, *bias = nullptr;
  T* out = nullptr;
  int64_t n = 0;
  T mean = 0, rstd = 1, scale = 1, offset = 0, m1 = 0, m2 = 0;
};
template <class T>
struct TwoSums {
  double first, second;
};
}  // namespace moonlet::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace moonlet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using cpu::Run;
using cpu::TwoSums;

// Sums of both values that step(tag, index, first, second) adds to, over [0, n): two vectors per
// sum, folded into double every block so that long runs stay exact.
template <class T, class Step>
HWY_INLINE TwoSums<T> sums(int64_t n, Step&& step) {
  constexpr int64_t kBlock = 4096;
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  TwoSums<T> total{0, 0};
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
TwoSums<T> moments(const Run<T>& r) {
  return sums<T>(r.n, [&](auto d, int64_t i, auto& a, auto& b) HWY_ATTR {
    const auto v = hn::Sub(hn::LoadU(d, r.x + i), hn::Set(d, r.mean));
    a = hn::Add(a, v);
    b = hn::MulAdd(v, v, b);
  });
}

// out = (x - mean) rstd scale weight + offset + bias
template <class T>
void apply(const Run<T>& r) {
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
TwoSums<T> gradient_sums(const Run<T>& r) {
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
void gradient(const Run<T>& r) {
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
void add_weight_gradient(const Run<T>& r) {
  each_vector<T>(r.n, [&](auto d, int64_t i) HWY_ATTR {
    const auto xh = hn::Mul(hn::Sub(hn::LoadU(d, r.x + i), hn::Set(d, r.mean)), hn::Set(d, r.rstd));
    hn::StoreU(hn::MulAdd(hn::LoadU(d, r.grad + i), xh, hn::LoadU(d, r.out + i)), d, r.out + i);
  });
}

#define MOONLET_NORM_LOOPS(T, suffix)                                             \
  TwoSums<T> moments_##suffix(const Run<T>& r) { return moments(r); }             \
  void apply_##suffix(const Run<T>& r) { apply(r); }                              \
  TwoSums<T> gradient_sums_##suffix(const Run<T>& r) { return gradient_sums(r); } \
  void gradient_##suffix(const Run<T>& r) { gradient(r); }                        \
  void add_weight_gradient_##suffix(const Run<T>& r) { add_weight_gradient(r); }
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
namespace {

template <class T>
struct Loops;
#define MOONLET_NORM_TABLE(T, suffix)                                                     \
  template <>                                                                             \
  struct Loops<T> {                                                                       \
    static TwoSums<T> moments(const Run<T>& r) {                                          \
      return HWY_DYNAMIC_DISPATCH(moments_##suffix)(r);                                   \
    }                                                                                     \
    static void apply(const Run<T>& r) { HWY_DYNAMIC_DISPATCH(apply_##suffix)(r); }       \
    static TwoSums<T> gradient_sums(const Run<T>& r) {                                    \
      return HWY_DYNAMIC_DISPATCH(gradient_sums_##suffix)(r);                             \
    }                                                                                     \
    static void gradient(const Run<T>& r) { HWY_DYNAMIC_DISPATCH(gradient_##suffix)(r); } \
    static void add_weight_gradient(const Run<T>& r) {                                    \
      HWY_DYNAMIC_DISPATCH(add_weight_gradient_##suffix)(r);                              \
    }                                                                                     \
  };
MOONLET_NORM_TABLE(float, f32)
MOONLET_NORM_TABLE(double, f64)

template <class T>
const T* data_or_null(const Tensor& t) {
  return t.defined() ? t.elements<T>() : nullptr;
}

int64_t last_product(const Tensor& x, int64_t dims) {
  int64_t n = 1;
  for (int64_t i = x.dim() - dims; i < x.dim(); ++i) n *= x.size(static_cast<int>(i));
  return n;
}

// x as (outer, channels, inner).
struct Channels {
  int64_t outer, channels, inner;
};
Channels channels_of(const Tensor& x) {
  Channels out{x.size(0), x.size(1), 1};
  for (int i = 2; i < x.dim(); ++i) out.inner *= x.size(i);
  return out;
}

// Calls body(offset of a run) for each of the channel's runs.
template <class Body>
void each_run(const Channels& c, int64_t channel, Body&& body) {
  serial_for(c.outer, c.inner, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) body((o * c.channels + channel) * c.inner);
  });
}

// For one channel: the mean, and the sum of squared differences from it.
template <class T>
TwoSums<T> channel_moments(const Channels& c, int64_t channel, const T* x) {
  const double count = static_cast<double>(c.outer * c.inner);
  double sum = 0, squares = 0, drift = 0;
  Run<T> r;
  r.n = c.inner;
  each_run(c, channel, [&](int64_t at) {
    r.x = x + at;
    sum += Loops<T>::moments(r).first;
  });
  r.mean = static_cast<T>(sum / count);
  each_run(c, channel, [&](int64_t at) {
    r.x = x + at;
    const auto m = Loops<T>::moments(r);
    drift += m.first;
    squares += m.second;
  });
  return {static_cast<double>(r.mean) + drift / count, squares - drift * drift / count};
}

// running += momentum (value - running), in whatever dtype and stride `running` has.
void update_running(const Tensor& running, int64_t i, double value, double momentum) {
  if (!running.defined()) return;
  visit<dtypes::floating>(running.dtype(), [&]<class T>() {
    using F = std::conditional_t<std::is_same_v<T, double>, double, float>;
    T& place = running.elements<T>()[i * running.stride(0)];
    const double old = static_cast<F>(place);
    place = static_cast<T>(static_cast<F>(old + momentum * (value - old)));
  });
}

}  // namespace

void native_layer_norm(const Tensor& x, const Dims& normalized_shape, const Tensor& weight,
                       const Tensor& bias, double eps, Tensor& y, Tensor& mean, Tensor& rstd) {
  const DType compute = compute_dtype(x.dtype());
  const Tensor source = converted(x, compute), w = converted(weight, compute),
               b = converted(bias, compute);
  Tensor out = workspace(y, compute), m = workspace(mean, compute), s = workspace(rstd, compute);
  const int64_t n = last_product(x, normalized_shape.size());
  visit_compute<dtypes::floating>(compute, [&]<class T>() {
    parallel_for(m.numel(), grain_for(n * 2), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        Run<T> r{source.elements<T>() + i * n, nullptr, data_or_null<T>(w), data_or_null<T>(b),
                 out.elements<T>() + i * n,    n};
        r.mean = static_cast<T>(Loops<T>::moments(r).first / static_cast<double>(n));
        r.rstd = static_cast<T>(
            1 / std::sqrt(Loops<T>::moments(r).second / static_cast<double>(n) + eps));
        Loops<T>::apply(r);
        m.elements<T>()[i] = r.mean;
        s.elements<T>()[i] = r.rstd;
      }
    });
  });
  write_back(y, out), write_back(mean, m), write_back(rstd, s);
}

void layer_norm_grad_x(const Tensor& grad, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                       const Tensor& weight, int64_t dims, double, Tensor& y) {
  const DType compute = compute_dtype(x.dtype());
  const Tensor g = converted(grad, compute), source = converted(x, compute),
               m = converted(mean, compute), s = converted(rstd, compute),
               w = converted(weight, compute);
  Tensor out = workspace(y, compute);
  const int64_t n = last_product(x, dims);
  visit_compute<dtypes::floating>(compute, [&]<class T>() {
    parallel_for(m.numel(), grain_for(n * 2), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        Run<T> r{source.elements<T>() + i * n, g.elements<T>() + i * n,
                 data_or_null<T>(w),           nullptr,
                 out.elements<T>() + i * n,    n,
                 m.elements<T>()[i],           s.elements<T>()[i]};
        const auto t = Loops<T>::gradient_sums(r);
        r.m1 = static_cast<T>(t.first / static_cast<double>(n));
        r.m2 = static_cast<T>(t.second / static_cast<double>(n));
        Loops<T>::gradient(r);
      }
    });
  });
  write_back(y, out);
}

// Rows are summed in fixed blocks, so the result does not depend on the number of threads.
void layer_norm_grad_weight(const Tensor& grad, const Tensor& x, const Tensor& mean,
                            const Tensor& rstd, int64_t dims, double, Tensor& y) {
  const DType compute = compute_dtype(x.dtype());
  const Tensor g = converted(grad, compute), source = converted(x, compute),
               m = converted(mean, compute), s = converted(rstd, compute);
  const int64_t n = last_product(x, dims), rows = m.numel();
  const int64_t block = std::max<int64_t>(16, (rows + 31) / 32);
  const int64_t blocks = std::max<int64_t>(1, (rows + block - 1) / block);
  Tensor out = workspace(y, compute), parts = empty_plain({blocks, n}, {compute, {}}, "layer_norm");
  visit_compute<dtypes::floating>(compute, [&]<class T>() {
    parallel_for(blocks, grain_for(block * n), [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        T* part = parts.elements<T>() + b * n;
        zero_bytes(part, n * static_cast<int64_t>(sizeof(T)));
        for (int64_t i = b * block; i < std::min(rows, (b + 1) * block); ++i)
          Loops<T>::add_weight_gradient({source.elements<T>() + i * n, g.elements<T>() + i * n,
                                         nullptr, nullptr, part, n, m.elements<T>()[i],
                                         s.elements<T>()[i]});
      }
    });
    serial_for(n, blocks, [&](int64_t begin, int64_t end) {
      std::copy(parts.elements<T>() + begin, parts.elements<T>() + end, out.elements<T>() + begin);
      for (int64_t b = 1; b < blocks; ++b)
        for (int64_t j = begin; j < end; ++j)
          out.elements<T>()[j] += parts.elements<T>()[b * n + j];
    });
  });
  write_back(y, out);
}

void native_batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const Tensor& running_mean, const Tensor& running_var, double momentum,
                       double eps, Tensor& y, Tensor& mean, Tensor& rstd) {
  const DType compute = compute_dtype(x.dtype());
  const Tensor source = converted(x, compute), w = converted(weight, compute),
               b = converted(bias, compute);
  Tensor out = workspace(y, compute), m = workspace(mean, compute), s = workspace(rstd, compute);
  const Channels c = channels_of(x);
  const double count = static_cast<double>(c.outer * c.inner);
  if (count == 0) return;
  visit_compute<dtypes::floating>(compute, [&]<class T>() {
    parallel_for(c.channels, grain_for(c.outer * c.inner * 2), [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        const auto t = channel_moments(c, k, source.elements<T>());
        Run<T> r;
        r.n = c.inner;
        r.mean = m.elements<T>()[k] = static_cast<T>(t.first);
        r.rstd = s.elements<T>()[k] = static_cast<T>(1 / std::sqrt(t.second / count + eps));
        if (w.defined()) r.scale = w.elements<T>()[k];
        if (b.defined()) r.offset = b.elements<T>()[k];
        update_running(running_mean, k, t.first, momentum);
        update_running(running_var, k, t.second / (count - 1), momentum);
        each_run(c, k, [&](int64_t at) {
          r.x = source.elements<T>() + at;
          r.out = out.elements<T>() + at;
          Loops<T>::apply(r);
        });
      }
    });
  });
  write_back(y, out), write_back(mean, m), write_back(rstd, s);
}

namespace {
// Calls body(channel, run, sums of the channel) with the gradient's sums over each channel.
template <class T, class Body>
void channel_gradients(const Channels& c, const Tensor& g, const Tensor& x, const Tensor& m,
                       const Tensor& s, const Tensor& w, Body&& body) {
  parallel_for(c.channels, grain_for(c.outer * c.inner * 2), [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      Run<T> r;
      r.n = c.inner, r.mean = m.elements<T>()[k], r.rstd = s.elements<T>()[k];
      if (w.defined()) r.scale = w.elements<T>()[k];
      TwoSums<T> total{0, 0};
      each_run(c, k, [&](int64_t at) {
        r.x = x.elements<T>() + at, r.grad = g.elements<T>() + at;
        const auto t = Loops<T>::gradient_sums(r);
        total.first += t.first, total.second += t.second;
      });
      body(k, r, total);
    }
  });
}
}  // namespace

void batch_norm_grad_x(const Tensor& grad, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                       const Tensor& weight, double, Tensor& y) {
  const DType compute = compute_dtype(x.dtype());
  const Tensor g = converted(grad, compute), source = converted(x, compute),
               m = converted(mean, compute), s = converted(rstd, compute),
               w = converted(weight, compute);
  Tensor out = workspace(y, compute);
  const Channels c = channels_of(x);
  const double count = static_cast<double>(c.outer * c.inner);
  visit_compute<dtypes::floating>(compute, [&]<class T>() {
    channel_gradients<T>(c, g, source, m, s, w, [&](int64_t k, Run<T>& r, TwoSums<T> total) {
      r.m1 = static_cast<T>(total.first / count);
      r.m2 = static_cast<T>(total.second / count);
      each_run(c, k, [&](int64_t at) {
        r.x = source.elements<T>() + at, r.grad = g.elements<T>() + at,
        r.out = out.elements<T>() + at;
        Loops<T>::gradient(r);
      });
    });
  });
  write_back(y, out);
}

void batch_norm_grad_weight(const Tensor& grad, const Tensor& x, const Tensor& mean,
                            const Tensor& rstd, double, Tensor& y) {
  const DType compute = compute_dtype(x.dtype());
  const Tensor g = converted(grad, compute), source = converted(x, compute),
               m = converted(mean, compute), s = converted(rstd, compute);
  Tensor out = workspace(y, compute);
  visit_compute<dtypes::floating>(compute, [&]<class T>() {
    channel_gradients<T>(channels_of(x), g, source, m, s, {},
                         [&](int64_t k, Run<T>&, TwoSums<T> total) {
                           out.elements<T>()[k] = static_cast<T>(total.second);
                         });
  });
  write_back(y, out);
}

}  // namespace cpu
}  // namespace moonlet
#endif

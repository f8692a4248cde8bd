// tensor/cpu/normalization.cpp: the CPU kernels of layer_norm and batch_norm and of their
// gradients.
#include "tensor/cpu/normalization.h"

#include <cmath>

#include "tensor/cpu/contiguous.h"
#include "tensor/cpu/parallel.h"
#include "tensor/kernels_normalization.h"

namespace moonlet::cpu {
namespace {

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
NormSums channel_moments(const Channels& c, int64_t channel, const T* x) {
  const double count = static_cast<double>(c.outer * c.inner);
  double sum = 0, squares = 0, drift = 0;
  NormRun<T> r;
  r.n = c.inner;
  each_run(c, channel, [&](int64_t at) {
    r.x = x + at;
    sum += NormLoops<T>::moments(r).first;
  });
  r.mean = static_cast<T>(sum / count);
  each_run(c, channel, [&](int64_t at) {
    r.x = x + at;
    const auto m = NormLoops<T>::moments(r);
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
        NormRun<T> r{source.elements<T>() + i * n, nullptr, data_or_null<T>(w), data_or_null<T>(b),
                     out.elements<T>() + i * n,    n};
        r.mean = static_cast<T>(NormLoops<T>::moments(r).first / static_cast<double>(n));
        r.rstd = static_cast<T>(
            1 / std::sqrt(NormLoops<T>::moments(r).second / static_cast<double>(n) + eps));
        NormLoops<T>::apply(r);
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
        NormRun<T> r{source.elements<T>() + i * n, g.elements<T>() + i * n,
                     data_or_null<T>(w),           nullptr,
                     out.elements<T>() + i * n,    n,
                     m.elements<T>()[i],           s.elements<T>()[i]};
        const auto t = NormLoops<T>::gradient_sums(r);
        r.m1 = static_cast<T>(t.first / static_cast<double>(n));
        r.m2 = static_cast<T>(t.second / static_cast<double>(n));
        NormLoops<T>::gradient(r);
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
          NormLoops<T>::add_weight_gradient({source.elements<T>() + i * n, g.elements<T>() + i * n,
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
        NormRun<T> r;
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
          NormLoops<T>::apply(r);
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
      NormRun<T> r;
      r.n = c.inner, r.mean = m.elements<T>()[k], r.rstd = s.elements<T>()[k];
      if (w.defined()) r.scale = w.elements<T>()[k];
      NormSums total{0, 0};
      each_run(c, k, [&](int64_t at) {
        r.x = x.elements<T>() + at, r.grad = g.elements<T>() + at;
        const auto t = NormLoops<T>::gradient_sums(r);
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
    channel_gradients<T>(c, g, source, m, s, w, [&](int64_t k, NormRun<T>& r, NormSums total) {
      r.m1 = static_cast<T>(total.first / count);
      r.m2 = static_cast<T>(total.second / count);
      each_run(c, k, [&](int64_t at) {
        r.x = source.elements<T>() + at, r.grad = g.elements<T>() + at,
        r.out = out.elements<T>() + at;
        NormLoops<T>::gradient(r);
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
                         [&](int64_t k, NormRun<T>&, NormSums total) {
                           out.elements<T>()[k] = static_cast<T>(total.second);
                         });
  });
  write_back(y, out);
}

}  // namespace moonlet::cpu

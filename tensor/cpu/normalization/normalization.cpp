// tensor/cpu/normalization/normalization.cpp: the CPU kernels of layer_norm, rms_norm and
// batch_norm and of their gradients.
#include "tensor/cpu/normalization/normalization.h"

#include <cmath>
#include <vector>

#include "tensor/cpu/common/thresholds.h"
#include "tensor/kernels_normalization.h"

namespace moonlet::cpu {
namespace {

int64_t last_product(const Tensor& x, int64_t dims) {
  int64_t n = 1;
  for (int64_t i = x.dim() - dims; i < x.dim(); ++i) n *= x.size(static_cast<int>(i));
  return n;
}

// Calls body(offset of a run) for each of the channel's runs.
template <class Body>
void each_run(const Channels& c, int64_t channel, Body&& body) {
  serial_for(c.outer, c.inner, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) body((o * c.channels + channel) * c.inner);
  });
}

// The mean, with its rest, and the squared distances of one channel.
template <class T, class E>
Spread channel_spread(const Channels& c, int64_t channel, RunReader<E>& x, double eps) {
  const double count = static_cast<double>(c.outer * c.inner);
  NormRun<T, E> r;
  r.n = c.inner;
  if (c.outer == 1) {
    r.x = x.at(channel * c.inner);
    return spread_of(r, eps);
  }
  double sum = 0, squares = 0, drift = 0;
  each_run(c, channel, [&](int64_t at) {
    r.x = x.at(at);
    sum += NormLoops<T, E>::moments(r).first;
  });
  r.mean = static_cast<T>(sum / count);
  each_run(c, channel, [&](int64_t at) {
    r.x = x.at(at);
    const auto m = NormLoops<T, E>::moments(r);
    drift += m.first;
    squares += m.second;
  });
  squares -= drift * drift / count;
  if (squares < 0) squares = 0;
  if (!left_range<T>(squares, count, eps))
    return {static_cast<double>(r.mean), drift / count, squares};
  return spread_in_double<T, E>(count, true, [&](auto&& visit) {
    each_run(c, channel, [&](int64_t at) { visit(x.at(at), c.inner); });
  });
}

// Gives a run what `gradient` subtracts; what is not centred has no mean of the gradient alone.
template <class T, class E>
void set_gradient_means(NormRun<T, E>& r, bool centred) {
  const NormSums t = NormLoops<T, E>::gradient_sums(r);
  r.m1 = centred ? static_cast<T>(t.first / static_cast<double>(r.n)) : T(0);
  r.m2 = static_cast<T>(t.second / static_cast<double>(r.n));
}

}  // namespace

void store_values(const std::vector<double>& values, Tensor& y) {
  Tensor out = workspace(y, compute_dtype(y.dtype()));
  visit_compute<dtypes::floating>(out.dtype(), [&]<class T>() {
    std::transform(values.begin(), values.end(), out.elements<T>(),
                   [](double v) { return static_cast<T>(v); });
  });
  write_back(y, out);
}

void update_running(const Tensor& running, int64_t i, double value, double momentum) {
  if (!running.defined()) return;
  visit<dtypes::floating>(running.dtype(), [&]<class T>() {
    using F = std::conditional_t<std::is_same_v<T, double>, double, float>;
    T& position = running.elements<T>()[i * running.stride(0)];
    const double old = static_cast<F>(position);
    position = static_cast<T>(static_cast<F>(old + momentum * (value - old)));
  });
}

namespace {

// Of the last `dims` dimensions; without `mean`, which is then taken for 0, those of rms_norm.
void normalise_rows(const Tensor& x, int64_t dims, const Tensor& weight, const Tensor& bias,
                    double eps, Tensor& y, Tensor* mean, Tensor& rstd) {
  const DType compute = compute_dtype(x.dtype());
  const int64_t n = last_product(x, dims);
  const Tensor w = converted(weight, compute), b = converted(bias, compute);
  Tensor m = mean ? workspace(*mean, kStatistics) : Tensor(), s = workspace(rstd, kStatistics);
  visit_runs(x, {&y}, [&]<class T, class E>() {
    const Tensor source = runs_of(x, dtype_of<E>, n);
    Tensor out = room_for_runs(y, dtype_of<E>, n);
    parallel_for(s.numel(), grain_for(n * 2), [&](int64_t begin, int64_t end) {
      RunReader<E> from(source, n);
      RunWriter<E> to(out, n);
      for (int64_t i = begin; i < end; ++i) {
        NormRun<T, E> r{from.at(i * n),     nullptr,      data_or_null<T>(w),
                        data_or_null<T>(b), to.at(i * n), n};
        set_statistics(r, eps, mean != nullptr);
        NormLoops<T, E>::apply(r);
        to.done(i * n);
        if (mean) m.elements<double>()[i] = r.exact_mean;
        s.elements<double>()[i] = r.exact_rstd;
      }
    });
    write_back(y, out);
  });
  if (mean) write_back(*mean, m);
  write_back(rstd, s);
}

void row_gradients_of_x(const Tensor& grad, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                        const Tensor& weight, int64_t dims, Tensor& y) {
  const DType compute = compute_dtype(x.dtype());
  const int64_t n = last_product(x, dims);
  const Tensor m = converted(mean, kStatistics), s = converted(rstd, kStatistics),
               w = converted(weight, compute);
  visit_runs(x, {&grad, &y}, [&]<class T, class E>() {
    const Tensor g = runs_of(grad, dtype_of<E>, n), source = runs_of(x, dtype_of<E>, n);
    Tensor out = room_for_runs(y, dtype_of<E>, n);
    parallel_for(s.numel(), grain_for(n * 2), [&](int64_t begin, int64_t end) {
      RunReader<E> from(source, n), gradient(g, n);
      RunWriter<E> to(out, n);
      for (int64_t i = begin; i < end; ++i) {
        NormRun<T, E> r{from.at(i * n), gradient.at(i * n), data_or_null<T>(w),
                        nullptr,        to.at(i * n),       n};
        set_center(r, m, s, i, n);
        set_gradient_means(r, m.defined());
        NormLoops<T, E>::gradient(r);
        to.done(i * n);
      }
    });
    write_back(y, out);
  });
}

}  // namespace

void native_layer_norm(const Tensor& x, const Dims& normalized_shape, const Tensor& weight,
                       const Tensor& bias, double eps, Tensor& y, Tensor& mean, Tensor& rstd) {
  normalise_rows(x, normalized_shape.size(), weight, bias, eps, y, &mean, rstd);
}

void native_rms_norm(const Tensor& x, const Dims& normalized_shape, const Tensor& weight,
                     double eps, Tensor& y, Tensor& rstd) {
  normalise_rows(x, normalized_shape.size(), weight, Tensor(), eps, y, nullptr, rstd);
}

void layer_norm_grad_x(const Tensor& grad, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                       const Tensor& weight, int64_t dims, double, Tensor& y) {
  row_gradients_of_x(grad, x, mean, rstd, weight, dims, y);
}

void rms_norm_grad_x(const Tensor& grad, const Tensor& x, const Tensor& rstd, const Tensor& weight,
                     int64_t dims, double, Tensor& y) {
  row_gradients_of_x(grad, x, Tensor(), rstd, weight, dims, y);
}

namespace {

// The rows of x, n elements each, in fixed blocks, so that sums over them do not depend on the
// number of threads: in small ones where there are few rows, so that threads share them, but not so
// small that the sums of the blocks are more to read than the rows.
struct RowBlocks {
  int64_t rows, size, count;
  RowBlocks(int64_t all, int64_t n)
      : rows(all),
        size(std::max<int64_t>(n > kGrain / 4 ? 16 : 4, (all + 31) / 32)),
        count(std::max<int64_t>(1, (all + size - 1) / size)) {}
};

// For each block the gradients of the weight and of the bias, n each, in a row of the result.
// visitor() gives each thread a visit(row's run, its number), which is called for each row while it
// is in the cache.
template <class T, class E, class Visitor>
Tensor gradients_of_blocks(const RowBlocks& blocks, int64_t n, const Tensor& grad, const Tensor& x,
                           const Tensor& mean, const Tensor& rstd, Visitor&& visitor) {
  constexpr int64_t kFewRows = thresholds::normalization::kFewRows;
  const int64_t bytes = 2 * n * static_cast<int64_t>(sizeof(T));
  const Tensor g = runs_of(grad, dtype_of<E>, n), source = runs_of(x, dtype_of<E>, n);
  Tensor parts = empty_plain({blocks.count, 2 * n}, {dtype_of<T>, {}}, "layer_norm");
  parallel_for(blocks.count, grain_for(blocks.size * n * 2), [&](int64_t begin, int64_t end) {
    RunReader<E> from(source, n), gradient(g, n);
    auto visit = visitor();
    std::vector<T> few(blocks.size > kFewRows ? static_cast<size_t>(2 * n) : 0);
    for (int64_t b = begin; b < end; ++b) {
      T* const part = parts.elements<T>() + b * 2 * n;
      T* const sums = few.empty() ? part : few.data();
      zero_bytes(part, bytes);
      const int64_t last = std::min(blocks.rows, (b + 1) * blocks.size);
      for (int64_t row = b * blocks.size; row < last; row += kFewRows) {
        zero_bytes(sums, bytes);
        for (int64_t i = row; i < std::min(last, row + kFewRows); ++i) {
          stop_if_requested();
          NormRun<T, E> r{from.at(i * n), gradient.at(i * n), nullptr, nullptr, nullptr, n};
          set_center(r, mean, rstd, i, n);
          NormLoops<T, E>::add_gradients(r, sums, sums + n);
          visit(r, i);
        }
        for (size_t j = 0; j < few.size(); ++j) part[j] += few[j];
      }
    }
  });
  return parts;
}

// The sum of all rows of `parts`, from element `first` on.
template <class T>
void sum_blocks(const Tensor& parts, int64_t first, Tensor& y) {
  const int64_t blocks = parts.size(0), width = parts.size(1);
  Tensor out = workspace(y, dtype_of<T>);
  const T* from = parts.elements<T>() + first;
  serial_for(out.numel(), blocks, [&](int64_t begin, int64_t end) {
    std::copy(from + begin, from + end, out.elements<T>() + begin);
    for (int64_t b = 1; b < blocks; ++b)
      for (int64_t j = begin; j < end; ++j) out.elements<T>()[j] += from[b * width + j];
  });
  write_back(y, out);
}

}  // namespace

void layer_norm_grad_weight(const Tensor& grad, const Tensor& x, const Tensor& mean,
                            const Tensor& rstd, int64_t dims, double, Tensor& y) {
  const int64_t n = last_product(x, dims);
  const Tensor m = converted(mean, kStatistics), s = converted(rstd, kStatistics);
  visit_runs(x, {&grad}, [&]<class T, class E>() {
    const Tensor parts = gradients_of_blocks<T, E>(RowBlocks(s.numel(), n), n, grad, x, m, s,
                                                   [] { return [](NormRun<T, E>&, int64_t) {}; });
    sum_blocks<T>(parts, 0, y);
  });
}

void rms_norm_grad_weight(const Tensor& grad, const Tensor& x, const Tensor& rstd, int64_t dims,
                          double eps, Tensor& y) {
  layer_norm_grad_weight(grad, x, Tensor(), rstd, dims, eps, y);
}

namespace {
// All of them; without `mean` those of rms_norm, whose bias has none.
void row_gradients(const Tensor& grad, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                   const Tensor& weight, int64_t dims, Tensor& grad_x, Tensor& grad_weight,
                   Tensor* grad_bias) {
  const DType compute = compute_dtype(x.dtype());
  const int64_t n = last_product(x, dims);
  const Tensor m = converted(mean, kStatistics), s = converted(rstd, kStatistics),
               w = converted(weight, compute);
  visit_runs(x, {&grad, &grad_x}, [&]<class T, class E>() {
    Tensor out = room_for_runs(grad_x, dtype_of<E>, n);
    const auto visitor = [&] {
      return [&, to = RunWriter<E>(out, n)](NormRun<T, E>& r, int64_t i) mutable {
        r.weight = data_or_null<T>(w), r.out = to.at(i * n);
        set_gradient_means(r, m.defined());
        NormLoops<T, E>::gradient(r);
        to.done(i * n);
      };
    };
    const Tensor parts =
        gradients_of_blocks<T, E>(RowBlocks(s.numel(), n), n, grad, x, m, s, visitor);
    write_back(grad_x, out);
    sum_blocks<T>(parts, 0, grad_weight);
    if (grad_bias) sum_blocks<T>(parts, n, *grad_bias);
  });
}
}  // namespace

void layer_norm_grads(const Tensor& grad, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                      const Tensor& weight, int64_t dims, Tensor& grad_x, Tensor& grad_weight,
                      Tensor& grad_bias) {
  row_gradients(grad, x, mean, rstd, weight, dims, grad_x, grad_weight, &grad_bias);
}

void rms_norm_grads(const Tensor& grad, const Tensor& x, const Tensor& rstd, const Tensor& weight,
                    int64_t dims, Tensor& grad_x, Tensor& grad_weight) {
  row_gradients(grad, x, Tensor(), rstd, weight, dims, grad_x, grad_weight, nullptr);
}

void native_batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const Tensor& running_mean, const Tensor& running_var, double momentum,
                       double eps, Tensor& y, Tensor& mean, Tensor& rstd) {
  if (normalizes_columns(x) &&
      batch_norm_columns(x, weight, bias, running_mean, running_var, momentum, eps, y, mean, rstd))
    return;
  const DType compute = compute_dtype(x.dtype());
  const Channels c = channels_of(x);
  const Tensor w = converted(weight, compute), b = converted(bias, compute);
  Tensor m = workspace(mean, kStatistics), s = workspace(rstd, kStatistics);
  const double count = static_cast<double>(c.outer * c.inner);
  if (count == 0) return;
  visit_runs(x, {&y}, [&]<class T, class E>() {
    const Tensor source = runs_of(x, dtype_of<E>, c.inner);
    Tensor out = room_for_runs(y, dtype_of<E>, c.inner);
    parallel_for(c.channels, grain_for(c.outer * c.inner * 2), [&](int64_t begin, int64_t end) {
      RunReader<E> from(source, c.inner);
      RunWriter<E> to(out, c.inner);
      for (int64_t k = begin; k < end; ++k) {
        const Spread t = channel_spread<T>(c, k, from, eps);
        NormRun<T, E> r;
        r.n = c.inner;
        set_center(r, t.mean, t.rest, t.rstd(count, eps), c.outer * c.inner);
        m.elements<double>()[k] = t.mean + t.rest;
        s.elements<double>()[k] = r.exact_rstd;
        if (w.defined()) r.scale = w.elements<T>()[k];
        if (b.defined()) r.offset = b.elements<T>()[k];
        update_running(running_mean, k, t.mean + t.rest, momentum);
        update_running(running_var, k, t.variance(count - 1), momentum);
        each_run(c, k, [&](int64_t at) {
          r.x = from.at(at), r.out = to.at(at);
          NormLoops<T, E>::apply(r);
          to.done(at);
        });
      }
    });
    write_back(y, out);
  });
  write_back(mean, m), write_back(rstd, s);
}

namespace {
// Calls body(channel, run, its readers, sums of the channel) with the gradient's sums over each.
template <class T, class E, class Body>
void channel_gradients(const Channels& c, const Tensor& g, const Tensor& x, const Tensor& m,
                       const Tensor& s, Body&& body) {
  parallel_for(c.channels, grain_for(c.outer * c.inner * 2), [&](int64_t begin, int64_t end) {
    RunReader<E> from(x, c.inner), gradient(g, c.inner);
    for (int64_t k = begin; k < end; ++k) {
      NormRun<T, E> r;
      r.n = c.inner;
      set_center(r, m, s, k, c.outer * c.inner);
      NormSums total{0, 0};
      each_run(c, k, [&](int64_t at) {
        r.x = from.at(at), r.grad = gradient.at(at);
        const auto t = NormLoops<T, E>::gradient_sums(r);
        total.first += t.first, total.second += t.second;
      });
      body(k, r, from, gradient, total);
    }
  });
}
}  // namespace

namespace {
// The gradient of x, and those of the weight and the bias where the pointers are not null.
void batch_norm_backward(const Tensor& grad, const Tensor& x, const Tensor& mean,
                         const Tensor& rstd, const Tensor& weight, Tensor& y, Tensor* grad_weight,
                         Tensor* grad_bias) {
  if (normalizes_columns(x) &&
      batch_norm_columns_grads(grad, x, mean, rstd, weight, y, grad_weight, grad_bias))
    return;
  const DType compute = compute_dtype(x.dtype());
  const Channels c = channels_of(x);
  const Tensor m = converted(mean, kStatistics), s = converted(rstd, kStatistics),
               w = converted(weight, compute);
  std::vector<double> biases(static_cast<size_t>(c.channels)), weights = biases;
  const double count = static_cast<double>(c.outer * c.inner);
  visit_runs(x, {&grad, &y}, [&]<class T, class E>() {
    const Tensor g = runs_of(grad, dtype_of<E>, c.inner), source = runs_of(x, dtype_of<E>, c.inner);
    Tensor out = room_for_runs(y, dtype_of<E>, c.inner);
    channel_gradients<T, E>(c, g, source, m, s,
                            [&](int64_t k, NormRun<T, E>& r, RunReader<E>& from,
                                RunReader<E>& gradient, NormSums total) {
                              biases[static_cast<size_t>(k)] = total.first;
                              weights[static_cast<size_t>(k)] = total.second;
                              RunWriter<E> to(out, c.inner);
                              if (w.defined()) r.scale = w.elements<T>()[k];
                              r.m1 = static_cast<T>(r.scale * total.first / count);
                              r.m2 = static_cast<T>(r.scale * total.second / count);
                              each_run(c, k, [&](int64_t at) {
                                r.x = from.at(at), r.grad = gradient.at(at), r.out = to.at(at);
                                NormLoops<T, E>::gradient(r);
                                to.done(at);
                              });
                            });
    write_back(y, out);
  });
  if (grad_weight) store_values(weights, *grad_weight);
  if (grad_bias) store_values(biases, *grad_bias);
}
}  // namespace

void batch_norm_grad_x(const Tensor& grad, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                       const Tensor& weight, double, Tensor& y) {
  batch_norm_backward(grad, x, mean, rstd, weight, y, nullptr, nullptr);
}

void batch_norm_grads(const Tensor& grad, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                      const Tensor& weight, Tensor& grad_x, Tensor& grad_weight,
                      Tensor& grad_bias) {
  batch_norm_backward(grad, x, mean, rstd, weight, grad_x, &grad_weight, &grad_bias);
}

void batch_norm_grad_weight(const Tensor& grad, const Tensor& x, const Tensor& mean,
                            const Tensor& rstd, double, Tensor& y) {
  if (normalizes_columns(x) && batch_norm_columns_grad_weight(grad, x, mean, rstd, y)) return;
  const DType compute = compute_dtype(x.dtype());
  const Channels c = channels_of(x);
  const Tensor m = converted(mean, kStatistics), s = converted(rstd, kStatistics);
  Tensor out = workspace(y, compute);
  visit_runs(x, {&grad}, [&]<class T, class E>() {
    const Tensor g = runs_of(grad, dtype_of<E>, c.inner), source = runs_of(x, dtype_of<E>, c.inner);
    channel_gradients<T, E>(
        c, g, source, m, s,
        [&](int64_t k, NormRun<T, E>&, RunReader<E>&, RunReader<E>&, NormSums total) {
          out.elements<T>()[k] = static_cast<T>(total.second);
        });
  });
  write_back(y, out);
}

}  // namespace moonlet::cpu

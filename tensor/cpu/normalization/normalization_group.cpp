// tensor/cpu/normalization/normalization_group.cpp: the CPU kernels of group_norm and of its
// gradients.
#include <algorithm>
#include <vector>

#include "tensor/cpu/normalization/normalization.h"
#include "tensor/kernels_normalization.h"

namespace moonlet::cpu {
namespace {

// x (n, c, ...) in groups: `count` in each entry, of so many channels and elements.
struct Groups {
  Channels all;
  int64_t count, channels, size;
  int64_t total() const { return all.outer * count; }
};

Groups groups_of(const Tensor& x, int64_t count) {
  const Channels all = channels_of(x);
  const int64_t channels = all.channels / count;
  return {all, count, channels, channels * all.inner};
}

// Calls body(run) for parts of a group's run that have one weight and bias each, or for all of it.
template <class T, class E, class Body>
void each_channel(const Groups& groups, int64_t group, NormRun<T, E> r, const T* weight,
                  const T* bias, Body&& body) {
  const int64_t first = group % groups.count * groups.channels, inner = groups.all.inner;
  if (inner == 1 || (!weight && !bias)) {
    r.weight = weight ? weight + first : nullptr;
    r.bias = bias ? bias + first : nullptr;
    return body(r);
  }
  r.n = inner;
  serial_for(groups.channels, inner, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      if (weight) r.scale = weight[first + k];
      if (bias) r.offset = bias[first + k];
      body(r);
      r.x += inner, r.out += inner;
      if (r.grad) r.grad += inner;
    }
  });
}

}  // namespace

void native_group_norm(const Tensor& x, int64_t num_groups, const Tensor& weight,
                       const Tensor& bias, double eps, Tensor& y, Tensor& mean, Tensor& rstd) {
  const DType compute = compute_dtype(x.dtype());
  const Groups groups = groups_of(x, num_groups);
  const int64_t n = groups.size;
  const Tensor w = converted(weight, compute), b = converted(bias, compute);
  Tensor m = workspace(mean, kStatistics), s = workspace(rstd, kStatistics);
  visit_runs(x, {&y}, [&]<class T, class E>() {
    const Tensor source = runs_of(x, dtype_of<E>, n);
    Tensor out = room_for_runs(y, dtype_of<E>, n);
    parallel_for(groups.total(), grain_for(n * 2), [&](int64_t begin, int64_t end) {
      RunReader<E> from(source, n);
      RunWriter<E> to(out, n);
      for (int64_t i = begin; i < end; ++i) {
        NormRun<T, E> r{from.at(i * n), nullptr, nullptr, nullptr, to.at(i * n), n};
        set_statistics(r, eps, true);
        each_channel(groups, i, r, data_or_null<T>(w), data_or_null<T>(b), NormLoops<T, E>::apply);
        to.done(i * n);
        m.elements<double>()[i] = r.exact_mean;
        s.elements<double>()[i] = r.exact_rstd;
      }
    });
    write_back(y, out);
  });
  write_back(mean, m), write_back(rstd, s);
}

void group_norm_grad_x(const Tensor& grad, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                       const Tensor& weight, int64_t num_groups, double, Tensor& y) {
  if (x.numel() == 0) return;
  const DType compute = compute_dtype(x.dtype());
  const Groups groups = groups_of(x, num_groups);
  const int64_t n = groups.size;
  const Tensor m = converted(mean, kStatistics), s = converted(rstd, kStatistics),
               w = converted(weight, compute);
  visit_runs(x, {&grad, &y}, [&]<class T, class E>() {
    const Tensor g = runs_of(grad, dtype_of<E>, n), source = runs_of(x, dtype_of<E>, n);
    Tensor out = room_for_runs(y, dtype_of<E>, n);
    parallel_for(groups.total(), grain_for(n * 2), [&](int64_t begin, int64_t end) {
      RunReader<E> from(source, n), gradient(g, n);
      RunWriter<E> to(out, n);
      for (int64_t i = begin; i < end; ++i) {
        NormRun<T, E> r{from.at(i * n), gradient.at(i * n), nullptr, nullptr, to.at(i * n), n};
        set_center(r, m, s, i, n);
        const T *scale = data_or_null<T>(w), *none = nullptr;
        NormSums total{0, 0};
        each_channel(groups, i, r, scale, none, [&](const NormRun<T, E>& part) {
          const NormSums t = NormLoops<T, E>::gradient_sums(part);
          total.first += t.first, total.second += t.second;
        });
        r.m1 = static_cast<T>(total.first / static_cast<double>(n));
        r.m2 = static_cast<T>(total.second / static_cast<double>(n));
        each_channel(groups, i, r, scale, none, NormLoops<T, E>::gradient);
        to.done(i * n);
      }
    });
    write_back(y, out);
  });
}

namespace {

// Adds each channel's gradient of the weight in an entry of x to `sums`.
template <class T, class E>
void add_weight_sums(const Groups& groups, int64_t entry, const Tensor& m, const Tensor& s,
                     RunReader<E>& from, RunReader<E>& gradient, double* sums) {
  const Channels c = groups.all;
  for (int64_t k = 0; k < c.channels; ++k) {
    const int64_t at = (entry * c.channels + k) * c.inner;
    const int64_t group = entry * groups.count + k / groups.channels;
    NormRun<T, E> r{from.at(at), gradient.at(at), nullptr, nullptr, nullptr, c.inner};
    set_center(r, m, s, group, groups.size);
    sums[k] += NormLoops<T, E>::gradient_sums(r).second;
  }
}

}  // namespace

// Entries are summed in fixed blocks, so the result does not depend on the number of threads.
void group_norm_grad_weight(const Tensor& grad, const Tensor& x, const Tensor& mean,
                            const Tensor& rstd, int64_t num_groups, double, Tensor& y) {
  const DType compute = compute_dtype(x.dtype());
  const Groups groups = groups_of(x, num_groups);
  const Channels c = groups.all;
  const Tensor m = converted(mean, kStatistics), s = converted(rstd, kStatistics);
  const int64_t block = (c.outer + 31) / 32, count = block == 0 ? 0 : (c.outer + block - 1) / block;
  std::vector<double> parts(static_cast<size_t>(count * c.channels), 0.0);
  Tensor out = workspace(y, compute);
  visit_runs(x, {&grad}, [&]<class T, class E>() {
    const Tensor g = runs_of(grad, dtype_of<E>, c.inner), source = runs_of(x, dtype_of<E>, c.inner);
    const int64_t work = block * c.channels * c.inner * 2;
    parallel_for(count, grain_for(work), [&](int64_t begin, int64_t end) {
      RunReader<E> from(source, c.inner), gradient(g, c.inner);
      for (int64_t o = begin * block; o < std::min(c.outer, end * block); ++o) {
        stop_if_requested();
        add_weight_sums<T>(groups, o, m, s, from, gradient, parts.data() + o / block * c.channels);
      }
    });
    for (int64_t k = 0; k < c.channels; ++k) {
      double sum = 0;
      for (int64_t b = 0; b < count; ++b) sum += parts[b * c.channels + k];
      out.elements<T>()[k] = static_cast<T>(sum);
    }
  });
  write_back(y, out);
}

namespace {

// The sums over grad and over grad xh of each channel of each entry.
struct EntrySums {
  std::vector<double> first, second;
};

// The sums of group i's channels, and the means that `gradient` subtracts for the run of the group.
template <class T, class E>
void add_group_sums(const Groups& groups, int64_t i, const T* weight, NormRun<T, E>& r,
                    EntrySums& sums) {
  const int64_t channel = i % groups.count * groups.channels, inner = groups.all.inner;
  NormRun<T, E> part = r;
  part.n = inner;
  NormSums total{0, 0};
  serial_for(groups.channels, inner, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k, part.x += inner, part.grad += inner) {
      const NormSums t = NormLoops<T, E>::gradient_sums(part);
      const double scale = weight ? static_cast<double>(weight[channel + k]) : 1;
      total.first += scale * t.first, total.second += scale * t.second;
      const auto at = static_cast<size_t>(i * groups.channels + k);
      sums.first[at] = t.first, sums.second[at] = t.second;
    }
  });
  r.m1 = static_cast<T>(total.first / static_cast<double>(r.n));
  r.m2 = static_cast<T>(total.second / static_cast<double>(r.n));
}

// The sums of each channel over the entries.
std::vector<double> over_entries(const Channels& c, const std::vector<double>& each) {
  std::vector<double> out(static_cast<size_t>(c.channels), 0.0);
  for (int64_t o = 0; o < c.outer; ++o)
    for (int64_t k = 0; k < c.channels; ++k)
      out[static_cast<size_t>(k)] += each[static_cast<size_t>(o * c.channels + k)];
  return out;
}

}  // namespace

void group_norm_grads(const Tensor& grad, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                      const Tensor& weight, int64_t num_groups, Tensor& grad_x, Tensor& grad_weight,
                      Tensor& grad_bias) {
  const DType compute = compute_dtype(x.dtype());
  const Groups groups = groups_of(x, num_groups);
  const int64_t n = groups.size;
  const Tensor m = converted(mean, kStatistics), s = converted(rstd, kStatistics),
               w = converted(weight, compute);
  EntrySums sums;
  sums.first.resize(static_cast<size_t>(groups.all.outer * groups.all.channels));
  sums.second = sums.first;
  visit_runs(x, {&grad, &grad_x}, [&]<class T, class E>() {
    const Tensor g = runs_of(grad, dtype_of<E>, n), source = runs_of(x, dtype_of<E>, n);
    Tensor out = room_for_runs(grad_x, dtype_of<E>, n);
    parallel_for(groups.total(), grain_for(n * 2), [&](int64_t begin, int64_t end) {
      RunReader<E> from(source, n), gradient(g, n);
      RunWriter<E> to(out, n);
      for (int64_t i = begin; i < end; ++i) {
        NormRun<T, E> r{from.at(i * n), gradient.at(i * n), nullptr, nullptr, to.at(i * n), n};
        set_center(r, m, s, i, n);
        const T *scale = data_or_null<T>(w), *none = nullptr;
        add_group_sums(groups, i, scale, r, sums);
        each_channel(groups, i, r, scale, none, NormLoops<T, E>::gradient);
        to.done(i * n);
      }
    });
    write_back(grad_x, out);
  });
  store_values(over_entries(groups.all, sums.second), grad_weight);
  store_values(over_entries(groups.all, sums.first), grad_bias);
}

}  // namespace moonlet::cpu

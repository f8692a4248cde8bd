// tensor/cpu/normalization/normalization.h: the loops over a run of elements that the kernels of
// normalisation are made of.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <vector>

#include "tensor/cpu/common/contiguous.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/copy/convert.h"

namespace moonlet::cpu {

// A run of n elements and what a loop over it needs; weight and bias may be null, and then are 1
// and 0. `scale`, `offset`: one weight and bias for the whole run, multiplied in as well. What is
// computed in T is read and written as elements E. `set_center` sets the mean, as a T and the rest
// that rounding to T takes off it: beside a small deviation the rest of a large mean counts.
template <class T, class E = T>
struct NormRun {
  const E *x = nullptr, *grad = nullptr;
  const T *weight = nullptr, *bias = nullptr;
  E* out = nullptr;
  int64_t n = 0;
  T mean = 0, rest = 0, rstd = 1, scale = 1, offset = 0, m1 = 0, m2 = 0;
  double exact_mean = 0, exact_rstd = 1;
  bool leaves_range = false;  // x - mean or rstd is too large or too small for T
};
struct NormSums {
  double first, second;
};

// Sets what the loops subtract and multiply by, those of a group of `count` elements.
template <class T, class E>
void set_center(NormRun<T, E>& r, double mean, double rest, double rstd, int64_t count) {
  constexpr double kMost = std::numeric_limits<T>::max();
  r.mean = static_cast<T>(mean);
  r.rest = static_cast<T>((mean - static_cast<double>(r.mean)) + rest);
  r.rstd = static_cast<T>(rstd);
  r.exact_mean = mean + rest, r.exact_rstd = rstd;
  if (rstd > 1e-30 && rstd < 1e30) return;
  // No element is further than sqrt(count) / rstd from the mean.
  const bool is_usual = rstd * kMost > 8 * std::sqrt(static_cast<double>(count)) &&
                        rstd < kMost * std::numeric_limits<T>::epsilon();
  r.leaves_range = !is_usual && !std::isnan(rstd);
}

// The dtype in which a group's mean and rstd are kept for the gradients: what a float cannot hold
// of a large mean is part of it.
inline constexpr DType kStatistics = DType::Float64;

// The same from element i of tensors of that dtype; an undefined mean is 0.
template <class T, class E>
void set_center(NormRun<T, E>& r, const Tensor& mean, const Tensor& rstd, int64_t i,
                int64_t count) {
  set_center(r, mean.defined() ? mean.elements<double>()[i] : 0, 0, rstd.elements<double>()[i],
             count);
}

// The loops, by whole vectors, for float, double, and bfloat16 computed in float; runs that leave
// the range of T come one element at a time.
template <class T, class E = T>
struct NormLoops {
  // Sum (x - mean) and sum (x - mean)^2.
  static NormSums moments(const NormRun<T, E>& r);
  // The mean of x, and sum (x - mean)^2; the run's own mean is not read.
  static NormSums statistics(const NormRun<T, E>& r);
  // out = (x - mean) rstd scale weight + offset + bias
  static void apply(const NormRun<T, E>& r);
  // With a = grad scale weight and xh = (x - mean) rstd: sum a and sum a xh.
  static NormSums gradient_sums(const NormRun<T, E>& r);
  // out = rstd (a - m1 - xh m2)
  static void gradient(const NormRun<T, E>& r);
  // weights += grad xh, biases += grad
  static void add_gradients(const NormRun<T, E>& r, T* weights, T* biases);
};

// Runs of n elements of a contiguous tensor as values of T: where they lie, or converted.
template <class T>
class RunReader {
 public:
  RunReader(const Tensor& x, int64_t n)
      : data_(x.raw()), size_(static_cast<int64_t>(size_of(x.dtype()))), n_(n) {
    if (x.dtype() == dtype_of<T>) return;
    convert_ = dense_converter(x.dtype(), dtype_of<T>);
    block_.reset(new T[static_cast<size_t>(n)]);
  }
  // The run that begins at that element; it lasts until the next is read.
  const T* at(int64_t first) {
    const char* from = data_ + first * size_;
    if (!convert_) return reinterpret_cast<const T*>(from);
    serial_for(n_, 1, [&](int64_t begin, int64_t end) {
      convert_(from + begin * size_, block_.get() + begin, static_cast<size_t>(end - begin));
    });
    return block_.get();
  }

 private:
  const char* data_;
  const int64_t size_, n_;
  DenseConverter convert_ = nullptr;
  std::unique_ptr<T[]> block_;
};

// The same for results: `done` stores what was written to the run of that element.
template <class T>
class RunWriter {
 public:
  RunWriter(const Tensor& y, int64_t n)
      : data_(y.raw()), size_(static_cast<int64_t>(size_of(y.dtype()))), n_(n) {
    if (y.dtype() == dtype_of<T>) return;
    convert_ = dense_converter(dtype_of<T>, y.dtype());
    block_.reset(new T[static_cast<size_t>(n)]);
  }
  T* at(int64_t first) {
    return convert_ ? block_.get() : reinterpret_cast<T*>(data_ + first * size_);
  }
  void done(int64_t first) {
    if (!convert_) return;
    serial_for(n_, 1, [&](int64_t begin, int64_t end) {
      convert_(block_.get() + begin, data_ + (first + begin) * size_,
               static_cast<size_t>(end - begin));
    });
  }

 private:
  char* data_;
  const int64_t size_, n_;
  DenseConverter convert_ = nullptr;
  std::unique_ptr<T[]> block_;
};

// The dtype in which runs of n elements are read or written: short ones, for which a conversion
// each would take longer than the loop, come from a tensor that is converted as a whole.
inline DType dtype_of_runs(DType own, DType compute, int64_t n) {
  constexpr int64_t kShortRun = thresholds::normalization::kConvertedRun;
  return n < kShortRun ? compute : own;
}
inline Tensor runs_of(const Tensor& x, DType compute, int64_t n) {
  return converted(x, dtype_of_runs(x.dtype(), compute, n));
}
inline Tensor room_for_runs(const Tensor& y, DType compute, int64_t n) {
  return workspace(y, dtype_of_runs(y.dtype(), compute, n));
}

// Calls f<T, E>() with the T that x is computed in and the E as which runs of x and of `others` are
// read and written: what they all are, where there are loops for it, else T.
template <class F>
void visit_runs(const Tensor& x, std::initializer_list<const Tensor*> others, F&& f) {
  visit_compute<dtypes::floating>(compute_dtype(x.dtype()), [&]<class T>() {
    if constexpr (std::is_same_v<T, float>) {
      const auto narrow = [](const Tensor* t) { return t->dtype() == DType::BFloat16; };
      if (narrow(&x) && std::all_of(others.begin(), others.end(), narrow))
        return f.template operator()<float, bfloat16>();
    }
    f.template operator()<T, T>();
  });
}

template <class T>
const T* data_or_null(const Tensor& t) {
  return t.defined() ? t.elements<T>() : nullptr;
}

// x as (outer, channels, inner).
struct Channels {
  int64_t outer, channels, inner;
};
inline Channels channels_of(const Tensor& x) {
  Channels out{x.size(0), x.size(1), 1};
  for (int i = 2; i < x.dim(); ++i) out.inner *= x.size(i);
  return out;
}

// A value of each channel as the elements of y.
void store_values(const std::vector<double>& values, Tensor& y);

// running += momentum (value - running) of a channel, in whatever dtype and stride `running` has.
void update_running(const Tensor& running, int64_t channel, double value, double momentum);

// Whether the kernels of batch_norm are faster by the functions below. They do nothing and return
// false where a channel leaves the range of the dtype that is computed in.
bool normalizes_columns(const Tensor& x);
bool batch_norm_columns(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const Tensor& running_mean, const Tensor& running_var, double momentum,
                        double eps, Tensor& y, Tensor& mean, Tensor& rstd);
// Those of the weight and the bias where the pointers are not null.
bool batch_norm_columns_grads(const Tensor& grad, const Tensor& x, const Tensor& mean,
                              const Tensor& rstd, const Tensor& weight, Tensor& y,
                              Tensor* grad_weight, Tensor* grad_bias);
bool batch_norm_columns_grad_weight(const Tensor& grad, const Tensor& x, const Tensor& mean,
                                    const Tensor& rstd, Tensor& y);

// The mean, with its rest, and the squared distances from it in units of unit^2.
struct Spread {
  double mean, rest, squares, unit = 1;
  double variance(double count) const { return squares / count * unit * unit; }
  double deviation(double count) const { return std::sqrt(squares / count) * unit; }
  double rstd(double count, double eps) const {
    if (unit == 1) return 1 / std::sqrt(squares / count + eps);
    return 1 / unit / std::sqrt(squares / count + eps / unit / unit);
  }
};

// Whether the sum of n squares computed in T may be wrong: it overflowed, or some underflowed and
// `eps`, which is added to their mean, does not hide that.
template <class T>
bool left_range(double squares, double n, double eps) {
  constexpr double kLeast = std::numeric_limits<T>::min() / std::numeric_limits<T>::epsilon();
  return !(squares <= std::numeric_limits<T>::max()) || (squares < kLeast * n && eps < kLeast);
}

// The spread of `count` elements of any size, from 0 where they are not `centred`; each(f) calls
// f(x, n) for the runs they lie in.
template <class T, class E, class Runs>
[[gnu::noinline]] Spread spread_in_double(double count, bool centred, Runs&& each) {
  const auto sum_of = [&](auto&& term) {
    double sum = 0;
    each([&](const E* x, int64_t n) {
      serial_for(n, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) term(static_cast<double>(static_cast<T>(x[i])), sum);
      });
    });
    return sum;
  };
  const double most = sum_of([](double v, double& all) { all = std::max(all, std::abs(v)); });
  int exponent = 0;
  if (most > 0 && std::isfinite(most)) exponent = std::ilogb(most);
  const auto scaled = [&](double v) { return std::ldexp(v, -exponent); };
  double mean = 0, rest = 0;
  if (centred) {
    mean = sum_of([&](double v, double& all) { all += scaled(v); }) / count;
    rest = sum_of([&](double v, double& all) { all += scaled(v) - mean; }) / count;
  }
  const double squares = sum_of([&](double v, double& all) {
    const double distance = scaled(v) - mean - rest;
    all += distance * distance;
  });
  return {std::ldexp(mean, exponent), std::ldexp(rest, exponent), squares,
          std::ldexp(1.0, exponent)};
}

// The spread of a run, of which `t` are the statistics.
template <class T, class E>
Spread spread_of(const NormRun<T, E>& r, const NormSums& t, double eps, bool centred) {
  const double n = static_cast<double>(r.n);
  if (!left_range<T>(t.second, n, eps)) return {t.first, 0, t.second};
  return spread_in_double<T, E>(n, centred, [&](auto&& visit) { visit(r.x, r.n); });
}
template <class T, class E>
Spread spread_of(const NormRun<T, E>& r, double eps) {
  return spread_of(r, NormLoops<T, E>::statistics(r), eps, true);
}

// Gives a run its mean, 0 where it is not `centred`, and the reciprocal of its root mean squared
// distance from that.
template <class T, class E>
void set_statistics(NormRun<T, E>& r, double eps, bool centred) {
  Spread s;
  if (centred)
    s = spread_of(r, eps);
  else
    s = spread_of(r, {0, NormLoops<T, E>::moments(r).second}, eps, false);
  set_center(r, s.mean, s.rest, s.rstd(static_cast<double>(r.n), eps), r.n);
}

}  // namespace moonlet::cpu

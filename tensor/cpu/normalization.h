// tensor/cpu/normalization.h: the loops over a run of elements that the kernels of normalisation
// are made of.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <vector>

#include "tensor/cpu/contiguous.h"
#include "tensor/cpu/convert.h"
#include "tensor/cpu/parallel.h"

namespace moonlet::cpu {

// A run of n elements and what a loop over it needs; weight and bias may be null, and then are 1
// and 0. `scale`, `offset`: one weight and bias for the whole run, multiplied in as well. What is
// computed in T is read and written as elements E.
template <class T, class E = T>
struct NormRun {
  const E *x = nullptr, *grad = nullptr;
  const T *weight = nullptr, *bias = nullptr;
  E* out = nullptr;
  int64_t n = 0;
  T mean = 0, rstd = 1, scale = 1, offset = 0, m1 = 0, m2 = 0;
};
struct NormSums {
  double first, second;
};

// The loops, by whole vectors, for float, double, and bfloat16 computed in float.
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
  constexpr int64_t kShortRun = 64;
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

// Whether the kernels of batch_norm are faster by the functions below.
bool normalizes_columns(const Tensor& x);
void batch_norm_columns(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const Tensor& running_mean, const Tensor& running_var, double momentum,
                        double eps, Tensor& y, Tensor& mean, Tensor& rstd);
// Those of the weight and the bias where the pointers are not null.
void batch_norm_columns_grads(const Tensor& grad, const Tensor& x, const Tensor& mean,
                              const Tensor& rstd, const Tensor& weight, Tensor& y,
                              Tensor* grad_weight, Tensor* grad_bias);
void batch_norm_columns_grad_weight(const Tensor& grad, const Tensor& x, const Tensor& mean,
                                    const Tensor& rstd, Tensor& y);

// Gives a run its mean and the reciprocal of its standard deviation.
template <class T, class E>
void set_statistics(NormRun<T, E>& r, double eps) {
  const NormSums t = NormLoops<T, E>::statistics(r);
  r.mean = static_cast<T>(t.first);
  r.rstd = static_cast<T>(1 / std::sqrt(t.second / static_cast<double>(r.n) + eps));
}

}  // namespace moonlet::cpu

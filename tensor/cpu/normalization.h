// tensor/cpu/normalization.h: the loops over a run of elements that the kernels of normalisation
// are made of.
#pragma once

#include <cstdint>

namespace moonlet::cpu {

// A run of n elements and what a loop over it needs; weight and bias may be null, and then are 1
// and 0. `scale`, `offset`: one weight and bias for the whole run, multiplied in as well.
template <class T>
struct NormRun {
  const T *x = nullptr, *grad = nullptr, *weight = nullptr, *bias = nullptr;
  T* out = nullptr;
  int64_t n = 0;
  T mean = 0, rstd = 1, scale = 1, offset = 0, m1 = 0, m2 = 0;
};
struct NormSums {
  double first, second;
};

// The loops, by whole vectors, for float and double.
template <class T>
struct NormLoops {
  // Sum (x - mean) and sum (x - mean)^2.
  static NormSums moments(const NormRun<T>& r);
  // out = (x - mean) rstd scale weight + offset + bias
  static void apply(const NormRun<T>& r);
  // With a = grad scale weight and xh = (x - mean) rstd: sum a and sum a xh.
  static NormSums gradient_sums(const NormRun<T>& r);
  // out = rstd (a - m1 - xh m2)
  static void gradient(const NormRun<T>& r);
  // out += grad xh
  static void add_weight_gradient(const NormRun<T>& r);
};

}  // namespace moonlet::cpu

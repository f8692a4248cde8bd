// tensor/optim_math.h: the arithmetic of one element's optimiser step, shared by all devices, and
// the checks of an optimiser's arguments.
#pragma once

#include <cmath>

#include "tensor/tensor.h"

namespace moonlet::optim {

// The constants of one SGD step, in the type it computes in.
template <class T>
struct SgdConstants {
  T lr, momentum, weight_decay;
  T undamped;  // 1 - dampening, rounded once
  bool nesterov, first;
};

// Moves `x` and, with momentum, `buffer` (null without).
template <class T>
MOONLET_HD void sgd_element(const SgdConstants<T>& c, T& x, T gradient, T* buffer) {
  gradient += c.weight_decay * x;
  if (buffer) {
    *buffer = c.first ? gradient : c.momentum * *buffer + c.undamped * gradient;
    gradient = c.nesterov ? gradient + c.momentum * *buffer : *buffer;
  }
  x -= c.lr * gradient;
}

template <class T>
struct AdamConstants {
  T beta2, eps, weight_decay;
  T rest1, rest2;  // 1 - beta1 and 1 - beta2, rounded once: 1 - T(0.999) has lost digits
  T keep;          // 1 - lr * weight_decay when the decay is decoupled, else 1
  T step_size;     // lr / (1 - beta1^step)
  T correction;    // sqrt(1 - beta2^step)
};

template <class T>
AdamConstants<T> adam_constants(int64_t step, double lr, double beta1, double beta2, double eps,
                                double weight_decay, bool decoupled) {
  AdamConstants<T> c;
  c.beta2 = static_cast<T>(beta2);
  c.rest1 = static_cast<T>(1 - beta1);
  c.rest2 = static_cast<T>(1 - beta2);
  c.eps = static_cast<T>(eps);
  c.weight_decay = static_cast<T>(decoupled ? 0 : weight_decay);
  c.keep = static_cast<T>(decoupled ? 1 - lr * weight_decay : 1);
  c.step_size = static_cast<T>(lr / (1 - std::pow(beta1, static_cast<double>(step))));
  c.correction = static_cast<T>(std::sqrt(1 - std::pow(beta2, static_cast<double>(step))));
  return c;
}

// Moves `x` and the moments `m` and `v`; `v_max` (null without AMSGrad) keeps the largest `v`.
template <class T>
MOONLET_HD void adam_element(const AdamConstants<T>& c, T& x, T gradient, T& m, T& v, T* v_max) {
  gradient += c.weight_decay * x;
  x *= c.keep;
  m += c.rest1 * (gradient - m);
  v = c.beta2 * v + c.rest2 * gradient * gradient;
  T scale = v;
  if (v_max) scale = *v_max = *v_max > v ? *v_max : v;
  x -= c.step_size * m / (std::sqrt(scale) / c.correction + c.eps);
}

}  // namespace moonlet::optim

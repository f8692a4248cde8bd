// tensor/functors/optim_steps-inl.h: what each optimiser's step does to one element, written once
// for the CPU's vectors and CUDA, with the numbers that are the same for all elements as fields. A
// step is called with the parameter, its gradient and its states in the order of the op's lists;
// `kStates` says how many there are.
//
// CPU: included once per Highway target after simd-inl.h; the steps lie in moonlet::HWY_NAMESPACE.
// CUDA (and plain host code): included once; they lie in moonlet::optim.
#if defined(MOONLET_TENSOR_OPTIM_STEPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOONLET_TENSOR_OPTIM_STEPS_INL_H_
#undef MOONLET_TENSOR_OPTIM_STEPS_INL_H_
#else
#define MOONLET_TENSOR_OPTIM_STEPS_INL_H_
#endif

#include "tensor/functors/functor_math.h"
#include "tensor/functors/optim_steps.h"

#undef MOONLET_STEPS_NAMESPACE
#undef MOONLET_STEP_FN
#ifdef HWY_NAMESPACE
#define MOONLET_STEPS_NAMESPACE HWY_NAMESPACE
#define MOONLET_STEP_FN HWY_INLINE
HWY_BEFORE_NAMESPACE();
#else
#define MOONLET_STEPS_NAMESPACE optim
#define MOONLET_STEP_FN MOONLET_HD
#endif

namespace moonlet {
namespace MOONLET_STEPS_NAMESPACE {

using namespace ::moonlet::fn;     // NOLINT(google-build-using-namespace)
using namespace ::moonlet::optim;  // NOLINT(google-build-using-namespace)

// The gradient as a step wants it; the parameter after a decoupled decay.
template <class V>
MOONLET_STEP_FN V wanted_gradient(const Decay& d, V& x, V g) {
  if (d.maximize) g = -g;
  if (d.weight_decay != 0) g = g + V(d.weight_decay) * x;
  if (d.keep != 1) x = x * V(d.keep);
  return g;
}

// A mean that goes `part` of the way to a value.
template <class V>
MOONLET_STEP_FN V lerp(V mean, V value, double part) {
  return mean + V(part) * (value - mean);
}
template <class V>
MOONLET_STEP_FN V mean_square(V mean, V value, double beta) {
  return V(beta) * mean + V(1 - beta) * value * value;
}
template <class V>
MOONLET_STEP_FN V sign_of(V x) {
  return select(x > V(0), V(1), select(x < V(0), V(-1), V(0)));
}

template <class V>
MOONLET_STEP_FN void move(const Sgd& c, V& x, V g, V* s) {
  g = wanted_gradient(c.decay, x, g);
  if (c.momentum != 0) {
    s[0] = c.first ? g : V(c.momentum) * s[0] + V(1 - c.dampening) * g;
    g = c.nesterov ? g + V(c.momentum) * s[0] : s[0];
  }
  x = x - V(c.lr) * g;
}

// Without AMSGrad the third state is not used.
template <class V>
MOONLET_STEP_FN void move(const Adam& c, V& x, V g, V* s) {
  g = wanted_gradient(c.decay, x, g);
  s[0] = lerp(s[0], g, 1 - c.beta1);
  s[1] = mean_square(s[1], g, c.beta2);
  V scale = s[1];
  if (c.amsgrad) scale = s[2] = select(s[2] > s[1], s[2], s[1]);
  x = x - V(c.rate) * s[0] / (vsqrt(scale) / V(c.correction) + V(c.eps));
}

template <class V>
MOONLET_STEP_FN void move(const Adagrad& c, V& x, V g, V* s) {
  g = wanted_gradient(c.decay, x, g);
  s[0] = s[0] + g * g;
  x = x - V(c.rate) * g / (vsqrt(s[0]) + V(c.eps));
}

template <class V>
MOONLET_STEP_FN void move(const Adadelta& c, V& x, V g, V* s) {
  g = wanted_gradient(c.decay, x, g);
  s[0] = mean_square(s[0], g, c.rho);
  const V change = vsqrt(s[1] + V(c.eps)) / vsqrt(s[0] + V(c.eps)) * g;
  s[1] = mean_square(s[1], change, c.rho);
  x = x - V(c.lr) * change;
}

template <class V>
MOONLET_STEP_FN void move(const Adamax& c, V& x, V g, V* s) {
  g = wanted_gradient(c.decay, x, g);
  s[0] = lerp(s[0], g, 1 - c.beta1);
  const V before = V(c.beta2) * s[1], now = vabs(g) + V(c.eps);
  s[1] = select(before > now, before, now);
  x = x - V(c.rate) * s[0] / s[1];
}

template <class V>
MOONLET_STEP_FN void move(const Asgd& c, V& x, V g, V* s) {
  g = wanted_gradient(c.decay, x, g);
  x = V(1 - c.lambd * c.eta) * x - V(c.eta) * g;
  s[0] = c.mu == 1 ? x : lerp(s[0], x, c.mu);
}

template <class V>
MOONLET_STEP_FN void move(const Nadam& c, V& x, V g, V* s) {
  g = wanted_gradient(c.decay, x, g);
  s[0] = lerp(s[0], g, 1 - c.beta1);
  s[1] = mean_square(s[1], g, c.beta2);
  const V change = V(c.rate) * g + V(c.mean_rate) * s[0];
  x = x - change / (vsqrt(s[1]) / V(c.correction) + V(c.eps));
}

template <class V>
MOONLET_STEP_FN void move(const Radam& c, V& x, V g, V* s) {
  g = wanted_gradient(c.decay, x, g);
  s[0] = lerp(s[0], g, 1 - c.beta1);
  s[1] = mean_square(s[1], g, c.beta2);
  V change = V(c.rate) * s[0];
  if (c.scale != 0) change = change * (V(c.scale) / (vsqrt(s[1]) + V(c.eps)));
  x = x - change;
}

// The states: the mean square, the momentum, and the mean when centred.
template <class V>
MOONLET_STEP_FN void move(const Rmsprop& c, V& x, V g, V* s) {
  g = wanted_gradient(c.decay, x, g);
  s[0] = mean_square(s[0], g, c.alpha);
  V square = s[0];
  if (c.centered) {
    s[2] = lerp(s[2], g, 1 - c.alpha);
    square = square - s[2] * s[2];
  }
  V change = g / (vsqrt(square) + V(c.eps));
  if (c.momentum != 0) change = s[1] = V(c.momentum) * s[1] + change;
  x = x - V(c.lr) * change;
}

// The states: the gradient before, 0 where the sign had changed, and the size of the step.
template <class V>
MOONLET_STEP_FN void move(const Rprop& c, V& x, V g, V* s) {
  g = wanted_gradient(c.decay, x, g);
  const V turn = g * s[0];
  const V factor = select(turn > V(0), V(c.more), select(turn < V(0), V(c.less), V(1)));
  const V size = s[1] * factor;
  s[1] = select(size < V(c.least), V(c.least), select(size > V(c.most), V(c.most), size));
  s[0] = select(turn < V(0), V(0), g);
  x = x - sign_of(s[0]) * s[1];
}

template <class V>
MOONLET_STEP_FN void move(const Lion& c, V& x, V g, V* s) {
  g = wanted_gradient(c.decay, x, g);
  x = x - V(c.lr) * sign_of(lerp(s[0], g, 1 - c.beta1));
  s[0] = lerp(s[0], g, 1 - c.beta2);
}

}  // namespace MOONLET_STEPS_NAMESPACE
}  // namespace moonlet
#ifdef HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // toggle

// tensor/functors/optim_steps.h: the numbers of each optimiser's step. What a step does with them
// is in optim_steps-inl.h, how one goes over hundreds of tensors in cpu/optim.cpp and
// cuda/kernels/optim.cu.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "tensor/core/tensor.h"

namespace moonlet::optim {

// What all steps do with the gradient and the parameter first.
struct Decay {
  double weight_decay, keep;
  bool maximize;
};

struct Sgd {
  static constexpr int kStates = 1;
  double lr, momentum, dampening;
  bool nesterov, first;
  Decay decay;
};
struct Adam {
  static constexpr int kStates = 3;
  double rate, correction, beta1, beta2, eps;
  bool amsgrad;
  Decay decay;
};
struct Adagrad {
  static constexpr int kStates = 1;
  double rate, eps;
  Decay decay;
};
struct Adadelta {
  static constexpr int kStates = 2;
  double lr, rho, eps;
  Decay decay;
};
struct Adamax {
  static constexpr int kStates = 2;
  double rate, beta1, beta2, eps;
  Decay decay;
};
struct Asgd {
  static constexpr int kStates = 1;
  double eta, lambd, mu;
  Decay decay;
};
struct Nadam {
  static constexpr int kStates = 2;
  double rate, mean_rate, correction, beta1, beta2, eps;
  Decay decay;
};
struct Radam {
  static constexpr int kStates = 2;
  double rate, scale, beta1, beta2, eps;
  Decay decay;
};
struct Rmsprop {
  static constexpr int kStates = 3;
  double lr, alpha, eps, momentum;
  bool centered;
  Decay decay;
};
struct Rprop {
  static constexpr int kStates = 2;
  double less, more, least, most;
  Decay decay;
};
struct Lion {
  static constexpr int kStates = 1;
  double lr, beta1, beta2;
  Decay decay;
};

// All steps: X(name).
#define MOONLET_OPTIM_STEPS(X) \
  X(Sgd)                       \
  X(Adam)                      \
  X(Adagrad)                   \
  X(Adadelta)                  \
  X(Adamax)                    \
  X(Asgd)                      \
  X(Nadam)                     \
  X(Radam)                     \
  X(Rmsprop)                   \
  X(Rprop)                     \
  X(Lion)

inline constexpr int kMostStates = 3;
// The parameter, the gradient and the states of one tensor.
inline constexpr int kMostArrays = 2 + kMostStates;

using TensorList = std::vector<Tensor>;
// In the order parameters, gradients, states; an empty list is that of a state that is not used.
using StepLists = std::initializer_list<const TensorList*>;

}  // namespace moonlet::optim

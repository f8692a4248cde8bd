// tensor/functors/optim_number.h: what the optimisers' steps are made of: a number that is the same
// for all elements of a step, and the lists of tensors that one goes over.
#pragma once

#include <initializer_list>
#include <vector>

#include "tensor/core/tensor.h"

namespace moonlet::optim {

// Its arithmetic is that of double, whatever the elements are; beside elements it becomes one of
// their type (optim_math-inl.h).
struct Number {
  double value;
  MOONLET_HD operator double() const { return value; }
};
MOONLET_HD Number operator+(Number a, Number b) { return {a.value + b.value}; }
MOONLET_HD Number operator-(Number a, Number b) { return {a.value - b.value}; }
MOONLET_HD Number operator*(Number a, Number b) { return {a.value * b.value}; }
MOONLET_HD Number operator/(Number a, Number b) { return {a.value / b.value}; }
MOONLET_HD bool operator!=(Number a, Number b) { return a.value != b.value; }

using TensorList = std::vector<Tensor>;
// In the order parameters, gradients, states; an empty list is that of a state that is not used.
using StepLists = std::initializer_list<const TensorList*>;

}  // namespace moonlet::optim

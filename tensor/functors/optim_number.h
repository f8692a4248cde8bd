// tensor/functors/optim_number.h: what the optimisers' steps are made of: a number that is the same
// for all elements of a step, the functions by which such numbers follow from options and counts,
// and the lists of tensors that a step goes over.
#pragma once

#include <initializer_list>
#include <vector>

#include "tensor/core/tensor.h"
#include "tensor/functors/functor_math.h"

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

MOONLET_HD bool is_above(double a, double b) { return a > b; }
MOONLET_HD double larger(double a, double b) { return a > b ? a : b; }

// How amp.GradScaler's scale goes on after steps of which `found_inf` says whether a gradient was
// not finite.
MOONLET_HD void update_loss_scale(float& scale, int32_t& growth_tracker, float found_inf,
                                  double growth_factor, double backoff_factor,
                                  int64_t growth_interval) {
  if (found_inf != 0) {
    scale = static_cast<float>(scale * backoff_factor);
    growth_tracker = 0;
  } else if (++growth_tracker == growth_interval) {
    const auto wider = static_cast<float>(scale * growth_factor);
    if (wider - wider == 0) scale = wider;
    growth_tracker = 0;
  }
}

using TensorList = std::vector<Tensor>;
// In the order parameters, gradients, states; an empty list is that of a state that is not used.
using StepLists = std::initializer_list<const TensorList*>;

// What the numbers of a step follow from where that is on the device.
template <class Step>
struct StepSource {
  Step step;  // its flags
  double numbers[Step::kGiven];
  const TensorList& given;  // empty, or for each number a tensor that is taken instead, or none
  bool decoupled;
  const Tensor& found_inf;  // of one float32, which is not 0 where there is to be no step; or none
  // The tensor that is taken instead of a number; null where there is none.
  const Tensor* instead(int number) const {
    const auto at = static_cast<size_t>(number);
    return at < given.size() && given[at].defined() ? &given[at] : nullptr;
  }
  // What says that there is to be no step; null where nothing does.
  const float* found() const { return found_inf.defined() ? found_inf.elements<float>() : nullptr; }
  // From a parameter's element of such a tensor to that of the next one.
  static int64_t stride(const Tensor& instead) {
    return instead.numel() == 1 ? 0 : instead.strides()[0];
  }
};

}  // namespace moonlet::optim

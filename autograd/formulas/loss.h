// autograd/formulas/loss.h: derivatives of losses.
#pragma once

#include <tuple>

#include "tensor/tensor.h"

namespace moonlet::formulas {

// Throws: the gradient of that op has no derivative.
std::tuple<Tensor, Tensor> no_second_derivative(const char* op);

}  // namespace moonlet::formulas

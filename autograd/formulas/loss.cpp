// autograd/formulas/loss.cpp: derivatives of losses.
#include "autograd/formulas/loss.h"

namespace moonlet::formulas {

std::tuple<Tensor, Tensor> no_second_derivative(const char* op) {
  fail(op, ": its gradient cannot be differentiated again");
}

}  // namespace moonlet::formulas

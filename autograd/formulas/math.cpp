// autograd/formulas/math.cpp: the longer derivatives of mathematical functions.
#include "autograd/formulas.h"

#include "autograd/uses_formulas_math.h"

namespace moonlet::formulas {

std::tuple<Tensor, Tensor> atan2_grad_x_grads(const Tensor& g, const Tensor& x,
                                              const Tensor& other) {
  const Tensor x2 = square(x), other2 = square(other), length = add(x2, other2);
  const Tensor safe = masked_fill(length, eq(length, 0.0), 1.0);
  return {mul(g, mul(div(mul(x, -2.0), safe), div(other, safe))),
          mul(g, div(sub(x2, other2), square(safe)))};
}

}  // namespace moonlet::formulas

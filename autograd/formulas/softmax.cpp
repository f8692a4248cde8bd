// autograd/formulas/softmax.cpp: the longer derivatives of softmax.
#include "autograd/formulas.h"
#include "autograd/uses_formulas_softmax.h"

namespace moonlet::formulas {

Tensor softmax_grad_x_grad_result(const Tensor& g, const Tensor& grad, const Tensor& result,
                                  int64_t dim) {
  // L = <g, r (grad - <grad, r>)>
  const Tensor inner = sum(mul(grad, result), {dim}, true, {});
  const Tensor outer = sum(mul(g, result), {dim}, true, {});
  return sub(mul(g, sub(grad, inner)), mul(grad, outer));
}

std::tuple<Tensor, Tensor> log_softmax_grad_x_grads(const Tensor& g, const Tensor& grad,
                                                    const Tensor& result, int64_t dim) {
  // L = <g, grad - exp(r) sum(grad)>
  const Tensor weighted = mul(g, exp(result));
  return {sub(g, sum(weighted, {dim}, true, {})), neg(mul(weighted, sum(grad, {dim}, true, {})))};
}

}  // namespace moonlet::formulas

// tensor/shapes/softmax.cpp: argument checks and result shapes of softmax.
#include "tensor/shapes_softmax.h"

namespace moonlet::shapes {

Result softmax(const Tensor& x, int64_t) { return like(x); }
Result log_softmax(const Tensor& x, int64_t) { return like(x); }

Result softmax_grad_x(const Tensor& grad, const Tensor& result, int64_t) {
  check_same_shape("softmax_grad_x", grad, result);
  return like(grad);
}
Result log_softmax_grad_x(const Tensor& grad, const Tensor& result, int64_t) {
  check_same_shape("log_softmax_grad_x", grad, result);
  return like(grad);
}

}  // namespace moonlet::shapes

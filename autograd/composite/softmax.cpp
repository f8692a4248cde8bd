// autograd/composite/softmax.cpp: softmax of the negative, and of converted tensors.
#include "autograd/uses_composite_softmax.h"

namespace moonlet {

Tensor softmin_composite(const Tensor& x, int64_t dim) { return softmax(neg(x), dim); }

Tensor softmax_to_composite(const Tensor& x, int64_t dim, DType dtype) {
  return softmax(to(x, dtype), dim);
}
Tensor log_softmax_to_composite(const Tensor& x, int64_t dim, DType dtype) {
  return log_softmax(to(x, dtype), dim);
}

}  // namespace moonlet

// autograd/composite/softmax.cpp: softmax of the negative, and softmax in another dtype.
#include "autograd/uses_composite_softmax.h"

namespace moonlet {

Tensor softmin_composite(const Tensor& x, int64_t dim) { return softmax(neg(x), dim); }

Tensor softmax_dtype_composite(const Tensor& x, int64_t dim, DType dtype) {
  return softmax(to(x, dtype), dim);
}
Tensor log_softmax_dtype_composite(const Tensor& x, int64_t dim, DType dtype) {
  return log_softmax(to(x, dtype), dim);
}
Tensor softmin_dtype_composite(const Tensor& x, int64_t dim, DType dtype) {
  return softmin(to(x, dtype), dim);
}

}  // namespace moonlet

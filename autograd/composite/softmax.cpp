// autograd/composite/softmax.cpp: softmax of the negative.
#include "autograd/ops_arithmetic.h"
#include "autograd/ops_softmax.h"

namespace moonlet {

Tensor softmin_composite(const Tensor& x, int64_t dim) { return softmax(neg(x), dim); }

}  // namespace moonlet

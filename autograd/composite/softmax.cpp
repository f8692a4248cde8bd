// autograd/composite/softmax.cpp: softmax of the negative.
#include "autograd/uses_composite_softmax.h"

namespace moonlet {

Tensor softmin_composite(const Tensor& x, int64_t dim) { return softmax(neg(x), dim); }

}  // namespace moonlet

// autograd/composite/logic.cpp: what is one op for booleans and another for integers.
#include "autograd/uses_composite_logic.h"

namespace moonlet {

Tensor bitwise_not_composite(const Tensor& x) {
  return x.dtype() == DType::Bool ? logical_not(x) : bitwise_invert(x);
}

}  // namespace moonlet

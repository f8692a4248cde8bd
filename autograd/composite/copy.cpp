// autograd/composite/copy.cpp: fills with the element of a tensor.
#include "autograd/uses_composite_copy.h"

namespace moonlet {

Tensor fill_tensor_composite(const Tensor& x, const Tensor& value) {
  check(value.dim() == 0, "fill: value has shape ", value.sizes(),
        "; a tensor of no dimensions is expected");
  check(is_complex(x.dtype()) || !is_complex(value.dtype()), "fill: value has dtype ",
        value.dtype(), ", but ", x.dtype(), " is real");
  return copy(x, value);
}

}  // namespace moonlet

// tensor/shapes/convert.cpp: argument checks and result shapes of copies and fills.
#include "tensor/shapes_convert.h"

namespace moonlet::shapes {

void copy(const Tensor& x, const Tensor& source) {
  check(can_expand(source.sizes(), x.sizes()), "copy_: shape ", source.sizes(),
        " does not broadcast to ", x.sizes());
}

void fill(const Tensor& x, Scalar value) { check_fits(value, x.dtype(), "fill"); }

Result clone(const Tensor& x) { return like(x); }

Result convert(const Tensor& x, std::optional<DType> dtype, std::optional<Device> device) {
  return {x.sizes(), {dtype.value_or(x.dtype()), device.value_or(x.device())}};
}

}  // namespace moonlet::shapes

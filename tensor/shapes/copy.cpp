// tensor/shapes/copy.cpp: argument checks of copies and fills.
#include "tensor/shapes_copy.h"

namespace moonlet::shapes {

void copy(const Tensor& x, const Tensor& source) {
  check(can_expand(source.sizes(), x.sizes()), "copy_: shape ", source.sizes(),
        " does not broadcast to ", x.sizes());
}

void fill(const Tensor& x, Scalar value) { check_fits(value, x.dtype(), "fill"); }

}  // namespace moonlet::shapes

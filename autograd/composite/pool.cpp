// autograd/composite/pool.cpp: pooling without the positions.
#include "autograd/uses_composite_pool.h"

namespace moonlet {

Tensor max_pool2d_composite(const Tensor& x, const Dims& kernel_size, const Dims& stride,
                            const Dims& padding, const Dims& dilation, bool ceil_mode) {
  return std::get<0>(max_pool2d_with_indices(x, kernel_size, stride, padding, dilation, ceil_mode));
}

}  // namespace moonlet

// tensor/shapes/shape.h: the geometry of padding, which the shape functions, the kernels and the
// composites share.
#pragma once

#include <vector>

#include "tensor/core/tensor.h"

namespace moonlet::shapes {

// How much a padding adds before and after a dimension of `x`; negative parts cut. `pad` holds
// pairs, the last dimension first.
struct Border {
  int64_t before = 0;
  int64_t after = 0;
};
// The border of dimension `dim` of a tensor of `rank` dimensions.
Border border(const std::vector<int64_t>& pad, int dim, int rank);
// Throws unless `pad` is a list of pairs that x's dimensions can take.
void check_pad(const Tensor& x, const std::vector<int64_t>& pad, const char* op);

}  // namespace moonlet::shapes

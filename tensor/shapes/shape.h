// tensor/shapes/shape.h: results of the ops that join, pad and scatter into views: arguments
// checked, memory allocated. Dimensions and positions are 0-based.
#pragma once

#include <vector>

#include "tensor/tensor.h"

namespace moonlet::shapes {

// The joined shape in the promoted dtype. Throws on an empty list, mixed devices, and shapes that
// differ outside `dim`.
Tensor cat(const std::vector<Tensor>& tensors, int64_t dim);

// A tensor of shape `size`, after checking that the view it names has the shape of `dy`.
Tensor select_backward(const Tensor& dy, const Dims& size, int64_t dim, int64_t index);
Tensor slice_backward(const Tensor& dy, const Dims& size, int64_t dim, int64_t start, int64_t stop,
                      int64_t step);
Tensor diagonal_backward(const Tensor& dy, const Dims& size, int64_t offset, int64_t dim1,
                         int64_t dim2);

// How much a padding adds before and after a dimension of `x`; negative parts cut. `pad` holds
// pairs, the last dimension first.
struct Border {
  int64_t before = 0;
  int64_t after = 0;
};
// The border of dimension `dim` of a tensor of `rank` dimensions.
Border border(const Dims& pad, int dim, int rank);
// Throws unless `pad` is a list of pairs that x's dimensions can take.
void check_pad(const Tensor& x, const Dims& pad, const char* op);
Tensor constant_pad(const Tensor& x, const Dims& pad);

}  // namespace moonlet::shapes

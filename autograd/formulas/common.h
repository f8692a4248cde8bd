// autograd/formulas/common.h: what derivatives and composites of several families are made of.
#pragma once

#include "tensor/core/operand.h"

namespace moonlet::formulas {

// 16-bit floats as float32, anything else itself: what is made of several ops starts from it, so
// that it is rounded once.
Tensor widened(const Tensor& x);
// The conjugate of an argument that may be a number (for real ones, itself).
Operand conj(const Operand& x);
// A gradient of zeros that looks like g, of one element in memory.
Tensor zero_grad(const Tensor& g);
// All dimensions of a tensor of that rank but the second.
Dims all_but_channels(int rank);
// The sum of x (n, c, ...) over all dimensions but the second: (c).
Tensor channel_sum(const Tensor& x);
// g with size 1 again at the reduced dims of a tensor of shape `sizes`.
Tensor restore_dims(const Tensor& g, const Dims& sizes, const Dims& dims, bool keepdim);
// g shared evenly among the elements that equal the extreme y.
Tensor extreme_grad_x(const Tensor& g, const Tensor& x, const Tensor& y, const Dims& dims,
                      bool keepdim);
// g put at the 1-based positions `indices` along dim of zeros; no position of a row comes twice.
Tensor placed_grad_x(const Tensor& g, const Tensor& indices, const Dims& sizes, int64_t dim);
// The same where positions may come again, and what stands there is added up.
Tensor added_grad_x(const Tensor& g, const Tensor& indices, const Dims& sizes, int64_t dim);
// That of one position in each row, whose dim is kept or not.
Tensor selected_grad_x(const Tensor& g, const Tensor& indices, const Dims& sizes, int64_t dim,
                       bool keepdim);

// For each element the product of the others along dim, 0-based.
Tensor product_of_others(const Tensor& x, int dim);

// The last two of `sizes`: those of the planes of images.
Dims plane_of(const Dims& sizes);

}  // namespace moonlet::formulas

// autograd/formulas/shape.h: derivatives of the shape family that are longer than an expression,
// made of public ops, so that they are differentiable again. Dims and positions are 0-based.
#pragma once

#include <vector>

#include "tensor/core/tensor.h"

namespace moonlet::formulas {

// g laid into the part of zeros that the view showed. Where a sum so far is given g is added to
// that part of it, and the result is undefined.
Tensor select_grad_x(Tensor* so_far, const Tensor& g, const Dims& size, int64_t dim, int64_t index);
Tensor slice_grad_x(Tensor* so_far, const Tensor& g, const Dims& size, int64_t dim, int64_t start,
                    int64_t stop, int64_t step);
Tensor diagonal_grad_x(Tensor* so_far, const Tensor& g, const Dims& size, int64_t offset,
                       int64_t dim1, int64_t dim2);
// The numbers with their signs turned: the padding that undoes a padding.
std::vector<int64_t> negated(const std::vector<int64_t>& values);
// `g` with its dimensions put back to where permute(dims) took them from.
Tensor permute_grad_x(const Tensor& g, const Dims& dims);
// The sum, for each element of a tensor of that layout, of g over all positions at which
// as_strided(size, stride, offset) shows it; elements that lie on one another share the sum evenly.
// Offsets count from the start of the storage.
Tensor as_strided_grad_x(const Tensor& g, const Dims& x_size, const Dims& x_stride,
                         int64_t x_offset, const Dims& size, const Dims& stride, int64_t offset);
// The same sum for windows of `size` positions, `step` apart, along `dim`.
Tensor unfold_grad_x(const Tensor& g, const Dims& x_size, int64_t dim, int64_t size, int64_t step);
// The part of g that each of the joined tensors gave.
std::vector<Tensor> cat_grad_tensors(const Tensor& g, const std::vector<Dims>& sizes, int64_t dim);
std::vector<Tensor> block_diag_grad_tensors(const Tensor& g, const std::vector<Dims>& sizes);

}  // namespace moonlet::formulas

// autograd/formulas_reduce.h: derivatives of reductions, scans and indexing that are longer than an
// expression, made of public ops, so that they are differentiable again. Dims are 0-based.
#pragma once

#include <optional>
#include <vector>

#include "tensor/tensor.h"

namespace moonlet::formulas {

// g with size 1 again at the reduced dims of a tensor of shape `sizes`.
Tensor restore_dims(const Tensor& g, const Dims& sizes, const Dims& dims, bool keepdim);
Tensor mean_backward(const Tensor& g, const Dims& sizes, const Dims& dims, bool keepdim);
// Right also where elements are 0: each element gets the product of the others.
Tensor prod_backward(const Tensor& g, const Tensor& x, std::optional<int64_t> dim, bool keepdim);
// g shared evenly among the elements that equal the extreme y.
Tensor extreme_backward(const Tensor& g, const Tensor& x, const Tensor& y, const Dims& dims,
                        bool keepdim);
// g put at the 1-based positions `indices` along dim of a zero tensor.
Tensor selected_backward(const Tensor& g, const Tensor& indices, const Dims& sizes, int64_t dim,
                         bool keepdim);
Tensor var_backward(const Tensor& g, const Tensor& x, const Dims& dims, int64_t correction,
                    bool keepdim);
// 0 where the norm y is 0.
Tensor norm_backward(const Tensor& g, const Tensor& x, const Tensor& y, double p, const Dims& dims,
                     bool keepdim);
Tensor logsumexp_backward(const Tensor& g, const Tensor& x, const Tensor& y, const Dims& dims,
                          bool keepdim);
// Quadratic in the size of dim when x holds a 0, linear otherwise.
Tensor cumprod_backward(const Tensor& g, const Tensor& x, int64_t dim);
Tensor embedding_backward_backward(const Tensor& g, const Tensor& index, int64_t padding_idx);
Tensor index_put_backward(const Tensor& g, const std::vector<Tensor>& indices, bool accumulate);

}  // namespace moonlet::formulas

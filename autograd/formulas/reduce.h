// autograd/formulas/reduce.h: the longer derivatives of reductions. Dims are 0-based.
#pragma once

#include <optional>

#include "tensor/tensor.h"

namespace moonlet::formulas {

// g with size 1 again at the reduced dims of a tensor of shape `sizes`.
Tensor restore_dims(const Tensor& g, const Dims& sizes, const Dims& dims, bool keepdim);
Tensor mean_grad_x(const Tensor& g, const Dims& sizes, const Dims& dims, bool keepdim);
// Right also where elements are 0: each element gets the product of the others.
Tensor prod_grad_x(const Tensor& g, const Tensor& x, std::optional<int64_t> dim, bool keepdim);
// g shared evenly among the elements that equal the extreme y.
Tensor extreme_grad_x(const Tensor& g, const Tensor& x, const Tensor& y, const Dims& dims,
                      bool keepdim);
// g put at the 1-based positions `indices` along dim of a zero tensor.
Tensor selected_grad_x(const Tensor& g, const Tensor& indices, const Dims& sizes, int64_t dim,
                       bool keepdim);
Tensor var_grad_x(const Tensor& g, const Tensor& x, const Dims& dims, int64_t correction,
                  bool keepdim);
// 0 where the norm y is 0.
Tensor norm_grad_x(const Tensor& g, const Tensor& x, const Tensor& y, double p, const Dims& dims,
                   bool keepdim);
Tensor logsumexp_grad_x(const Tensor& g, const Tensor& x, const Tensor& y, const Dims& dims,
                        bool keepdim);

}  // namespace moonlet::formulas

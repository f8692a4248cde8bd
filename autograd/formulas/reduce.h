// autograd/formulas/reduce.h: the longer derivatives of reductions. Dims are 0-based.
#pragma once

#include <optional>

#include "tensor/core/tensor.h"

namespace moonlet::formulas {

Tensor mean_grad_x(const Tensor& g, const Dims& sizes, const Dims& dims, bool keepdim);
// From the result y where no element is 0; else each element gets the product of the others.
Tensor prod_grad_x(const Tensor& g, const Tensor& x, const Tensor& y, std::optional<int64_t> dim,
                   bool keepdim);
Tensor var_grad_x(const Tensor& g, const Tensor& x, const Dims& dims, double correction,
                  bool keepdim);
// 0 where the deviation y is 0.
Tensor std_grad_x(const Tensor& g, const Tensor& x, const Tensor& y, const Dims& dims,
                  double correction, bool keepdim);
// 0 where the norm y is 0. y has the dtype that x was converted to, or the real one of that.
Tensor norm_grad_x(const Tensor& g, const Tensor& x, const Tensor& y, double p, const Dims& dims,
                   bool keepdim);
Tensor logsumexp_grad_x(const Tensor& g, const Tensor& x, const Tensor& y, const Dims& dims,
                        bool keepdim);

}  // namespace moonlet::formulas

// autograd/formulas/index.h: the longer derivatives of indexing by tensors.
#pragma once

#include <vector>

#include "tensor/core/tensor.h"

namespace moonlet::formulas {

// Zeros of shape `sizes` with g added at the indices.
Tensor index_grad_x(const Tensor& g, const std::vector<Tensor>& indices, const Dims& sizes);
Tensor index_put_grad_x(const Tensor& g, const std::vector<Tensor>& indices, bool accumulate);

}  // namespace moonlet::formulas

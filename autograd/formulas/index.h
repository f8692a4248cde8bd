// autograd/formulas/index.h: the longer derivatives of indexing by tensors.
#pragma once

#include <vector>

#include "tensor/tensor.h"

namespace moonlet::formulas {

Tensor index_put_grad_x(const Tensor& g, const std::vector<Tensor>& indices, bool accumulate);

}  // namespace moonlet::formulas

// autograd/formulas_gather.h: the longer derivatives of what picks rows or elements.
#pragma once

#include <vector>

#include "tensor/tensor.h"

namespace moonlet::formulas {

Tensor embedding_grad_weight_grad_grad(const Tensor& g, const Tensor& index, int64_t padding_idx);
Tensor index_put_grad_x(const Tensor& g, const std::vector<Tensor>& indices, bool accumulate);

}  // namespace moonlet::formulas

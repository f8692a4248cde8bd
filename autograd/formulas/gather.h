// autograd/formulas/gather.h: the longer derivatives of what picks rows or elements.
#pragma once

#include "tensor/tensor.h"

namespace moonlet::formulas {

Tensor embedding_grad_weight_grad_grad(const Tensor& g, const Tensor& index, int64_t padding_idx);
// g, where `wanted` divided by how often each row's position comes in `index`.
Tensor by_frequency(const Tensor& g, const Tensor& index, int64_t rows, bool wanted);

}  // namespace moonlet::formulas

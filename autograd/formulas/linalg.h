// autograd/formulas/linalg.h: the longer derivatives of products.
#pragma once

#include "tensor/core/tensor.h"

namespace moonlet::formulas {

// x's conjugate; x itself when it is real, without a copy.
Tensor conjugate(const Tensor& x);
// linear's weight gradient (out, in) from g (..., out) and x (..., in).
Tensor linear_grad_weight(const Tensor& g, const Tensor& x);
// The gradient of the distances y (..., n, m) of the rows of x1 (..., n, d) from those of x2 with
// respect to x1.
Tensor cdist_grad(const Tensor& g, const Tensor& x1, const Tensor& x2, const Tensor& y, double p);
// The same for the distances of each two rows of x.
Tensor pdist_grad(const Tensor& g, const Tensor& x, const Tensor& y, double p);

}  // namespace moonlet::formulas

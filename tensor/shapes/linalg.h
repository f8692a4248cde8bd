// tensor/shapes/linalg.h: argument checks and result shapes of the products. Each function throws
// Error naming the op and the shapes when its arguments do not fit.
#pragma once

#include "tensor/tensor.h"

namespace moonlet::shapes {

// (n, k) x (k, m): (n, m)
Dims mm(const Tensor& a, const Tensor& b);
// (b, n, k) x (b, k, m): (b, n, m)
Dims bmm(const Tensor& a, const Tensor& b);
// The same, with an `input` that broadcasts to the result.
Dims addmm(const Tensor& input, const Tensor& a, const Tensor& b);
Dims baddbmm(const Tensor& input, const Tensor& a, const Tensor& b);
// (n, k) x (k): (n)
Dims mv(const Tensor& a, const Tensor& x);
// (n) x (n): ()
Dims dot(const Tensor& a, const Tensor& b);
// (n) x (m): (n, m)
Dims outer(const Tensor& a, const Tensor& b);
// x (..., in), weight (out, in), bias (out) or undefined: (..., out)
Dims linear(const Tensor& x, const Tensor& weight, const Tensor& bias);

// Throws unless both have one dtype.
void same_dtype(const char* op, const Tensor& a, const Tensor& b);

}  // namespace moonlet::shapes

// moonlet/ops.h: tensors in C++ alone, without an interpreter: all ops, which record themselves on
// the tape; grad mode, backward and gradients; autocast; the number of threads. Dims are 0-based in
// C++ and may count from the end; positions inside index tensors are 1-based, as in scripts.
#pragma once

#include "autograd/autocast.h"
#include "autograd/ops.h"
#include "autograd/tape.h"
#include "tensor/core/set.h"
#include "tensor/core/tensor.h"
#include "tensor/runtime/random_generator.h"
#include "tensor/runtime/threads.h"

namespace moonlet {

inline Tensor operator+(const Tensor& x, const Operand& y) { return add(x, y); }
inline Tensor operator-(const Tensor& x, const Operand& y) { return sub(x, y); }
inline Tensor operator*(const Tensor& x, const Operand& y) { return mul(x, y); }
inline Tensor operator/(const Tensor& x, const Operand& y) { return div(x, y); }
inline Tensor operator+(const Scalar& x, const Tensor& y) { return add(x, y); }
inline Tensor operator-(const Scalar& x, const Tensor& y) { return sub(x, y); }
inline Tensor operator*(const Scalar& x, const Tensor& y) { return mul(x, y); }
inline Tensor operator/(const Scalar& x, const Tensor& y) { return div(x, y); }
inline Tensor operator-(const Tensor& x) { return neg(x); }

}  // namespace moonlet

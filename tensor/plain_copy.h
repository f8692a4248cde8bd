// tensor/plain_copy.h: the copy and fill kernels of a tensor's device, for code that has checked
// its tensors itself: they raise no version and leave no trace on the tape.
#pragma once

#include "tensor/scalar.h"
#include "tensor/tensor.h"

namespace moonlet {

// Writes `from`, of the same shape, over `to`; `value` over every element. Errors name `op`.
void copy_plain(Tensor& to, const Tensor& from, const char* op);
void fill_plain(Tensor& to, const Scalar& value, const char* op);

}  // namespace moonlet

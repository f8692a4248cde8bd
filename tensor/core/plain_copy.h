// tensor/core/plain_copy.h: the copy and fill kernels of a tensor's device, for code that has
// checked its tensors itself: they raise no version and leave no trace on the tape.
#pragma once

#include "tensor/core/scalar.h"
#include "tensor/core/tensor.h"

namespace moonlet {

// Writes `from`, of the same shape, over `to`; `value` over every element. Errors name `op`.
void copy_plain(Tensor& to, const Tensor& from, const char* op);
void fill_plain(Tensor& to, const Scalar& value, const char* op);
// A tensor of new memory that a script will see as it is: zeros where its interpreter has limits,
// as what the host and other interpreters have freed is not for it to see.
Tensor shown_empty(Tensor x, const char* op);

}  // namespace moonlet

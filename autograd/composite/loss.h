// autograd/composite/loss.h: what the losses share: their reductions and the checks of their
// shapes.
#pragma once

#include <string_view>

#include "tensor/core/tensor.h"

namespace moonlet::losses {

enum Reduction : int64_t { kNone, kMean, kSum };

// "mean", "sum" or "none"; throws for anything else.
Reduction reduction_of(const char* op, std::string_view name);

// The reduction of a loss of x and target that was computed from them widened, in their own dtype.
Tensor reduced(const char* op, const Tensor& loss, std::string_view reduction, const Tensor& x,
               const Tensor& target);

// Losses of elements that broadcast are rarely what was meant.
void warn_of_shapes(const char* op, const Tensor& x, const Tensor& target);

}  // namespace moonlet::losses

// tensor/pointwise/dtypes.h: the dtypes of a pointwise call, for those who plan one ahead.
#pragma once

#include <span>

#include "tensor/pointwise/run.h"

namespace moonlet {

struct PointwiseDTypes {
  DType compute;  // PointwisePlan::compute
  DType result;   // of a new result
};

// The dtypes that run_pointwise computes and gives for such inputs and parameters, of which only
// dtypes and numbers count, and of tensors whether they are 0-d. Throws as it does on dtypes
// outside the op's.
PointwiseDTypes pointwise_dtypes(const PointwiseOp& op, std::span<const Operand* const> in,
                                 std::span<const Scalar> params);

}  // namespace moonlet

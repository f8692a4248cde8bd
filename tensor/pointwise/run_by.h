// tensor/pointwise/run_by.h: a pointwise call whose kernel is no row's: of ops that are declared at
// run time.
#pragma once

#include <functional>
#include <span>

#include "tensor/pointwise/run.h"

namespace moonlet {

// As run_pointwise, with `kernel` in the place of the one in the device's table. It is not called
// where there are no elements.
Tensor run_pointwise_by(const PointwiseOp& op, std::span<const Operand* const> in,
                        std::span<const Scalar> params,
                        const std::function<void(const PointwisePlan& plan)>& kernel);

}  // namespace moonlet

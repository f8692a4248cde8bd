// tensor/pointwise/run_by.h: a pointwise call whose kernel is no row's: of ops that are declared at
// run time.
#pragma once

#include <functional>
#include <span>

#include "tensor/pointwise/run.h"

namespace moonlet {

using PointwiseRunner = std::function<void(const PointwisePlan& plan)>;

// As run_pointwise, with `kernel` in the place of the one in the device's table. It is not called
// where there are no elements.
Tensor run_pointwise_by(const PointwiseOp& op, std::span<const Operand* const> in,
                        std::span<const Scalar> params, const PointwiseRunner& kernel);
// The same of run_pointwise_out.
void run_pointwise_out_by(const PointwiseOp& op, Tensor& out, std::span<const Operand* const> in,
                          std::span<const Scalar> params, const PointwiseRunner& kernel);

}  // namespace moonlet

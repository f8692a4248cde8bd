// cuda/kernels/batch_norm.h: batch_norm in training by packs of 16 bytes, where the elements lie
// so.
#pragma once

#include "cuda/runtime/device.h"

namespace moonlet::cuda {

// Undefined or contiguous; they move towards the batch's by `momentum`.
struct RunningStatistics {
  Tensor mean, var;
  double momentum;
};

// native_batch_norm. False, with nothing done, where x and y are of two dtypes, of no element, of
// too many, or y is neither row-major nor channels_last.
bool batch_norm_by_packs(const Call& call, const Tensor& x, const Tensor& weight,
                         const Tensor& bias, const RunningStatistics& running, double eps,
                         Tensor& y, Tensor& mean, Tensor& rstd);

// What is wanted of the gradients, one at least: the others are null.
struct BatchNormGradients {
  Tensor *x = nullptr, *weight = nullptr, *bias = nullptr;
};

// The gradients of native_batch_norm: x and the gradient of y are read once for the sums, and again
// where that of x is wanted. False as above.
bool batch_norm_backward_by_packs(const Call& call, const Tensor& grad, const Tensor& x,
                                  const Tensor& mean, const Tensor& rstd, const Tensor& weight,
                                  const BatchNormGradients& wanted);

}  // namespace moonlet::cuda

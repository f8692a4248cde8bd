// cuda/kernels/normalization/batch_norm.h: batch_norm in training and group_norm by packs of 16
// bytes, where the elements lie so.
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

// Where gradients go that are wanted; the others are null.
struct NormGradients {
  Tensor *x, *weight, *bias;
};
// False as above.
bool batch_norm_backward_by_packs(const Call& call, const Tensor& grad, const Tensor& x,
                                  const Tensor& mean, const Tensor& rstd, const Tensor& weight,
                                  const NormGradients& out);

// native_group_norm of any tensor, and its gradients.
void group_norm_by_packs(const Call& call, const Tensor& x, int64_t groups, const Tensor& weight,
                         const Tensor& bias, double eps, Tensor& y, Tensor& mean, Tensor& rstd);
void group_norm_backward_by_packs(const Call& call, const Tensor& grad, const Tensor& x,
                                  const Tensor& mean, const Tensor& rstd, const Tensor& weight,
                                  int64_t groups, const NormGradients& out);

}  // namespace moonlet::cuda

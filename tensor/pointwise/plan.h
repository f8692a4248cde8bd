// tensor/pointwise/plan.h: the geometry of one pointwise call, shared by every device: pointers,
// dtypes and byte strides of the operands over one collapsed shape.
#pragma once

#include <cstdint>

#include "tensor/core/operand.h"

namespace moonlet {

// The most tensors and numbers that a pointwise op reads.
inline constexpr int kMaxPointwiseInputs = 4;

// One operand: memory and strides, or a number (then `scalar` is set and the rest is not).
struct PointwiseArg {
  PointwiseArg() {}
  char* data;
  const Scalar* scalar;  // alive as long as the call
  DType dtype;
  // In bytes; dimension 0 is the innermost. 0 where the operand is broadcast.
  int64_t strides[kMaxDims];

  // Whether every element of the result reads the same value.
  bool is_constant(int ndim) const {
    if (scalar) return true;
    for (int d = 0; d < ndim; ++d)
      if (strides[d] != 0) return false;
    return true;
  }
};

struct PointwisePlan {
  PointwisePlan() {}
  int ndim;                 // at least 1
  int64_t sizes[kMaxDims];  // dimension 0 is the innermost, the densest in memory
  int64_t numel;            // never 0: an empty call reaches no kernel
  int inputs;
  // The functor computes in this dtype: float32 for the 16- and 32-bit floats, float64, int64 for
  // integers and bool, complex64, complex128. Inputs convert to it and the result from it.
  DType compute;
  Device device;
  // Every operand is either a number or dense in the order of the one dimension.
  bool flat;
  // Flat, all tensors in the compute dtype, and no numbers.
  bool direct;
  const Scalar* params;  // the op's scalar arguments, alive as long as the call
  int param_count;
  const char* op;
  PointwiseArg out;
  PointwiseArg in[kMaxPointwiseInputs];
};

// Fills sizes, strides and the flags of `plan` for `out` and the inputs in `plan`, of which
// `tensors[i]` is the tensor or null for a number (whose `scalar` the caller has set). All must
// broadcast to out's shape.
void plan_layout(PointwisePlan& plan, const Tensor& out, const Tensor* const* tensors);

}  // namespace moonlet

// tensor/pointwise/run.h: runs a pointwise op: promotion, broadcasting, allocation, the plan and
// the call of the device's kernel. The typed functions made from the op table end here.
#pragma once

#include <initializer_list>
#include <span>

#include "tensor/core/operand.h"
#include "tensor/pointwise/plan.h"

namespace moonlet {

struct PointwiseOp {
  // Same: the dtype of the computation. Bool: a comparison. Real: its real part. Complex: the
  // complex dtype made of it, which is computed in.
  enum Result { Same, Bool, Real, Complex };
  const char* name;
  const char* inplace_name;   // "add_"
  DTypeSet dtypes;            // what the computation accepts
  bool int_to_float = false;  // integer and bool inputs compute in the default dtype
  Result result = Same;
  unsigned mask_args = 0;  // inputs that are bool masks, outside promotion, by bit
  // Null, or the result is one of the inputs, and numbers must fit the dtype instead of wrapping. A
  // letter per parameter: 'v' a value, 'l' a lower bound and 'u' an upper one, which may also lie
  // beyond the range they do not limit.
  const char* chooses = nullptr;
  bool keeps_dtype = false;   // its numbers are cast to the tensors' dtype instead of promoting it
  int family, index;          // where the kernel stands in KernelTable::pointwise_ops
  bool row_major = false;     // the result, whatever the inputs' layout
  bool scales = false;        // its number multiplies an operand: whole for integers
  bool refuses_bool = false;  // no input may be a bool
  bool byte_mask = false;     // a mask may be of uint8: true where it is not 0
};

// The result in a new dense tensor whose dimensions lie in memory in the order of the inputs', the
// first input that tells two dimensions apart deciding (tensor/core/layout.h). Throws on dtypes
// outside the op's, mixed devices and shapes that do not broadcast.
Tensor run_pointwise(const PointwiseOp& op, std::initializer_list<const Operand*> in,
                     std::initializer_list<Scalar> params);
// Into `self`, which is also the first input; `rest` are the others. Its shape and dtype stay:
// throws when the result has a larger shape or does not fit the dtype.
Tensor& run_pointwise_inplace(const PointwiseOp& op, Tensor& self,
                              std::initializer_list<const Operand*> rest,
                              std::initializer_list<Scalar> params);
// Into `out`, whose shape must be the result's (an empty `out` takes it) and whose dtype must be
// able to hold it.
Tensor& run_pointwise_out(const PointwiseOp& op, Tensor& out,
                          std::initializer_list<const Operand*> in,
                          std::initializer_list<Scalar> params);

// A call whose geometry is known, to be made again and again on other memory: the pointers in the
// plan may change between the runs of the kernel, which is null where there are no elements.
struct PreparedPointwise {
  PointwisePlan plan;
  void (*kernel)(const PointwisePlan& plan) = nullptr;
};
// For a result in `out`. The numbers among `in`, and `params`, must live as long as what is
// prepared. False when the call is more than its kernel: where it copies what it reads, or casts a
// mask. Throws as the call does.
bool prepare_pointwise(const PointwiseOp& op, std::span<const Operand* const> in,
                       std::span<const Scalar> params, const Tensor& out,
                       PreparedPointwise& prepared);

}  // namespace moonlet

// tensor/operand.h: an argument of a pointwise op: a tensor, or a plain number that takes part in
// type promotion without becoming a tensor.
#pragma once

#include "tensor/tensor.h"

namespace moonlet {

class Operand {
 public:
  Operand(const Tensor& tensor) : tensor_(tensor) {}
  Operand(Scalar scalar) : scalar_(scalar) {}
  Operand(double v) : scalar_(v) {}
  Operand(int64_t v) : scalar_(v) {}
  Operand(int v) : scalar_(v) {}
  Operand(bool v) : scalar_(v) {}

  bool is_tensor() const { return tensor_.defined(); }
  const Tensor& tensor() const { return tensor_; }
  const Scalar& scalar() const { return scalar_; }
  bool requires_grad() const { return tensor_.defined() && tensor_.requires_grad(); }

 private:
  Tensor tensor_;
  Scalar scalar_;
};

// The dtype of a pointwise op's result, by PyTorch's result_type: tensors with dimensions decide
// before 0-d tensors, and those before numbers, unless a later one is of a higher kind
// (bool < integer < float < complex).
DType result_type(std::initializer_list<const Operand*> operands);
DType result_type(const Operand& a, const Operand& b);

}  // namespace moonlet

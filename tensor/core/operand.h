// tensor/core/operand.h: an argument of a pointwise op: a tensor, or a plain number that takes part
// in type promotion without becoming a tensor.
#pragma once

#include "tensor/core/tensor.h"

namespace moonlet {

// Made of a tensor that has a name, an operand only refers to it, which then must outlive it; it
// holds a temporary itself.
class Operand {
 public:
  Operand(const Tensor& tensor) : tensor_(&tensor) {}
  Operand(Tensor&& tensor) : held_(std::move(tensor)), tensor_(&held_) {}
  Operand(Scalar scalar) : tensor_(&held_), scalar_(scalar) {}
  Operand(double v) : tensor_(&held_), scalar_(v) {}
  Operand(int64_t v) : tensor_(&held_), scalar_(v) {}
  Operand(int v) : tensor_(&held_), scalar_(v) {}
  Operand(bool v) : tensor_(&held_), scalar_(v) {}
  Operand(const Operand& other)
      : held_(other.held_),
        tensor_(other.tensor_ == &other.held_ ? &held_ : other.tensor_),
        scalar_(other.scalar_) {}
  Operand& operator=(const Operand&) = delete;

  bool is_tensor() const { return tensor_->defined(); }
  const Tensor& tensor() const { return *tensor_; }
  const Scalar& scalar() const { return scalar_; }
  bool requires_grad() const { return tensor_->defined() && tensor_->requires_grad(); }

 private:
  Tensor held_;
  const Tensor* tensor_;
  Scalar scalar_;
};

// The dtype of a pointwise op's result, by PyTorch's result_type: tensors with dimensions decide
// before 0-d tensors, and those before numbers, unless a later one is of a higher kind
// (bool < integer < float < complex).
DType result_type(std::initializer_list<const Operand*> operands);
DType result_type(const Operand& a, const Operand& b);

}  // namespace moonlet

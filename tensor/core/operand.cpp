// tensor/core/operand.cpp: type promotion between tensors, 0-d tensors and numbers.
#include "tensor/core/operand.h"

namespace moonlet {

namespace {

// The dtypes seen in one rank of participants; none at first.
struct PromotionState {
  bool any = false;
  DType dtype = DType::Bool;
  void add(DType t) {
    dtype = any ? promote(dtype, t) : t;
    any = true;
  }
};

// What `high` becomes beside `low`, which only counts when it is of a higher kind.
PromotionState combine(PromotionState high, PromotionState low) {
  if (!high.any) return low;
  if (!low.any || is_complex(high.dtype)) return high;
  if (is_floating(high.dtype)) {
    if (is_complex(low.dtype)) high.dtype = complex_of(high.dtype);
    return high;
  }
  if (is_complex(low.dtype))
    high.dtype = low.dtype;
  else if (high.dtype == DType::Bool || is_floating(low.dtype))
    high.dtype = promote(high.dtype, low.dtype);
  return high;
}

template <class Range>
DType promote_all(const Range& operands) {
  PromotionState with_dims, zero_d, numbers;
  for (const Operand* x : operands) {
    if (!x->is_tensor())
      numbers.add(x->scalar().default_dtype());
    else if (x->tensor().dim() == 0)
      zero_d.add(x->tensor().dtype());
    else
      with_dims.add(x->tensor().dtype());
  }
  return combine(with_dims, combine(zero_d, numbers)).dtype;
}

// The common case of a number that is of no higher kind than the tensor beside it.
bool keeps_dtype(const Operand& x, const Operand& number) {
  return is_floating(x.tensor().dtype()) && !number.scalar().is_complex();
}

}  // namespace

DType result_type(std::initializer_list<const Operand*> operands) { return promote_all(operands); }

DType result_type(const Operand& a, const Operand& b) {
  if (a.is_tensor()) {
    const bool kept = b.is_tensor() ? a.tensor().dtype() == b.tensor().dtype() : keeps_dtype(a, b);
    if (kept) return a.tensor().dtype();
  }
  return promote_all(std::initializer_list<const Operand*>{&a, &b});
}

}  // namespace moonlet

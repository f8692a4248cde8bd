// autograd/formulas_convert.cpp: dtypes that derivatives compute in.
#include "autograd/formulas_convert.h"

#include "autograd/ops_convert.h"

namespace moonlet::formulas {

Tensor widened(const Tensor& x) {
  if (!x.defined() || !is_floating(x.dtype()) || size_of(x.dtype()) > 2) return x;
  return to(x, DType::Float32);
}

}  // namespace moonlet::formulas

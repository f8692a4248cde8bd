// autograd/formulas/common.cpp: what derivatives and composites of several families are made of.
#include "autograd/formulas/common.h"
#include "autograd/uses_formulas_common.h"

namespace moonlet::formulas {

Tensor widened(const Tensor& x) {
  if (!x.defined() || !is_floating(x.dtype()) || size_of(x.dtype()) > 2) return x;
  return to(x, DType::Float32);
}

Operand conj(const Operand& x) {
  if (!x.is_tensor())
    return Operand(x.scalar().is_complex() ? Scalar(std::conj(x.scalar().to_complex()))
                                           : x.scalar());
  return is_complex(x.tensor().dtype()) ? Operand(moonlet::conj(x.tensor())) : x;
}

Dims all_but_channels(int rank) {
  Dims out;
  for (int i = 0; i < rank; ++i)
    if (i != 1) out.push_back(i);
  return out;
}

Tensor channel_sum(const Tensor& x) { return sum(x, all_but_channels(x.dim()), false, {}); }

Dims plane_of(const Dims& sizes) { return {sizes[sizes.size() - 2], sizes.back()}; }

}  // namespace moonlet::formulas

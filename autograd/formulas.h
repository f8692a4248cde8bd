// autograd/formulas.h: the derivatives that are too long for one expression in an op's row. All are
// made of public ops, so they can be differentiated again.
#pragma once

#include "autograd/formulas_nn.h"
#include "autograd/formulas_pointwise.h"
#include "autograd/formulas_reduce.h"
#include "autograd/formulas_shape.h"
#include "autograd/ops.h"

namespace moonlet::formulas {

// The conjugate of an argument that may be a number (for real ones, itself).
inline Operand conj(const Operand& x) {
  if (!x.is_tensor())
    return Operand(x.scalar().is_complex() ? Scalar(std::conj(x.scalar().to_complex()))
                                           : x.scalar());
  return is_complex(x.tensor().dtype()) ? Operand(moonlet::conj(x.tensor())) : x;
}
}  // namespace moonlet::formulas

// autograd/formulas.h: the derivatives that are too long for one expression in an op's row. All are
// made of public ops, so they can be differentiated again.
#pragma once

#include "autograd/formulas_nn.h"
#include "autograd/formulas_pointwise.h"
#include "autograd/formulas_reduce.h"
#include "autograd/formulas_shape.h"

namespace moonlet::formulas {

// The conjugate of an argument that may be a number (for real ones, itself).
Operand conj(const Operand& x);

}  // namespace moonlet::formulas

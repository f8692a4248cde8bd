// autograd/formulas.h: the derivatives that are too long for one expression in an op's row. All are
// made of public ops, so they can be differentiated again.
#pragma once

#include "autograd/formulas_activation.h"
#include "autograd/formulas_arithmetic.h"
#include "autograd/formulas_complex.h"
#include "autograd/formulas_convert.h"
#include "autograd/formulas_gather.h"
#include "autograd/formulas_nn.h"
#include "autograd/formulas_reduce.h"
#include "autograd/formulas_scan.h"
#include "autograd/formulas_shape.h"

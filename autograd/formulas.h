// autograd/formulas.h: the derivatives that are too long for one expression in an op's row. All are
// made of public ops, so they can be differentiated again.
#pragma once

#include "autograd/formulas/activation.h"
#include "autograd/formulas/arithmetic.h"
#include "autograd/formulas/common.h"
#include "autograd/formulas/complex.h"
#include "autograd/formulas/decomposition.h"
#include "autograd/formulas/fft.h"
#include "autograd/formulas/gather.h"
#include "autograd/formulas/index.h"
#include "autograd/formulas/linalg.h"
#include "autograd/formulas/loss.h"
#include "autograd/formulas/math.h"
#include "autograd/formulas/nn.h"
#include "autograd/formulas/normalization.h"
#include "autograd/formulas/recurrent.h"
#include "autograd/formulas/reduce.h"
#include "autograd/formulas/scan.h"
#include "autograd/formulas/shape.h"
#include "autograd/formulas/softmax.h"
#include "autograd/formulas/special.h"

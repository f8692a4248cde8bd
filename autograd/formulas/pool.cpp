// autograd/formulas/pool.cpp: what the derivatives of pooling need.
#include "autograd/formulas/pool.h"

namespace moonlet::formulas {

Dims plane_of(const Dims& sizes) { return {sizes[sizes.size() - 2], sizes.back()}; }

}  // namespace moonlet::formulas

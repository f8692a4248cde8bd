// tensor/cpu/gemm/gemm_blocked.h: matrix products of any size without a library (the build option
// blas=bundled).
#pragma once

#include "tensor/cpu/gemm/gemm.h"

namespace moonlet::cpu {

// c = alpha a b + beta c for float32, float64 and the complex types; none is empty, and c overlaps
// neither a nor b. With beta 0, c is not read. The bits of c do not depend on the number of
// threads.
void blocked_gemm(DType dtype, const Scalar& alpha, const Matrix& a, const Matrix& b,
                  const Scalar& beta, const Matrix& c);

}  // namespace moonlet::cpu

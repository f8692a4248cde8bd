// tensor/cpu/gemm/gemm_small.h: products of small matrices, for which a call of BLAS takes longer
// than the arithmetic.
#pragma once

#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/gemm/gemm.h"

namespace moonlet::cpu {

// Matrices of one shape: the first, and how many elements the next one lies behind it.
struct Matrices {
  Matrix first;
  int64_t step = 0;
};

inline constexpr int64_t kSmallSide = thresholds::gemm::kSmallSide,
                         kSmallWork = thresholds::gemm::kSmallWork;

// c = alpha a b + beta c for `count` matrices each, when they are small or suit panels
// (gemm_panels.h), and of float32 or float64;
// c overlaps neither a nor b. Returns whether they were.
bool small_products(DType dtype, int64_t count, const Scalar& alpha, const Matrices& a,
                    const Matrices& b, const Scalar& beta, const Matrices& c);

}  // namespace moonlet::cpu

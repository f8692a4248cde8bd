// tensor/cpu/gemm/gemm_panels.h: products of matrices of middle size, where our own loops are
// faster than the libraries.
#pragma once

#include "tensor/cpu/gemm/gemm_small.h"

namespace moonlet::cpu {

// A b that was packed before: its panels, and how many there are of all columns. No data: it was
// not.
struct PackedPanels {
  const void* data = nullptr;
  int64_t panels = 0;
};

// c = alpha a b + beta c for `count` matrices each, of float32 or float64, when that is faster so;
// c overlaps neither a nor b. Returns whether it was. Last bits of c may depend on the number of
// threads, by which the rows are split.
bool panel_products(DType dtype, int64_t count, const Scalar& alpha, const Matrices& a,
                    const Matrices& b, const Scalar& beta, const Matrices& c);

}  // namespace moonlet::cpu

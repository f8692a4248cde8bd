// tensor/cpu/gemm_onednn.h: float32 matrix products by oneDNN.
#pragma once

#include "tensor/cpu/gemm_tiles.h"

namespace moonlet::cpu {

// Computes the product when oneDNN is likely to be faster than BLAS: its kernels are from some size
// on, and sooner where an operand lies transposed. Returns whether it did.
bool onednn_gemm(const Product<float>& product);

}  // namespace moonlet::cpu

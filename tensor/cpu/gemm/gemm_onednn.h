// tensor/cpu/gemm/gemm_onednn.h: float32 and bfloat16 matrix products by oneDNN.
#pragma once

#include "tensor/cpu/gemm/gemm.h"
#include "tensor/cpu/gemm/gemm_tiles.h"

namespace moonlet::cpu {

// Computes the product when oneDNN is likely to be faster than BLAS: its kernels are from some size
// on, and sooner where an operand lies transposed. Returns whether it did.
bool onednn_gemm(const Product<float>& product);

// Whether the processor has instructions for products of bfloat16.
bool multiplies_bfloat16();

// c = alpha a b + beta c for bfloat16, where the processor multiplies it and the product is large
// enough to be worth a call; the latter for each entry of a batch. Returns whether it did.
bool onednn_gemm_bfloat16(double alpha, const Matrix& a, const Matrix& b, double beta,
                          const Matrix& c);
bool onednn_bmm_bfloat16(double alpha, const Tensor& a, const Tensor& b, double beta,
                         const Tensor& c);

}  // namespace moonlet::cpu

// tensor/cpu/gemm/gemm_simd.h: products that BLAS libraries have not, or slower, by whole vectors.
#pragma once

#include <cstdint>

#include "tensor/core/half.h"

namespace moonlet::cpu {

// c (m, n) += a (m, k) b (k, n) modulo 2^64; the rows of c are ldc elements apart, and so on. Looks
// at the stop flag between blocks.
void integer_product(int64_t m, int64_t n, int64_t k, const uint64_t* a, int64_t lda,
                     const uint64_t* b, int64_t ldb, uint64_t* c, int64_t ldc);

// The sum of a[i] b[i], and y[i] += factor a[i], modulo 2^64.
uint64_t integer_dot(const uint64_t* a, const uint64_t* b, int64_t n);
void integer_add_scaled(uint64_t factor, const uint64_t* a, uint64_t* y, int64_t n);

// The sum of a[i] b[i], of 16-bit floats in float.
float vector_dot(const half* a, const half* b, int64_t n);
float vector_dot(const bfloat16* a, const bfloat16* b, int64_t n);
float vector_dot(const float* a, const float* b, int64_t n);
double vector_dot(const double* a, const double* b, int64_t n);
// y[i] += factor a[i]
void half_add_scaled(float factor, const half* a, float* y, int64_t n);
void half_add_scaled(float factor, const bfloat16* a, float* y, int64_t n);

}  // namespace moonlet::cpu

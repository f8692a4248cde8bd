// tensor/cpu/reduce.h: the reduction engine's parts: vectorised folds over runs and rows of floats,
// and `reduce_dims`, which brings any reduction to (outer, n, inner) passes.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace moonlet::cpu {

enum class Fold { Sum, SumSquares, SumAbs, Max, Min };

// The fold of n numbers, with several accumulators; Max and Min give NaN when one is there. Callers
// keep n below kRunLength, so that rounding errors do not grow with the whole length.
template <class T>
T fold_run(Fold kind, const T* x, int64_t n);
// acc[j] = fold of acc[j] and x[i * stride + j] for all i < rows, j < cols.
template <class T>
void fold_rows(Fold kind, T* acc, const T* x, int64_t rows, int64_t stride, int64_t cols);

inline constexpr int64_t kRunLength = 8192;

}  // namespace moonlet::cpu

// tensor/cpu/pool/pool.h: pooling over the windows of one row of outputs by whole vectors, and of
// images whose channels lie beside each other.
#pragma once

#include <cstdint>

#include "tensor/core/tensor.h"
#include "tensor/functors/pool_window.h"

namespace moonlet::cpu {

// Windows beside each other, all of them inside the plane: `rows` times `taps` elements each.
template <class T>
struct PoolRow {
  const T* in;      // the first element of the first window
  int64_t windows;  // how many
  int64_t stride;   // from one window to the next
  int64_t rows, row_step;
  int64_t taps, tap_step;
};

// The largest element of each window, NaN if there is one, and its position: `first` is that of the
// first window's first element. For float, double and int64_t; positions are counted in integers of
// that size.
template <class T>
void max_row(const PoolRow<T>& row, int64_t first, T* values, int64_t* positions);

// The sums over the windows, divided; for float and double.
template <class T>
void mean_row(const PoolRow<T>& row, T divisor, T* means);

// Whether images (n, c, h, w) lie so that the functions below are the faster ones.
bool pools_channels(const Tensor& images);
// The kernels of pool.cpp for such images; for T float, double and int64_t.
template <class T>
void max_channels(const Tensor& x, const PoolWindow& w, T nothing, Tensor& result, Tensor& indices);
void max_channels_grad(const Tensor& grad, const Tensor& indices, Tensor& result);
void mean_channels(const Tensor& x, const PoolWindow& w, Tensor& result);
void mean_channels_grad(const Tensor& grad, const PoolWindow& w, Tensor& result);

}  // namespace moonlet::cpu

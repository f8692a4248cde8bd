// tensor/cpu/gemm/gemm_tiles.h: a matrix product as BLAS libraries take it, and how its result is
// cut: a share for each thread, and pieces small enough that a request to stop is met soon.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "tensor/cpu/common/thresholds.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet::cpu {

// Tiles of rows x cols, in rows first; those at the ends are smaller.
struct Tiling {
  int64_t rows, cols;  // of one tile
  int64_t down, across;
  int64_t count() const { return down * across; }
};

struct Tile {
  int64_t row, col, rows, cols;
};

inline Tile tile_at(const Tiling& t, int64_t m, int64_t n, int64_t i) {
  const int64_t row = i / t.across * t.rows, col = i % t.across * t.cols;
  return {row, col, std::min(t.rows, m - row), std::min(t.cols, n - col)};
}

// c (m, n) = alpha a b + beta c, all row by row. A flipped operand lies transposed.
template <class T>
struct Product {
  bool flip_a, flip_b;
  int64_t m, n, k;
  T alpha;
  const T* a;
  int64_t lda;
  const T* b;
  int64_t ldb;
  T beta;
  T* c;
  int64_t ldc;

  // What the terms [from, from + count) of the inner sums give, added to the ones before.
  Product terms(int64_t from, int64_t count) const {
    Product out = *this;
    out.k = count;
    out.a += flip_a ? from * lda : from;
    out.b += flip_b ? from : from * ldb;
    if (from > 0) out.beta = T(1);
    return out;
  }

  Product part(const Tile& t) const {
    Product out = *this;
    out.m = t.rows;
    out.n = t.cols;
    out.a += flip_a ? t.row : t.row * lda;
    out.b += flip_b ? t.col * ldb : t.col;
    out.c += t.row * ldc + t.col;
    return out;
  }
};

inline constexpr double kTileWork = thresholds::gemm::kTileWork,
                        kElementWork = thresholds::gemm::kElementWork;
inline constexpr int64_t kTileDepth = thresholds::gemm::kTileDepth;
inline constexpr int64_t kTileRows = thresholds::gemm::kTileRows,
                         kTileCols = thresholds::gemm::kTileCols,
                         kShortestSide = thresholds::gemm::kShortestSide;

inline int64_t share(int64_t size, int64_t parts, int64_t unit) {
  return ((size + parts - 1) / parts + unit - 1) / unit * unit;
}

// The cut of the result for that many threads.
template <class T>
Tiling tiling_for(const Product<T>& p, int64_t threads) {
  const int64_t m = p.m, n = p.n;
  const double depth = std::max(double(p.k), kElementWork);
  if (threads == 1 && double(m) * double(n) * depth <= kTileWork) return {m, n, 1, 1};
  int64_t rows = m, cols = n;
  double least = std::numeric_limits<double>::infinity();
  for (int64_t down = 1; down <= threads; ++down) {
    if (threads % down != 0) continue;
    const int64_t height = std::min(m, share(m, down, kTileRows));
    const int64_t width = std::min(n, share(n, threads / down, kTileCols));
    // What each thread multiplies, and reads besides; to read b across its rows takes longer.
    const double cost = double(height) * double(width) + 16.0 * double(height) +
                        (p.flip_b ? 64.0 : 16.0) * double(width);
    if (cost >= least) continue;
    least = cost;
    rows = height;
    cols = width;
  }
  while (double(rows) * double(cols) * depth > kTileWork && std::max(rows, cols) > kShortestSide) {
    if (rows > cols)
      rows = share(rows, 2, kTileRows);
    else
      cols = share(cols, 2, kTileCols);
  }
  return {rows, cols, (m + rows - 1) / rows, (n + cols - 1) / cols};
}

// Calls compute(product) for the products that make up tile t of p, one after the other.
template <class T, class Compute>
void each_depth(const Product<T>& p, const Tile& t, Compute&& compute) {
  const Product<T> part = p.part(t);
  for (int64_t from = 0; from < p.k; from += kTileDepth) {
    if (from > 0) stop_if_requested();
    compute(part.terms(from, std::min(kTileDepth, p.k - from)));
  }
}

}  // namespace moonlet::cpu

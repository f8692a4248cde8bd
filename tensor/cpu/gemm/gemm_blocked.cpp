// tensor/cpu/gemm/gemm_blocked.cpp: matrix products of any size by whole vectors, one version per
// instruction set, chosen when the program runs. Blocks of both operands are packed so that a tile
// of the result, which stays in registers, reads memory in order (Goto and van de Geijn, 2008).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/gemm/gemm_blocked.cpp"
//
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/pointwise/pointwise_targets.h"
//
#include "hwy/foreach_target.h"
//
#include <algorithm>

#include "hwy/highway.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/gemm/gemm_blocked.h"
#include "tensor/cpu/gemm/gemm_parts.h"
#include "tensor/cpu/gemm/gemm_simd.h"

#ifndef MOONLET_BLOCKED_TYPES
#define MOONLET_BLOCKED_TYPES
namespace moonlet::cpu::blocked {

// A matrix of T, strides in elements.
template <class T>
struct View {
  T* data;
  int64_t row, col;
  View at(int64_t i, int64_t j) const { return {data + i * row + j * col, row, col}; }
};

// c (rows, cols) = alpha a b + beta c for packed panels of a and b, `depth` terms.
template <class T>
struct Block {
  const T *a, *b;
  int64_t depth, rows, cols;
  T alpha, beta;
  View<T> c;
};

}  // namespace moonlet::cpu::blocked
#endif

HWY_BEFORE_NAMESPACE();
namespace moonlet::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Names of their own beside those of the other products.
namespace blocked_simd {

using blocked::Block;
using blocked::View;

constexpr int kRows = HWY_TARGET == HWY_AVX3 ? thresholds::gemm::kPanelTileRowsWide
                                             : thresholds::gemm::kPanelTileRows;
constexpr int kVectors = thresholds::gemm::kPanelTileVectors;

// The part of a tile that is there, from sums whose rows are `width` long.
template <class T>
HWY_NOINLINE void store_part(int64_t rows, int64_t cols, const T* sums, int64_t width, T alpha,
                             T beta, View<T> c) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = 0; j < cols; ++j) {
      T& y = c.data[r * c.row + j * c.col];
      y = beta == T(0) ? alpha * sums[r * width + j] : alpha * sums[r * width + j] + beta * y;
    }
}

// c (rows, cols) of at most a tile = alpha a b + beta c.
template <class T>
HWY_INLINE void tile(const T* HWY_RESTRICT a, const T* HWY_RESTRICT b, int64_t depth, int64_t rows,
                     int64_t cols, T alpha, T beta, View<T> c) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(d);
  for (int64_t p = 0; p < depth; ++p, a += kRows, b += kVectors * lanes) {
    hn::Vec<decltype(d)> columns[kVectors];
    for (int v = 0; v < kVectors; ++v) columns[v] = hn::LoadU(d, b + v * lanes);
    for (int r = 0; r < kRows; ++r) {
      const auto factor = hn::Set(d, a[r]);
      for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(factor, columns[v], sums[r][v]);
    }
  }
  if (rows < kRows || cols < kVectors * lanes || c.col != 1) {
    HWY_ALIGN T part[kRows * kVectors * hn::MaxLanes(d)];
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < kVectors; ++v)
        hn::Store(sums[r][v], d, part + (r * kVectors + v) * lanes);
    return store_part<T>(rows, cols, part, kVectors * lanes, alpha, beta, c);
  }
  const auto factor = hn::Set(d, alpha), keep = hn::Set(d, beta);
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) {
      T* const to = c.data + r * c.row + v * lanes;
      auto sum = hn::Mul(factor, sums[r][v]);
      if (beta != T(0)) sum = hn::MulAdd(keep, hn::LoadU(d, to), sum);
      hn::StoreU(sum, d, to);
    }
}

// A panel of b stays in the first cache while the rows of a pass by.
template <class T>
void block_of(const Block<T>& m) {
  const int64_t width = kVectors * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  for (int64_t j = 0; j < m.cols; j += width)
    for (int64_t i = 0; i < m.rows; i += kRows)
      tile<T>(m.a + i * m.depth, m.b + j * m.depth, m.depth, std::min<int64_t>(kRows, m.rows - i),
              std::min(width, m.cols - j), m.alpha, m.beta, m.c.at(i, j));
}

// y += the sum of x[p] a[p * step] over four p, for a vector of each.
template <class D, class T>
HWY_INLINE void add_four(D d, const T* HWY_RESTRICT a, int64_t step, const T* x,
                         T* HWY_RESTRICT y) {
  auto sum = hn::LoadU(d, y);
  for (int p = 0; p < 4; ++p) sum = hn::MulAdd(hn::Set(d, x[p]), hn::LoadU(d, a + p * step), sum);
  hn::StoreU(sum, d, y);
}

// The same for n elements, each by the same instructions wherever it is.
template <class T>
void add_columns_of(const T* HWY_RESTRICT a, int64_t step, const T* x, T* HWY_RESTRICT y,
                    int64_t n) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) add_four(d, a + i, step, x, y + i);
  for (; i < n; ++i) add_four(hn::CappedTag<T, 1>(), a + i, step, x, y + i);
}

}  // namespace blocked_simd

void blocked_f32(const blocked::Block<float>& m) { blocked_simd::block_of(m); }
void blocked_f64(const blocked::Block<double>& m) { blocked_simd::block_of(m); }
void blocked_columns_f32(const float* a, int64_t step, const float* x, float* y, int64_t n) {
  blocked_simd::add_columns_of(a, step, x, y, n);
}
void blocked_columns_f64(const double* a, int64_t step, const double* x, double* y, int64_t n) {
  blocked_simd::add_columns_of(a, step, x, y, n);
}
int64_t blocked_tile_rows() { return blocked_simd::kRows; }
int64_t blocked_tile_bytes() {
  return blocked_simd::kVectors * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<uint8_t>()));
}

}  // namespace HWY_NAMESPACE
}  // namespace moonlet::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moonlet::cpu {

HWY_EXPORT(blocked_f32);
HWY_EXPORT(blocked_f64);
HWY_EXPORT(blocked_columns_f32);
HWY_EXPORT(blocked_columns_f64);
HWY_EXPORT(blocked_tile_rows);
HWY_EXPORT(blocked_tile_bytes);

namespace {

using blocked::Block;
using blocked::View;

constexpr int64_t kDepth = thresholds::gemm::kPanelDepth, kHigh = thresholds::gemm::kPanelHigh,
                  kWide = thresholds::gemm::kSimdColumns;

void compute(const Block<float>& m) { HWY_DYNAMIC_DISPATCH(blocked_f32)(m); }
void compute(const Block<double>& m) { HWY_DYNAMIC_DISPATCH(blocked_f64)(m); }
void add_columns(const float* a, int64_t step, const float* x, float* y, int64_t n) {
  HWY_DYNAMIC_DISPATCH(blocked_columns_f32)(a, step, x, y, n);
}
void add_columns(const double* a, int64_t step, const double* x, double* y, int64_t n) {
  HWY_DYNAMIC_DISPATCH(blocked_columns_f64)(a, step, x, y, n);
}

int64_t rounded(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

template <class T>
View<T> view_of(const Matrix& m) {
  return {reinterpret_cast<T*>(m.data), m.row_stride, m.col_stride};
}

// to[p * width + j] = m[p, j] for `depth` rows of `cols` columns, with zeros up to `width`.
template <class T>
void pack_panel(View<const T> m, int64_t depth, int64_t cols, int64_t width, T* to) {
  if (m.col == 1) {
    for (int64_t p = 0; p < depth; ++p, to += width) {
      std::copy_n(m.data + p * m.row, cols, to);
      std::fill(to + cols, to + width, T(0));
    }
    return;
  }
  // Some rows at a time, so that what is written stays in the cache.
  constexpr int64_t kRun = thresholds::gemm::kConvertedRows;
  for (int64_t p0 = 0; p0 < depth; p0 += kRun) {
    const int64_t end = std::min(depth, p0 + kRun);
    for (int64_t j = 0; j < cols; ++j) {
      const T* from = m.data + j * m.col;
      for (int64_t p = p0; p < end; ++p) to[p * width + j] = from[p * m.row];
    }
    for (int64_t j = cols; j < width; ++j)
      for (int64_t p = p0; p < end; ++p) to[p * width + j] = T(0);
  }
}

// All panels of `cols` columns, one behind the other.
template <class T>
void pack_panels(View<const T> m, int64_t depth, int64_t cols, int64_t width, T* to) {
  parallel_for((cols + width - 1) / width, grain_for(depth * width),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i)
                   pack_panel<T>(m.at(0, i * width), depth, std::min(width, cols - i * width),
                                 width, to + i * width * depth);
               });
}

// One product; what is packed lies in `a_panels` and `b_panels`.
template <class T>
struct Gemm {
  int64_t m, n, k;
  T alpha, beta;
  View<const T> a, b;
  View<T> c;
  const int64_t tile_rows = HWY_DYNAMIC_DISPATCH(blocked_tile_rows)();
  const int64_t tile_cols =
      HWY_DYNAMIC_DISPATCH(blocked_tile_bytes)() / static_cast<int64_t>(sizeof(T));
  T *a_panels = nullptr, *b_panels = nullptr;

  // Rows that are packed together: a block for each thread.
  int64_t rows_at_once() const {
    return std::min(rounded(m, tile_rows), kHigh * std::max(1, omp_get_max_threads()));
  }
  int64_t cols_at_once() const { return std::min(rounded(n, tile_cols), kWide); }

  void run() {
    const int64_t deep = std::min(k, kDepth);
    const Tensor held_a = empty_plain({rows_at_once() * deep}, {dtype_of<T>, {}}, "matmul"),
                 held_b = empty_plain({cols_at_once() * deep}, {dtype_of<T>, {}}, "matmul");
    a_panels = held_a.elements<T>();
    b_panels = held_b.elements<T>();
    for (int64_t j = 0; j < n; j += kWide)
      for (int64_t p = 0; p < k; p += kDepth) {
        const int64_t depth = std::min(kDepth, k - p), cols = std::min(kWide, n - j);
        pack_panels<T>(b.at(p, j), depth, cols, tile_cols, b_panels);
        for (int64_t i = 0; i < m; i += rows_at_once()) {
          stop_if_requested();
          add_rows(i, std::min(rows_at_once(), m - i), j, cols, p, depth);
        }
      }
  }

  // Adds the terms [p, p + depth) to rows [i, i + rows) of `cols` columns from j on.
  void add_rows(int64_t i, int64_t rows, int64_t j, int64_t cols, int64_t p, int64_t depth) {
    const View<const T> from = a.at(i, p);
    pack_panels<T>({from.data, from.col, from.row}, depth, rows, tile_rows, a_panels);
    // Pieces of the result: blocks of rows, and of columns where these are too few for all threads.
    const int64_t high = std::min(kHigh, rounded(rows, tile_rows));
    const int64_t down = (rows + high - 1) / high;
    const int threads = thread_count(rows * cols * depth, thresholds::gemm::kPanelGrain);
    const int64_t across = (threads + down - 1) / down;
    const int64_t wide = rounded((cols + across - 1) / across, tile_cols);
    const int64_t pieces_across = (cols + wide - 1) / wide;
    parallel_for(
        down * pieces_across, grain_for(high * wide * depth), [&](int64_t begin, int64_t end) {
          for (int64_t piece = begin; piece < end; ++piece) {
            const int64_t r = piece / pieces_across * high, s = piece % pieces_across * wide;
            compute({a_panels + r * depth, b_panels + s * depth, depth, std::min(high, rows - r),
                     std::min(wide, cols - s), alpha, p > 0 ? T(1) : beta, c.at(i + r, j + s)});
          }
        });
  }
};

// c (m) = alpha sum + beta c for sums(i).
template <class T, class Sums>
void store_column(View<T> c, int64_t begin, int64_t end, T alpha, T beta, Sums&& sums) {
  for (int64_t i = begin; i < end; ++i) {
    T& y = c.data[i * c.row];
    y = beta == T(0) ? alpha * sums(i) : alpha * sums(i) + beta * y;
  }
}

// The product with one column, of an a whose rows or columns lie dense.
template <class T>
void column_product(const Gemm<T>& g) {
  const Tensor held = empty_plain({g.k + g.m}, {dtype_of<T>, {}}, "matmul");
  T *x = held.elements<T>(), *sums = x + g.k;
  for (int64_t p = 0; p < g.k; ++p) x[p] = g.b.data[p * g.b.row];
  parallel_for(g.m, grain_for(g.k), [&](int64_t begin, int64_t end) {
    if (g.a.col == 1)
      return store_column<T>(g.c, begin, end, g.alpha, g.beta, [&](int64_t i) {
        T sum = 0;
        serial_for(g.k, 1, [&](int64_t first, int64_t last) {
          sum += vector_dot(g.a.data + i * g.a.row + first, x + first, last - first);
        });
        return sum;
      });
    std::fill(sums + begin, sums + end, T(0));
    int64_t p = 0;
    for (; p + 4 <= g.k; p += 4) {
      if (p > 0) stop_if_requested();
      add_columns(g.a.data + p * g.a.col + begin, g.a.col, x + p, sums + begin, end - begin);
    }
    for (; p < g.k; ++p)
      for (int64_t i = begin; i < end; ++i) sums[i] += x[p] * g.a.data[i + p * g.a.col];
    store_column<T>(g.c, begin, end, g.alpha, g.beta, [&](int64_t i) { return sums[i]; });
  });
}

template <class T>
void real_product(T alpha, const Matrix& a, const Matrix& b, T beta, const Matrix& c) {
  // Rows that lie dense are written by whole vectors.
  if (c.cols != 1 && (c.rows == 1 || (c.row_stride == 1 && c.col_stride != 1)))
    return real_product<T>(alpha, transposed(b), transposed(a), beta, transposed(c));
  Gemm<T> g{c.rows,       c.cols, a.cols, alpha, beta, view_of<const T>(a), view_of<const T>(b),
            view_of<T>(c)};
  if (g.n == 1 && (g.a.col == 1 || g.a.row == 1)) return column_product(g);
  g.run();
}

// A part of a complex matrix, as a matrix of its own.
template <class R>
Matrix part_of(const Matrix& m, bool imaginary) {
  return {m.data + (imaginary ? sizeof(R) : 0), m.rows, m.cols, 2 * m.row_stride, 2 * m.col_stride};
}

// By four products of real matrices.
template <class T, class R = typename T::value_type>
void complex_product(T alpha, const Matrix& a, const Matrix& b, T beta, const Matrix& c) {
  const Tensor held = empty_plain({2, c.rows, c.cols}, {dtype_of<R>, {}}, "matmul");
  R* const re = held.elements<R>();
  R* const im = re + c.rows * c.cols;
  const auto out = [&](R* to) {
    return Matrix{reinterpret_cast<char*>(to), c.rows, c.cols, c.cols, 1};
  };
  const Matrix ar = part_of<R>(a, false), ai = part_of<R>(a, true), br = part_of<R>(b, false),
               bi = part_of<R>(b, true);
  real_product<R>(1, ar, br, 0, out(re));
  real_product<R>(-1, ai, bi, 1, out(re));
  real_product<R>(1, ar, bi, 0, out(im));
  real_product<R>(1, ai, br, 1, out(im));
  parallel_for(c.rows, grain_for(c.cols), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      for (int64_t j = 0; j < c.cols; ++j) {
        T& y = reinterpret_cast<T*>(c.data)[i * c.row_stride + j * c.col_stride];
        const T sum = alpha * T(re[i * c.cols + j], im[i * c.cols + j]);
        y = beta == T(0) ? sum : sum + beta * y;
      }
  });
}

}  // namespace

void blocked_gemm(DType dtype, const Scalar& alpha, const Matrix& a, const Matrix& b,
                  const Scalar& beta, const Matrix& c) {
  switch (dtype) {
    case DType::Float32: return real_product<float>(alpha.to<float>(), a, b, beta.to<float>(), c);
    case DType::Float64:
      return real_product<double>(alpha.to<double>(), a, b, beta.to<double>(), c);
    case DType::Complex64:
      return complex_product<complex64>(alpha.to<complex64>(), a, b, beta.to<complex64>(), c);
    case DType::Complex128:
      return complex_product<complex128>(alpha.to<complex128>(), a, b, beta.to<complex128>(), c);
    default: fail("matmul: no product of ", name(dtype), " by blocks");
  }
}

}  // namespace moonlet::cpu
#endif

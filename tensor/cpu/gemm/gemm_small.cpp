// tensor/cpu/gemm/gemm_small.cpp: products of small matrices by whole vectors, one version per
// instruction set, chosen when the program runs. A tile of the result stays in registers for the
// whole of its inner sums.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/gemm/gemm_small.cpp"
//
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/pointwise/pointwise_targets.h"
//
#include "hwy/foreach_target.h"
//
#include <algorithm>

#include "hwy/highway.h"
#include "tensor/cpu/gemm/gemm_panels.h"
#include "tensor/cpu/gemm/gemm_small.h"

HWY_BEFORE_NAMESPACE();
namespace moonlet::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The rows and vectors of a tile, and the rows that wait for their factors.
constexpr int64_t kTileRows = thresholds::gemm::kSmallTileRows,
                  kTileVectors = thresholds::gemm::kSmallTileVectors,
                  kWaitingRows = thresholds::gemm::kSmallWaitingRows;

// Rows that lie `row` elements apart, and their elements `col`.
template <class T>
struct Rows {
  T* data;
  int64_t row, col = 1;
  Rows from(int64_t i) const { return {data + i * row, row, col}; }
};

// to (kRows, kVectors vectors) = a (kRows, k) b, whose rows are whole vectors.
template <int kRows, int kVectors, class T>
HWY_INLINE void tile(Rows<const T> a, int64_t k, const T* b, int64_t b_row, Rows<T> to) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  hn::Vec<decltype(d)> sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(d);
  for (int64_t p = 0; p < k; ++p, b += b_row) {
    hn::Vec<decltype(d)> columns[kVectors];
    for (int v = 0; v < kVectors; ++v) columns[v] = hn::LoadU(d, b + v * lanes);
    for (int r = 0; r < kRows; ++r) {
      const auto factor = hn::Set(d, a.data[r * a.row + p * a.col]);
      for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(factor, columns[v], sums[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[r][v], d, to.data + r * to.row + v * lanes);
}

// to (m, kVectors vectors) = a (m, k) b
template <int kVectors, class T>
HWY_INLINE void tiles(int64_t m, Rows<const T> a, int64_t k, const T* b, int64_t b_row,
                      Rows<T> to) {
  int64_t i = 0;
  for (; i + kTileRows <= m; i += kTileRows)
    tile<kTileRows, kVectors>(a.from(i), k, b, b_row, to.from(i));
  for (; i < m; ++i) tile<1, kVectors>(a.from(i), k, b, b_row, to.from(i));
}

// to (m, width) = a (m, k) b, in whole vectors.
template <class T>
HWY_INLINE void product(int64_t m, int64_t width, Rows<const T> a, int64_t k, Rows<const T> b,
                        Rows<T> to) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  int64_t j = 0;
  for (; j + kTileVectors * lanes <= width; j += kTileVectors * lanes)
    tiles<kTileVectors, T>(m, a, k, b.data + j, b.row, {to.data + j, to.row});
  for (; j < width; j += lanes) tiles<1, T>(m, a, k, b.data + j, b.row, {to.data + j, to.row});
}

// The rows of b one after the other, `width` elements apart.
template <class T>
void pack(int64_t k, int64_t n, Rows<const T> b, int64_t width, T* to) {
  constexpr int64_t kColumns = thresholds::gemm::kSmallPackColumns;
  if (b.col == 1) {
    for (int64_t p = 0; p < k; ++p) std::copy_n(b.data + p * b.row, n, to + p * width);
    return;
  }
  int64_t j = 0;
  for (; j + kColumns <= n; j += kColumns) {
    const T* from = b.data + j * b.col;
    T* row = to + j;
    for (int64_t p = 0; p < k; ++p, from += b.row, row += width)
      for (int64_t c = 0; c < kColumns; ++c) row[c] = from[c * b.col];
  }
  for (; j < n; ++j)
    for (int64_t p = 0; p < k; ++p) to[p * width + j] = b.data[p * b.row + j * b.col];
}

// c = alpha sums + beta c; with beta 0, c is not read.
template <class T>
void store(int64_t m, int64_t n, T alpha, Rows<const T> sums, T beta, Rows<T> c) {
  for (int64_t i = 0; i < m; ++i) {
    const T* const from = sums.from(i).data;
    T* const to = c.from(i).data;
    if (beta == T(0))
      for (int64_t j = 0; j < n; ++j) to[j] = alpha * from[j];
    else
      for (int64_t j = 0; j < n; ++j) to[j] = alpha * from[j] + beta * to[j];
  }
}

template <class T>
Rows<T> entry(const Matrices& m, int64_t i) {
  return {reinterpret_cast<T*>(m.first.data) + i * m.step, m.first.row_stride, m.first.col_stride};
}

// c lies row by row.
template <class T>
void products(int64_t count, T alpha, const Matrices& a, const Matrices& b, T beta,
              const Matrices& c) {
  constexpr int64_t kRoom = kSmallSide + HWY_MAX_BYTES / sizeof(T);
  HWY_ALIGN T packed[kSmallSide * kRoom];
  HWY_ALIGN T sums[kWaitingRows * kRoom];
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  const int64_t m = c.first.rows, n = c.first.cols, k = a.first.cols;
  const int64_t width = (n + lanes - 1) / lanes * lanes;
  const bool in_place = width == n && b.first.col_stride == 1;
  const bool direct = width == n && alpha == T(1) && beta == T(0);
  // Zeros stand behind the rows.
  if (width != n) std::fill_n(packed, k * width, T(0));
  for (int64_t e = 0; e < count; ++e) {
    const Rows<const T> left = entry<const T>(a, e);
    const Rows<T> to = entry<T>(c, e);
    Rows<const T> right = entry<const T>(b, e);
    if (!in_place) {
      pack(k, n, right, width, packed);
      right = {packed, width};
    }
    if (direct) {
      product(m, width, left, k, right, to);
      continue;
    }
    for (int64_t i = 0; i < m; i += kWaitingRows) {
      const int64_t rows = std::min(kWaitingRows, m - i);
      product<T>(rows, width, left.from(i), k, right, {sums, width});
      store<T>(rows, n, alpha, {sums, width}, beta, to.from(i));
    }
  }
}

void products_f32(int64_t count, float alpha, const Matrices& a, const Matrices& b, float beta,
                  const Matrices& c) {
  products(count, alpha, a, b, beta, c);
}
void products_f64(int64_t count, double alpha, const Matrices& a, const Matrices& b, double beta,
                  const Matrices& c) {
  products(count, alpha, a, b, beta, c);
}

}  // namespace HWY_NAMESPACE
}  // namespace moonlet::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moonlet::cpu {

HWY_EXPORT(products_f32);
HWY_EXPORT(products_f64);

namespace {

Matrices transposed(const Matrices& m) { return {transposed(m.first), m.step}; }

bool lies_by_rows(const Matrix& m) { return m.col_stride == 1 || m.cols == 1; }

// Vectors are left to BLAS.
bool is_small(const Matrix& b, const Matrix& c) {
  return c.rows > 1 && c.cols > 1 && b.rows <= kSmallSide && b.cols <= kSmallSide &&
         b.rows * b.cols * c.rows <= kSmallWork;
}

}  // namespace

bool small_products(DType dtype, int64_t count, const Scalar& alpha, const Matrices& a,
                    const Matrices& b, const Scalar& beta, const Matrices& c) {
  if (dtype != DType::Float32 && dtype != DType::Float64) return false;
  if (!lies_by_rows(c.first)) {
    return lies_by_rows(transposed(c.first)) &&
           small_products(dtype, count, alpha, transposed(b), transposed(a), beta, transposed(c));
  }
  if (!is_small(b.first, c.first)) return panel_products(dtype, count, alpha, a, b, beta, c);
  if (dtype == DType::Float64) {
    HWY_DYNAMIC_DISPATCH(products_f64)(count, alpha.to_double(), a, b, beta.to_double(), c);
    return true;
  }
  HWY_DYNAMIC_DISPATCH(products_f32)(count, alpha.to<float>(), a, b, beta.to<float>(), c);
  return true;
}

}  // namespace moonlet::cpu
#endif

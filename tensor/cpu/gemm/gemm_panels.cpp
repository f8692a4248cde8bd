// tensor/cpu/gemm/gemm_panels.cpp: products of middle size by whole vectors, one version per
// instruction set, chosen when the program runs. Some columns of b at a time are packed as a panel;
// a tile of the result stays in registers for all of a panel's rows.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/gemm/gemm_panels.cpp"
//
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/pointwise/pointwise_targets.h"
//
#include "hwy/foreach_target.h"
//
#include <algorithm>

#include "hwy/highway.h"
#include "moonlet_config.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/common/prepared_operands.h"
#include "tensor/cpu/gemm/gemm_panels.h"
#include "tensor/cpu/gemm/gemm_tiles.h"

HWY_BEFORE_NAMESPACE();
namespace moonlet::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Names of their own beside those of gemm_small.cpp.
namespace panels {

// The rows of a tile, of which each instruction set has registers for so many, and its vectors.
constexpr int kRowsOfTile = HWY_TARGET == HWY_AVX3 ? thresholds::gemm::kPanelTileRowsWide
                                                   : thresholds::gemm::kPanelTileRows;
constexpr int kTileVectors = thresholds::gemm::kPanelTileVectors;

// Rows that lie `row` elements apart, and their elements `col`.
template <class T>
struct Rows {
  T* data;
  int64_t row, col = 1;
  Rows at(int64_t i, int64_t j) const { return {data + i * row + j * col, row, col}; }
};

// c = alpha sums + beta c; with beta 0, c is not read.
template <class T>
struct Scale {
  T alpha, beta;
};

// The same for rows of which `cols` elements are there, fewer than the sums; these lie one after
// the other, `width` elements apart.
template <class T>
HWY_NOINLINE void store_part(int64_t rows, int64_t cols, const T* sums, int64_t width,
                             const Scale<T>& scale, Rows<T> c) {
  for (int64_t r = 0; r < rows; ++r, sums += width, c.data += c.row)
    for (int64_t j = 0; j < cols; ++j)
      c.data[j] = scale.beta == T(0) ? scale.alpha * sums[j]
                                     : scale.alpha * sums[j] + scale.beta * c.data[j];
}

// c (kRows, cols) = alpha a (kRows, k) b + beta c for a b whose rows are kVectors vectors.
template <int kRows, int kVectors, class T>
HWY_INLINE void tile(Rows<const T> a, int64_t k, const T* HWY_RESTRICT b, int64_t b_row,
                     const Scale<T>& scale, Rows<T> c, int64_t cols) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(d);
  const T* HWY_RESTRICT from = a.data;
  for (int64_t p = 0; p < k; ++p, b += b_row, from += a.col) {
    hn::Vec<decltype(d)> columns[kVectors];
    for (int v = 0; v < kVectors; ++v) columns[v] = hn::LoadU(d, b + v * lanes);
    for (int r = 0; r < kRows; ++r) {
      const auto factor = hn::Set(d, from[r * a.row]);
      for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(factor, columns[v], sums[r][v]);
    }
  }
  // Indices of sums that are not constants would keep them in memory.
  if (cols < kVectors * lanes) {
    HWY_ALIGN T part[kRows * kVectors * hn::MaxLanes(d)];
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < kVectors; ++v)
        hn::Store(sums[r][v], d, part + (r * kVectors + v) * lanes);
    return store_part<T>(kRows, cols, part, kVectors * lanes, scale, c);
  }
  const auto alpha = hn::Set(d, scale.alpha), beta = hn::Set(d, scale.beta);
  if (scale.beta == T(0)) {
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < kVectors; ++v)
        hn::StoreU(hn::Mul(alpha, sums[r][v]), d, c.data + r * c.row + v * lanes);
    return;
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) {
      T* const to = c.data + r * c.row + v * lanes;
      hn::StoreU(hn::MulAdd(beta, hn::LoadU(d, to), hn::Mul(alpha, sums[r][v])), d, to);
    }
}

// The same for m rows.
template <int kVectors, class T>
HWY_INLINE void tiles(int64_t m, Rows<const T> a, int64_t k, const T* b, int64_t b_row,
                      const Scale<T>& scale, Rows<T> c, int64_t cols) {
  for (; m >= kRowsOfTile; m -= kRowsOfTile, a = a.at(kRowsOfTile, 0), c = c.at(kRowsOfTile, 0))
    tile<kRowsOfTile, kVectors>(a, k, b, b_row, scale, c, cols);
  if (kRowsOfTile > 4 && m >= 4) {
    tile<4, kVectors>(a, k, b, b_row, scale, c, cols);
    m -= 4, a = a.at(4, 0), c = c.at(4, 0);
  }
  for (; m > 0; --m, a = a.at(1, 0), c = c.at(1, 0))
    tile<1, kVectors>(a, k, b, b_row, scale, c, cols);
}

#if HWY_TARGET != HWY_SCALAR
// A vector of 16 bytes each from `from`, `from` + step and so on.
template <class D, class T>
HWY_INLINE hn::Vec<D> blocks(D d, const T* from, int64_t step) {
  if constexpr (sizeof(T) * hn::MaxLanes(D()) <= 16) {
    return hn::LoadU(d, from);
  } else {
    const hn::Half<D> half;
    constexpr int64_t kHalf = hn::MaxLanes(D()) * sizeof(T) / 32;
    return hn::Combine(d, blocks(half, from + kHalf * step, step), blocks(half, from, step));
  }
}

// Rows [0, block) of as many columns as a vector has, which lie col elements apart, one after the
// other; a block of rows is 16 bytes of each column.
template <class D>
HWY_INLINE void turn_block(D d, const float* from, int64_t col, float* to, int64_t width) {
  const hn::RepartitionToWide<D> wide;
  const auto row = [&](int r) HWY_ATTR { return blocks(d, from + r * col, 4 * col); };
  const auto v0 = row(0), v1 = row(1), v2 = row(2), v3 = row(3);
  const auto a = hn::BitCast(wide, hn::InterleaveLower(d, v0, v1));
  const auto b = hn::BitCast(wide, hn::InterleaveLower(d, v2, v3));
  const auto c = hn::BitCast(wide, hn::InterleaveUpper(d, v0, v1));
  const auto e = hn::BitCast(wide, hn::InterleaveUpper(d, v2, v3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(wide, a, b)), d, to);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(wide, a, b)), d, to + width);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(wide, c, e)), d, to + 2 * width);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(wide, c, e)), d, to + 3 * width);
}
template <class D>
HWY_INLINE void turn_block(D d, const double* from, int64_t col, double* to, int64_t width) {
  const auto v0 = blocks(d, from, 2 * col), v1 = blocks(d, from + col, 2 * col);
  hn::StoreU(hn::InterleaveLower(d, v0, v1), d, to);
  hn::StoreU(hn::InterleaveUpper(d, v0, v1), d, to + width);
}

// As many columns, which lie dense, as a vector has elements; returns the first row that is left.
template <class T>
int64_t turn(int64_t k, const T* from, int64_t col, T* to, int64_t width) {
  constexpr int64_t kBlock = 16 / sizeof(T);
  int64_t p = 0;
  for (; p + kBlock <= k; p += kBlock)
    turn_block(hn::ScalableTag<T>(), from + p, col, to + p * width, width);
  return p;
}
#else
template <class T>
int64_t turn(int64_t, const T*, int64_t, T*, int64_t) {
  return 0;
}
#endif

// The rows of n columns of b one after the other, `width` elements apart, with zeros behind.
template <class T>
void pack(int64_t k, int64_t n, Rows<const T> b, int64_t width, T* to) {
  if (b.col == 1) {
    for (int64_t p = 0; p < k; ++p, to += width) {
      for (int64_t j = 0; j < n; ++j) to[j] = b.data[p * b.row + j];
      for (int64_t j = n; j < width; ++j) to[j] = T(0);
    }
    return;
  }
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  for (int64_t j = 0; j < width; j += lanes) {
    const int64_t there = std::clamp<int64_t>(n - j, 0, lanes);
    int64_t p = 0;
    if (b.row == 1 && there == lanes) p = turn(k, b.data + j * b.col, b.col, to + j, width);
    for (; p < k; ++p)
      for (int64_t c = 0; c < lanes; ++c)
        to[p * width + j + c] = c < there ? b.data[p * b.row + (j + c) * b.col] : T(0);
  }
}

template <class T>
Rows<T> entry(const Matrices& m, int64_t i) {
  return {reinterpret_cast<T*>(m.first.data) + i * m.step, m.first.row_stride, m.first.col_stride};
}

// Whether the columns of a panel are read where they lie: dense, in whole vectors, and rather than
// from lines of the cache that take each other's room.
template <class T>
bool lies_well(int64_t m, int64_t k, Rows<const T> b) {
  constexpr int64_t kBytes = thresholds::gemm::kPanelInPlaceBytes;
  return b.col == 1 && (m <= kRowsOfTile || k * b.row * int64_t{sizeof(T)} <= kBytes);
}

// Calls f(j, cols, width) for each panel of n columns: its first, how many and how many it has room
// for.
template <class T, class F>
HWY_INLINE void each_panel(int64_t n, F&& f) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  for (int64_t j = 0; j < n; j += kTileVectors * lanes) {
    const int64_t cols = std::min(kTileVectors * lanes, n - j);
    f(j, cols, cols > lanes ? kTileVectors * lanes : lanes);
  }
}

// The panels of a b that was packed before, with room for kDepth rows each: those of the first
// kDepth rows, then the next ones. No data: there are none.
template <class T>
struct Packed {
  static constexpr int64_t kPanel =
      thresholds::gemm::kPanelDepth * kTileVectors * hn::MaxLanes(hn::ScalableTag<T>());
  const T* data = nullptr;
  int64_t panels = 0;  // of all columns
};

// c (m, n) = alpha a b + beta c for at most kDepth terms; c lies row by row. `room` takes a panel,
// where `packed` has none.
template <class T>
void product(int64_t m, int64_t n, int64_t k, const Scale<T>& scale, Rows<const T> a,
             Rows<const T> b, Rows<T> c, T* room, const T* packed) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  const bool in_place = lies_well(m, k, b);
  each_panel<T>(n, [&](int64_t j, int64_t cols, int64_t width) HWY_ATTR {
    Rows<const T> panel = b.at(0, j);
    if (packed != nullptr) {
      panel = {packed + j / (kTileVectors * lanes) * Packed<T>::kPanel, width};
    } else if (!in_place || cols != width) {
      pack(k, cols, panel, width, room);
      panel = {room, width};
    }
    if (width == lanes)
      tiles<1>(m, a, k, panel.data, panel.row, scale, c.at(0, j), cols);
    else
      tiles<kTileVectors>(m, a, k, panel.data, panel.row, scale, c.at(0, j), cols);
  });
}

// The same for any number of terms, by blocks of a that stay in the cache.
template <class T>
void blocks_of(int64_t m, int64_t n, int64_t k, Scale<T> scale, Rows<const T> a, Rows<const T> b,
               Rows<T> c, T* room, const Packed<T>& packed) {
  constexpr int64_t kDepth = thresholds::gemm::kPanelDepth, kHigh = thresholds::gemm::kPanelHigh;
  const T* panels = packed.data;
  for (int64_t p = 0; p < k; p += kDepth, scale.beta = T(1)) {
    for (int64_t i = 0; i < m; i += kHigh)
      product<T>(std::min(kHigh, m - i), n, std::min(kDepth, k - p), scale, a.at(i, p), b.at(p, 0),
                 c.at(i, 0), room, panels);
    if (panels != nullptr) panels += packed.panels * Packed<T>::kPanel;
  }
}

template <class T>
void products(int64_t count, T alpha, const Matrices& a, const Matrices& b, T beta,
              const Matrices& c, const PackedPanels& packed) {
  constexpr int64_t kWidth = kTileVectors * hn::MaxLanes(hn::ScalableTag<T>());
  HWY_ALIGN T room[thresholds::gemm::kPanelDepth * kWidth];
  for (int64_t e = 0; e < count; ++e)
    blocks_of<T>(c.first.rows, c.first.cols, a.first.cols, {alpha, beta}, entry<const T>(a, e),
                 entry<const T>(b, e), entry<T>(c, e), room,
                 {static_cast<const T*>(packed.data), packed.panels});
}

// All panels of b.
template <class T>
void pack_all(const Matrices& b, T* to) {
  constexpr int64_t kDepth = thresholds::gemm::kPanelDepth;
  const int64_t k = b.first.rows, n = b.first.cols;
  for (int64_t p = 0; p < k; p += kDepth)
    each_panel<T>(n, [&](int64_t j, int64_t cols, int64_t width) {
      pack(std::min(kDepth, k - p), cols, entry<const T>(b, 0).at(p, j), width, to);
      to += Packed<T>::kPanel;
    });
}

}  // namespace panels

void panel_products_f32(int64_t count, float alpha, const Matrices& a, const Matrices& b,
                        float beta, const Matrices& c, const PackedPanels& packed) {
  panels::products(count, alpha, a, b, beta, c, packed);
}
void panel_products_f64(int64_t count, double alpha, const Matrices& a, const Matrices& b,
                        double beta, const Matrices& c, const PackedPanels& packed) {
  panels::products(count, alpha, a, b, beta, c, packed);
}
void pack_panels_f32(const Matrices& b, float* to) { panels::pack_all(b, to); }
void pack_panels_f64(const Matrices& b, double* to) { panels::pack_all(b, to); }

int64_t panel_vector_bytes() { return static_cast<int64_t>(hn::Lanes(hn::ScalableTag<uint8_t>())); }

}  // namespace HWY_NAMESPACE
}  // namespace moonlet::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moonlet::cpu {

HWY_EXPORT(panel_products_f32);
HWY_EXPORT(panel_products_f64);
HWY_EXPORT(pack_panels_f32);
HWY_EXPORT(pack_panels_f64);
HWY_EXPORT(panel_vector_bytes);

namespace {

bool lies_by_rows(const Matrix& m) { return m.col_stride == 1 || m.cols == 1; }

int64_t bytes_of(DType dtype, int64_t elements) {
  return elements * static_cast<int64_t>(size_of(dtype));
}

// Whether panels are faster than the libraries: they are where these turn an operand first, and in
// float64 for some sizes.
bool suits_panels(DType dtype, const Matrix& a, const Matrix& b, const Matrix& c) {
  namespace limits = thresholds::gemm;
  const int64_t m = c.rows, n = c.cols, k = b.rows;
  if (std::min({m, n, k}) <= 1 || std::max({m, n, k}) > limits::kPanelLongest) return false;
  const int64_t work = m * n * k;
  // What stands for a library packs a too, which pays for larger ones.
  if (!MOONLET_BUNDLED_BLAS &&
      HWY_DYNAMIC_DISPATCH(panel_vector_bytes)() < limits::kPanelVectorBytes)
    return false;
  const bool turns_b = b.col_stride != 1;
  if (turns_b && m < limits::kPanelRows) return false;
  if (a.col_stride != 1 && bytes_of(dtype, k * a.col_stride) > limits::kPanelFlippedBytes)
    return false;
  if (MOONLET_BUNDLED_BLAS) return work <= limits::kPanelWork;
  if (dtype == DType::Float64) return work > limits::kPanelLeast64 && work <= limits::kPanelWork64;
  return (turns_b || a.col_stride != 1) && work <= limits::kPanelWork;
}

Matrices part(const Matrices& m, DType dtype, int64_t row, int64_t col, int64_t rows,
              int64_t cols) {
  Matrices out = m;
  out.first.data += bytes_of(dtype, row * m.first.row_stride + col * m.first.col_stride);
  out.first.rows = rows;
  out.first.cols = cols;
  return out;
}

void compute(DType dtype, int64_t count, const Scalar& alpha, const Matrices& a, const Matrices& b,
             const Scalar& beta, const Matrices& c, const PackedPanels& packed = {}) {
  if (dtype == DType::Float64)
    return HWY_DYNAMIC_DISPATCH(panel_products_f64)(count, alpha.to_double(), a, b,
                                                    beta.to_double(), c, packed);
  HWY_DYNAMIC_DISPATCH(panel_products_f32)
  (count, alpha.to<float>(), a, b, beta.to<float>(), c, packed);
}

// Columns and bytes of a panel.
int64_t panel_columns(DType dtype) {
  return thresholds::gemm::kPanelTileVectors * HWY_DYNAMIC_DISPATCH(panel_vector_bytes)() /
         static_cast<int64_t>(size_of(dtype));
}
int64_t panel_bytes(DType dtype) {
  return bytes_of(dtype, thresholds::gemm::kPanelDepth * panel_columns(dtype));
}

// Those of columns from `from` to before `to` of n, where these are whole panels.
PackedPanels packed_part(PackedPanels all, DType dtype, int64_t from, int64_t to, int64_t n) {
  const int64_t columns = panel_columns(dtype);
  if (all.data == nullptr || from % columns != 0 || (to % columns != 0 && to != n)) return {};
  all.data = static_cast<const char*>(all.data) + from / columns * panel_bytes(dtype);
  return all;
}

// The panels of a b that stays the same from run to run of a program, packed once.
PackedPanels packed_panels(DType dtype, const Matrices& b) {
  // One that lies row by row is read in place by most products.
  if (prepared_operands == nullptr || b.first.col_stride == 1) return {};
  static const std::shared_ptr<const void> layouts[] = {std::make_shared<int>(32),
                                                        std::make_shared<int>(64)};
  constexpr int64_t kDepth = thresholds::gemm::kPanelDepth;
  const int64_t k = b.first.rows, n = b.first.cols;
  PackedPanels out;
  out.panels = (n + panel_columns(dtype) - 1) / panel_columns(dtype);
  const int64_t bytes = (k + kDepth - 1) / kDepth * out.panels * panel_bytes(dtype);
  const PreparedOperands::Form form = {{k, n, b.first.row_stride, b.first.col_stride},
                                       layouts[dtype == DType::Float64]};
  const Tensor* const kept =
      prepared_operands->get(b.first.data, form, static_cast<size_t>(bytes), [&](Tensor& to) {
        if (dtype == DType::Float64)
          HWY_DYNAMIC_DISPATCH(pack_panels_f64)(b, reinterpret_cast<double*>(to.raw()));
        else
          HWY_DYNAMIC_DISPATCH(pack_panels_f32)(b, reinterpret_cast<float*>(to.raw()));
      });
  if (kept != nullptr) out.data = kept->raw();
  return out;
}

// One product, whose rows or columns are shared among the threads; each of the result's elements is
// computed as by one thread.
void compute_shared(DType dtype, const Scalar& alpha, const Matrices& a, const Matrices& b,
                    const Scalar& beta, const Matrices& c) {
  const int64_t m = c.first.rows, n = c.first.cols, k = a.first.cols;
  const int threads = thread_count(m * n * k, thresholds::gemm::kPanelGrain);
  const PackedPanels packed = packed_panels(dtype, b);
  if (threads == 1) return compute(dtype, 1, alpha, a, b, beta, c, packed);
  const bool by_rows = m >= n;
  const int64_t size = by_rows ? share(m, threads, kTileRows) : share(n, threads, kTileCols);
  parallel_for(((by_rows ? m : n) + size - 1) / size, 1, [&](int64_t begin, int64_t end) {
    const int64_t from = begin * size, to = std::min(by_rows ? m : n, end * size);
    if (by_rows)
      compute(dtype, 1, alpha, part(a, dtype, from, 0, to - from, k), b, beta,
              part(c, dtype, from, 0, to - from, n), packed);
    else
      compute(dtype, 1, alpha, a, part(b, dtype, 0, from, k, to - from), beta,
              part(c, dtype, 0, from, m, to - from), packed_part(packed, dtype, from, to, n));
  });
}

}  // namespace

bool panel_products(DType dtype, int64_t count, const Scalar& alpha, const Matrices& a,
                    const Matrices& b, const Scalar& beta, const Matrices& c) {
  if (dtype != DType::Float32 && dtype != DType::Float64) return false;
  if (!lies_by_rows(c.first) || !suits_panels(dtype, a.first, b.first, c.first)) return false;
  if (count == 1)
    compute_shared(dtype, alpha, a, b, beta, c);
  else
    compute(dtype, count, alpha, a, b, beta, c);
  return true;
}

}  // namespace moonlet::cpu
#endif

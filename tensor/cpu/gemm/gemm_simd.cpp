// tensor/cpu/gemm/gemm_simd.cpp: products of integer matrices, and of vectors of 16-bit floats, one
// version per instruction set, chosen when the program runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/gemm/gemm_simd.cpp"
//
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/pointwise/pointwise_targets.h"
//
#include "hwy/foreach_target.h"
//
#include <vector>
#include "hwy/highway.h"

#include "tensor/cpu/gemm/gemm_simd.h"
#include "tensor/cpu/simd/widened-inl.h"
#include "tensor/runtime/interrupt.h"

HWY_BEFORE_NAMESPACE();
namespace moonlet::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using moonlet::HWY_NAMESPACE::widened;

// --- integers ------------------------------------------------------------------------------------

// Blocks in cache: kDeep terms of the inner sums for kWide columns of b, packed, and kHigh rows of
// a. A tile of c is kTileHigh rows by two vectors.
constexpr int64_t kDeep = thresholds::gemm::kSimdDepth, kWide = thresholds::gemm::kSimdColumns,
                  kHigh = thresholds::gemm::kSimdRows, kTileHigh = thresholds::gemm::kSimdTileRows;

// a * b modulo 2^64; only AVX-512 multiplies 64 bits at once.
template <class D, class V>
HWY_INLINE V multiply(D d, V a, V b) {
#if HWY_TARGET == HWY_AVX3
  return hn::Mul(a, b);
#elif HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
  HWY_ALIGN uint64_t left[hn::MaxLanes(D())], right[hn::MaxLanes(D())];
  hn::Store(a, d, left);
  hn::Store(b, d, right);
  for (size_t i = 0; i < hn::Lanes(d); ++i) left[i] *= right[i];
  return hn::Load(d, left);
#else
  const hn::Repartition<uint32_t, D> halves;
  const auto low_a = hn::BitCast(halves, a), low_b = hn::BitCast(halves, b);
  const auto crossed = hn::Mul(low_a, hn::Shuffle2301(low_b));
  const auto both = hn::Add(crossed, hn::Shuffle2301(crossed));
  return hn::Add(hn::MulEven(low_a, low_b), hn::ShiftLeft<32>(hn::BitCast(d, both)));
#endif
}

// panel[p * width + j] = b[p * ldb + j], and 0 beyond the `cols` columns.
void pack(const uint64_t* b, int64_t ldb, int64_t depth, int64_t cols, int64_t width,
          uint64_t* panel) {
  for (int64_t p = 0; p < depth; ++p)
    for (int64_t j = 0; j < width; ++j) panel[p * width + j] = j < cols ? b[p * ldb + j] : 0;
}

// sums (kRows, 2 vectors) = a (kRows, depth) times a panel of two vectors' width.
template <int kRows, class D>
HWY_INLINE void tile(D d, const uint64_t* HWY_RESTRICT a, int64_t lda,
                     const uint64_t* HWY_RESTRICT panel, int64_t depth, uint64_t* sums) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<D> left[kRows], right[kRows];
  for (int r = 0; r < kRows; ++r) left[r] = right[r] = hn::Zero(d);
  for (int64_t p = 0; p < depth; ++p) {
    const auto b0 = hn::LoadU(d, panel + p * 2 * lanes);
    const auto b1 = hn::LoadU(d, panel + p * 2 * lanes + lanes);
    for (int r = 0; r < kRows; ++r) {
      const auto factor = hn::Set(d, a[r * lda + p]);
      left[r] = hn::Add(left[r], multiply(d, factor, b0));
      right[r] = hn::Add(right[r], multiply(d, factor, b1));
    }
  }
  for (int r = 0; r < kRows; ++r) {
    hn::StoreU(left[r], d, sums + r * 2 * lanes);
    hn::StoreU(right[r], d, sums + r * 2 * lanes + lanes);
  }
}

// c (rows, cols) += a (rows, depth) times one panel.
template <class D>
void panel_product(D d, int64_t rows, int64_t cols, int64_t depth, const uint64_t* a, int64_t lda,
                   const uint64_t* panel, uint64_t* c, int64_t ldc) {
  const int64_t width = 2 * static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN uint64_t sums[kTileHigh * 2 * hn::MaxLanes(D())];
  for (int64_t i = 0; i < rows;) {
    const int64_t high = rows - i >= kTileHigh ? kTileHigh : 1;
    if (high == 1)
      tile<1>(d, a + i * lda, lda, panel, depth, sums);
    else
      tile<kTileHigh>(d, a + i * lda, lda, panel, depth, sums);
    for (int64_t r = 0; r < high; ++r)
      for (int64_t j = 0; j < cols; ++j) c[(i + r) * ldc + j] += sums[r * width + j];
    i += high;
  }
}

void integer_product_of(int64_t m, int64_t n, int64_t k, const uint64_t* a, int64_t lda,
                        const uint64_t* b, int64_t ldb, uint64_t* c, int64_t ldc) {
  const hn::ScalableTag<uint64_t> d;
  const int64_t width = 2 * static_cast<int64_t>(hn::Lanes(d));
  const int64_t wide = std::min(kWide, (n + width - 1) / width * width), deep = std::min(kDeep, k);
  std::vector<uint64_t> packed(static_cast<size_t>(wide * deep));
  for (int64_t j0 = 0; j0 < n; j0 += kWide)
    for (int64_t p0 = 0; p0 < k; p0 += kDeep) {
      const int64_t cols = std::min(kWide, n - j0), depth = std::min(kDeep, k - p0);
      for (int64_t j = 0; j < cols; j += width)
        pack(b + p0 * ldb + j0 + j, ldb, depth, std::min(width, cols - j), width,
             packed.data() + j * depth);
      for (int64_t i = 0; i < m; i += kHigh)
        for (int64_t j = 0; j < cols; j += width) {
          stop_if_requested();
          panel_product(d, std::min(kHigh, m - i), std::min(width, cols - j), depth,
                        a + i * lda + p0, lda, packed.data() + j * depth, c + i * ldc + j0 + j,
                        ldc);
        }
    }
}

uint64_t integer_dot_of(const uint64_t* HWY_RESTRICT a, const uint64_t* HWY_RESTRICT b, int64_t n) {
  const hn::ScalableTag<uint64_t> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto even = hn::Zero(d), odd = even;
  int64_t i = 0;
  const auto at = [&](int64_t k)
                      HWY_ATTR { return multiply(d, hn::LoadU(d, a + k), hn::LoadU(d, b + k)); };
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    even = hn::Add(even, at(i));
    odd = hn::Add(odd, at(i + lanes));
  }
  uint64_t sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
  for (; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

void integer_add_scaled_of(uint64_t factor, const uint64_t* HWY_RESTRICT a,
                           uint64_t* HWY_RESTRICT y, int64_t n) {
  const hn::ScalableTag<uint64_t> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto f = hn::Set(d, factor);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(hn::Add(hn::LoadU(d, y + i), multiply(d, f, hn::LoadU(d, a + i))), d, y + i);
  for (; i < n; ++i) y[i] += factor * a[i];
}

// --- Floats --------------------------------------------------------------------------------------

template <class T>
compute_t<T> dot_of(const T* HWY_RESTRICT a, const T* HWY_RESTRICT b, int64_t n) {
  using Sum = compute_t<T>;
  const hn::ScalableTag<Sum> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  int64_t i = 0;
  const auto at = [&](int64_t k) HWY_ATTR { return widened(d, a + k); };
  const auto of = [&](int64_t k) HWY_ATTR { return widened(d, b + k); };
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    s0 = hn::MulAdd(at(i), of(i), s0);
    s1 = hn::MulAdd(at(i + lanes), of(i + lanes), s1);
    s2 = hn::MulAdd(at(i + 2 * lanes), of(i + 2 * lanes), s2);
    s3 = hn::MulAdd(at(i + 3 * lanes), of(i + 3 * lanes), s3);
  }
  for (; i + lanes <= n; i += lanes) s0 = hn::MulAdd(at(i), of(i), s0);
  Sum sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
  for (; i < n; ++i) sum += static_cast<Sum>(a[i]) * static_cast<Sum>(b[i]);
  return sum;
}

template <class T>
void add_scaled_of(float factor, const T* HWY_RESTRICT a, float* HWY_RESTRICT y, int64_t n) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto f = hn::Set(d, factor);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(hn::MulAdd(f, widened(d, a + i), hn::LoadU(d, y + i)), d, y + i);
  for (; i < n; ++i) y[i] += factor * static_cast<float>(a[i]);
}

float dot_f16(const half* a, const half* b, int64_t n) { return dot_of(a, b, n); }
float dot_bf16(const bfloat16* a, const bfloat16* b, int64_t n) { return dot_of(a, b, n); }
float dot_f32(const float* a, const float* b, int64_t n) { return dot_of(a, b, n); }
double dot_f64(const double* a, const double* b, int64_t n) { return dot_of(a, b, n); }
void add_scaled_f16(float f, const half* a, float* y, int64_t n) { add_scaled_of(f, a, y, n); }
void add_scaled_bf16(float f, const bfloat16* a, float* y, int64_t n) { add_scaled_of(f, a, y, n); }

}  // namespace HWY_NAMESPACE
}  // namespace moonlet::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moonlet::cpu {

HWY_EXPORT(integer_product_of);
HWY_EXPORT(integer_dot_of);
HWY_EXPORT(integer_add_scaled_of);
HWY_EXPORT(dot_f16);
HWY_EXPORT(dot_bf16);
HWY_EXPORT(dot_f32);
HWY_EXPORT(dot_f64);
HWY_EXPORT(add_scaled_f16);
HWY_EXPORT(add_scaled_bf16);

void integer_product(int64_t m, int64_t n, int64_t k, const uint64_t* a, int64_t lda,
                     const uint64_t* b, int64_t ldb, uint64_t* c, int64_t ldc) {
  HWY_DYNAMIC_DISPATCH(integer_product_of)(m, n, k, a, lda, b, ldb, c, ldc);
}
uint64_t integer_dot(const uint64_t* a, const uint64_t* b, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(integer_dot_of)(a, b, n);
}
void integer_add_scaled(uint64_t factor, const uint64_t* a, uint64_t* y, int64_t n) {
  HWY_DYNAMIC_DISPATCH(integer_add_scaled_of)(factor, a, y, n);
}
float vector_dot(const half* a, const half* b, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(dot_f16)(a, b, n);
}
float vector_dot(const bfloat16* a, const bfloat16* b, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(dot_bf16)(a, b, n);
}
float vector_dot(const float* a, const float* b, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(dot_f32)(a, b, n);
}
double vector_dot(const double* a, const double* b, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(dot_f64)(a, b, n);
}
void half_add_scaled(float factor, const half* a, float* y, int64_t n) {
  HWY_DYNAMIC_DISPATCH(add_scaled_f16)(factor, a, y, n);
}
void half_add_scaled(float factor, const bfloat16* a, float* y, int64_t n) {
  HWY_DYNAMIC_DISPATCH(add_scaled_bf16)(factor, a, y, n);
}

}  // namespace moonlet::cpu
#endif

// tensor/cpu/fft/fft_rows.cpp: complex numbers to and from the arrays of a batch, one version per
// instruction set. Short rows are transposed: in registers by blocks, or by two interleavings of
// four rows.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/fft/fft_rows.cpp"
//
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/pointwise/pointwise_targets.h"
//
#include "hwy/foreach_target.h"
//
#include <algorithm>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "tensor/cpu/fft/fft.h"

HWY_BEFORE_NAMESPACE();
namespace moonlet::cpu::fft {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Rows of `count` complex numbers, `stride` numbers apart, that are fetched before they are read:
// no prefetcher sees through long strides.
constexpr int64_t kAhead = thresholds::fft::kAhead;
template <class T>
HWY_INLINE void fetch(const T* row, int64_t count) {
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
  for (int64_t i = 0; i < 2 * count; i += kLine) hwy::Prefetch(row + i);
}

template <class T>
HWY_INLINE void split_row(const T* x, T* re, T* im, int64_t count) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::Vec<decltype(d)> a, b;
    hn::LoadInterleaved2(d, x + 2 * i, a, b);
    hn::StoreU(a, d, re + i);
    hn::StoreU(b, d, im + i);
  }
  for (; i < count; ++i) {
    re[i] = x[2 * i];
    im[i] = x[2 * i + 1];
  }
}

template <class T>
HWY_INLINE void join_row(const T* re, const T* im, T scale, T* y, int64_t count) {
  const hn::ScalableTag<T> d;
  const auto factor = hn::Set(d, scale);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreInterleaved2(hn::Mul(hn::LoadU(d, re + i), factor),
                          hn::Mul(hn::LoadU(d, im + i), factor), d, y + 2 * i);
  for (; i < count; ++i) {
    y[2 * i] = re[i] * scale;
    y[2 * i + 1] = im[i] * scale;
  }
}

template <class T>
HWY_INLINE void split(const T* x, int64_t stride, int64_t n, int64_t count, T* re, T* im) {
  for (int64_t i = 0; i < n; ++i) {
    if (i + kAhead < n) fetch(x + 2 * stride * (i + kAhead), count);
    split_row(x + 2 * stride * i, re + count * i, im + count * i, count);
  }
}
template <class T>
HWY_INLINE void join(const T* re, const T* im, T scale, T* y, int64_t stride, int64_t n,
                     int64_t count) {
  for (int64_t i = 0; i < n; ++i) {
    if (i + kAhead < n) fetch(y + 2 * stride * (i + kAhead), count);
    join_row(re + count * i, im + count * i, scale, y + 2 * stride * i, count);
  }
}

void split_f32(const float* x, int64_t stride, int64_t n, int64_t count, float* re, float* im) {
  split(x, stride, n, count, re, im);
}
void split_f64(const double* x, int64_t stride, int64_t n, int64_t count, double* re, double* im) {
  split(x, stride, n, count, re, im);
}
void join_f32(const float* re, const float* im, float scale, float* y, int64_t stride, int64_t n,
              int64_t count) {
  join(re, im, scale, y, stride, n, count);
}
void join_f64(const double* re, const double* im, double scale, double* y, int64_t stride,
              int64_t n, int64_t count) {
  join(re, im, scale, y, stride, n, count);
}

// Four rows of complex numbers, each of which is one lane.
struct Rows {
  float* at[4];
};

// There are no vectors of floats as 64-bit lanes where vectors have one lane.
#if HWY_TARGET != HWY_SCALAR
// out[4 i + j] = row j's number i, from number i on as far as whole vectors go; returns how far.
template <class D>
HWY_INLINE int64_t zip_vectors(D d, const Rows& rows, int64_t i, int64_t n, float* out) {
  const hn::Repartition<float, D> parts;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto load = [&](int j)
                        HWY_ATTR { return hn::BitCast(d, hn::LoadU(parts, rows.at[j] + 2 * i)); };
  for (; i + lanes <= n; i += lanes)
    hn::StoreInterleaved4(load(0), load(1), load(2), load(3), d,
                          reinterpret_cast<uint64_t*>(out + 8 * i));
  return i;
}
// The way back.
template <class D>
HWY_INLINE int64_t unzip_vectors(D d, const float* x, int64_t i, int64_t n, const Rows& rows) {
  const hn::Repartition<float, D> parts;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; i + lanes <= n; i += lanes) {
    hn::Vec<D> a, b, c, e;
    hn::LoadInterleaved4(d, reinterpret_cast<const uint64_t*>(x + 8 * i), a, b, c, e);
    hn::StoreU(hn::BitCast(parts, a), parts, rows.at[0] + 2 * i);
    hn::StoreU(hn::BitCast(parts, b), parts, rows.at[1] + 2 * i);
    hn::StoreU(hn::BitCast(parts, c), parts, rows.at[2] + 2 * i);
    hn::StoreU(hn::BitCast(parts, e), parts, rows.at[3] + 2 * i);
  }
  return i;
}

#else
HWY_INLINE int64_t zip_vectors(hn::Simd<uint64_t, 1, 0>, const Rows&, int64_t i, int64_t, float*) {
  return i;
}
HWY_INLINE int64_t unzip_vectors(hn::Simd<uint64_t, 1, 0>, const float*, int64_t i, int64_t,
                                 const Rows&) {
  return i;
}
#endif

// The same for all n.
HWY_INLINE void zip(const Rows& rows, int64_t n, float* out) {
  int64_t i = zip_vectors(hn::ScalableTag<uint64_t>(), rows, 0, n, out);
  i = zip_vectors(hn::CappedTag<uint64_t, 2>(), rows, i, n, out);
  for (; i < n; ++i)
    for (int j = 0; j < 4; ++j)
      for (int part = 0; part < 2; ++part) out[8 * i + 2 * j + part] = rows.at[j][2 * i + part];
}
HWY_INLINE void unzip(const float* x, int64_t n, const Rows& rows) {
  int64_t i = unzip_vectors(hn::ScalableTag<uint64_t>(), x, 0, n, rows);
  i = unzip_vectors(hn::CappedTag<uint64_t, 2>(), x, i, n, rows);
  for (; i < n; ++i)
    for (int j = 0; j < 4; ++j)
      for (int part = 0; part < 2; ++part) rows.at[j][2 * i + part] = x[8 * i + 2 * j + part];
}

// Rows first, first + 4, first + 8 and first + 12 of a matrix.
Rows every_fourth(float* x, int64_t stride, int64_t first) {
  Rows out;
  for (int j = 0; j < 4; ++j) out.at[j] = x + 2 * stride * (4 * j + first);
  return out;
}
// The four parts of 4 n numbers each of `room`.
Rows quarters(float* room, int64_t n) {
  return {{room, room + 8 * n, room + 16 * n, room + 24 * n}};
}

void interleave(float* x, int64_t stride, int64_t n, float* room, float* out) {
  const Rows parts = quarters(room, n);
  for (int64_t g = 0; g < 4; ++g) zip(every_fourth(x, stride, g), n, parts.at[g]);
  zip(parts, 4 * n, out);
}
void separate(const float* x, int64_t n, float* room, float* out, int64_t stride) {
  const Rows parts = quarters(room, n);
  unzip(x, 4 * n, parts);
  for (int64_t g = 0; g < 4; ++g) unzip(parts.at[g], n, every_fourth(out, stride, g));
}

#if HWY_MAX_BYTES >= 64
using Complex8 = hn::FixedTag<uint64_t, 8>;
using Float16 = hn::FixedTag<float, 16>;

// out[4 b + k] = block b of v[k] for k from 0 to 3 and blocks of 128 bits.
template <class V>
HWY_INLINE void transpose_blocks(V* v) {
  const Complex8 d;
  const auto even = [](V a, V b)
                        HWY_ATTR { return hn::OddEvenBlocks(hn::SwapAdjacentBlocks(b), a); };
  const auto odd = [](V a, V b)
                       HWY_ATTR { return hn::OddEvenBlocks(b, hn::SwapAdjacentBlocks(a)); };
  const V a = even(v[0], v[1]), b = odd(v[0], v[1]), c = even(v[2], v[3]), e = odd(v[2], v[3]);
  v[0] = hn::ConcatLowerLower(d, c, a);
  v[1] = hn::ConcatLowerLower(d, e, b);
  v[2] = hn::ConcatUpperUpper(d, c, a);
  v[3] = hn::ConcatUpperUpper(d, e, b);
}

// Eight vectors of eight complex numbers as the rows of a matrix, which is transposed.
template <class V>
HWY_INLINE void transpose_eight(V* v) {
  const Complex8 d;
  V even[4], odd[4];
  for (int k = 0; k < 4; ++k) {
    even[k] = hn::InterleaveLower(d, v[2 * k], v[2 * k + 1]);
    odd[k] = hn::InterleaveUpper(d, v[2 * k], v[2 * k + 1]);
  }
  transpose_blocks(even);
  transpose_blocks(odd);
  for (int k = 0; k < 4; ++k) {
    v[2 * k] = even[k];
    v[2 * k + 1] = odd[k];
  }
}

// `count` numbers, at most eight, of each of kRows rows to the parts of a batch. Whether there are
// eight is known when this is compiled, which keeps them in registers.
template <bool kEight>
HWY_INLINE void block_apart(const float* x, int64_t stride, int64_t count, float* re, float* im) {
  const Complex8 d;
  const Float16 parts;
  const auto there = hn::FirstN(parts, static_cast<size_t>(2 * count));
  const auto load = [&](int64_t row) HWY_ATTR {
    const float* from = x + 2 * stride * row;
    return hn::BitCast(d, kEight ? hn::LoadU(parts, from) : hn::MaskedLoad(there, parts, from));
  };
  hn::Vec<Complex8> low[8], high[8];
  for (int r = 0; r < 8; ++r) low[r] = load(r);
  for (int r = 0; r < 8; ++r) high[r] = load(r + 8);
  transpose_eight(low);
  transpose_eight(high);
  for (int p = 0; p < 8; ++p) {
    if (!kEight && p >= count) break;
    const auto a = hn::BitCast(parts, low[p]), b = hn::BitCast(parts, high[p]);
    hn::StoreU(hn::ConcatEven(parts, b, a), parts, re + kRows * p);
    hn::StoreU(hn::ConcatOdd(parts, b, a), parts, im + kRows * p);
  }
}

// The way back. Interleaving the parts gives the numbers of rows 0, 1, 4, 5, ... and of the others.
template <bool kEight>
HWY_INLINE void block_together(const float* re, const float* im, float scale, int64_t count,
                               float* y, int64_t stride) {
  const Complex8 d;
  const Float16 parts;
  const auto there = hn::FirstN(parts, static_cast<size_t>(2 * count));
  const auto factor = hn::Set(parts, scale);
  hn::Vec<Complex8> low[8], high[8];
  for (int p = 0; p < 8; ++p) {
    // Beyond the rows' end some number again, which is not stored.
    const int64_t from = kRows * (kEight ? p : std::min<int64_t>(p, count - 1));
    const auto a = hn::Mul(hn::LoadU(parts, re + from), factor);
    const auto b = hn::Mul(hn::LoadU(parts, im + from), factor);
    low[p] = hn::BitCast(d, hn::InterleaveLower(parts, a, b));
    high[p] = hn::BitCast(d, hn::InterleaveUpper(parts, a, b));
  }
  transpose_eight(low);
  transpose_eight(high);
  const auto store = [&](hn::Vec<Complex8> v, int64_t row) HWY_ATTR {
    float* const to = y + 2 * stride * row;
    if (kEight)
      hn::StoreU(hn::BitCast(parts, v), parts, to);
    else
      hn::BlendedStore(hn::BitCast(parts, v), there, parts, to);
  };
  for (int r = 0; r < 8; ++r) {
    store(low[r], r / 2 * 4 + r % 2);
    store(high[r], r / 2 * 4 + r % 2 + 2);
  }
}

// Whole rows; false where there are no such vectors.
bool blocks_apart(const float* x, int64_t stride, int64_t n, float* re, float* im) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    block_apart<true>(x + 2 * i, stride, 8, re + kRows * i, im + kRows * i);
  if (i < n) block_apart<false>(x + 2 * i, stride, n - i, re + kRows * i, im + kRows * i);
  return true;
}
bool blocks_together(const float* re, const float* im, float scale, int64_t n, float* y,
                     int64_t stride) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    block_together<true>(re + kRows * i, im + kRows * i, scale, 8, y + 2 * i, stride);
  if (i < n) block_together<false>(re + kRows * i, im + kRows * i, scale, n - i, y + 2 * i, stride);
  return true;
}
#else
bool blocks_apart(const float*, int64_t, int64_t, float*, float*) { return false; }
bool blocks_together(const float*, const float*, float, int64_t, float*, int64_t) { return false; }
#endif

}  // namespace HWY_NAMESPACE
}  // namespace moonlet::cpu::fft
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moonlet::cpu::fft {

HWY_EXPORT(split_f32);
HWY_EXPORT(split_f64);
HWY_EXPORT(join_f32);
HWY_EXPORT(join_f64);
HWY_EXPORT(interleave);
HWY_EXPORT(separate);
HWY_EXPORT(blocks_apart);
HWY_EXPORT(blocks_together);

void take_apart(const float* x, int64_t stride, int64_t n, int64_t count, float* re, float* im) {
  HWY_DYNAMIC_DISPATCH(split_f32)(x, stride, n, count, re, im);
}
void take_apart(const double* x, int64_t stride, int64_t n, int64_t count, double* re, double* im) {
  HWY_DYNAMIC_DISPATCH(split_f64)(x, stride, n, count, re, im);
}
void put_together(const float* re, const float* im, float scale, float* y, int64_t stride,
                  int64_t n, int64_t count) {
  HWY_DYNAMIC_DISPATCH(join_f32)(re, im, scale, y, stride, n, count);
}
void put_together(const double* re, const double* im, double scale, double* y, int64_t stride,
                  int64_t n, int64_t count) {
  HWY_DYNAMIC_DISPATCH(join_f64)(re, im, scale, y, stride, n, count);
}
void take_rows_apart(const float* x, int64_t stride, int64_t n, float* spare, float* re,
                     float* im) {
  if (HWY_DYNAMIC_DISPATCH(blocks_apart)(x, stride, n, re, im)) return;
  HWY_DYNAMIC_DISPATCH(interleave)
  (const_cast<float*>(x), stride, n, std::min(re, im), spare);
  take_apart(spare, 0, 1, kRows * n, re, im);
}
void put_rows_together(float* re, float* im, float scale, int64_t n, float* spare, float* y,
                       int64_t stride) {
  if (HWY_DYNAMIC_DISPATCH(blocks_together)(re, im, scale, n, y, stride)) return;
  put_together(re, im, scale, spare, 0, 1, kRows * n);
  HWY_DYNAMIC_DISPATCH(separate)(spare, n, std::min(re, im), y, stride);
}

}  // namespace moonlet::cpu::fft
#endif

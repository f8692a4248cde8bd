// tensor/cpu/copy/convert_simd.cpp: conversions, repetitions and reversals of elements that lie one
// after another, one version per instruction set, chosen when the program runs. Most loops are left
// to the compiler, which makes vectors of them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/copy/convert_simd.cpp"
//
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/pointwise/pointwise_targets.h"
//
#include "hwy/foreach_target.h"
//
#include <algorithm>
#include <array>
#include <cstring>

#include "hwy/highway.h"
#include "tensor/cpu/copy/convert.h"

HWY_BEFORE_NAMESPACE();
namespace moonlet::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Converts the whole vectors of n elements, for which the compiler finds no instructions; gives how
// many elements these are.
template <class From, class To>
HWY_INLINE size_t by_vectors(const From*, To*, size_t) {
  return 0;
}
HWY_INLINE size_t by_vectors(const half* from, float* to, size_t n) {
  size_t i = 0;
#if HWY_TARGET <= HWY_AVX2  // emulated elsewhere, without infinities
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> d16;
  const auto* x = reinterpret_cast<const hwy::float16_t*>(from);
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d))
    hn::StoreU(hn::PromoteTo(d, hn::LoadU(d16, x + i)), d, to + i);
#else
  (void)from, (void)to, (void)n;
#endif
  return i;
}
HWY_INLINE size_t by_vectors(const float* from, half* to, size_t n) {
  size_t i = 0;
#if HWY_TARGET <= HWY_AVX2
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> d16;
  auto* y = reinterpret_cast<hwy::float16_t*>(to);
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d))
    hn::StoreU(hn::DemoteTo(d16, hn::LoadU(d, from + i)), d16, y + i);
#else
  (void)from, (void)to, (void)n;
#endif
  return i;
}
// Rounds to nearest even what are no NaN; the upper halves are the result.
template <class V>
HWY_INLINE V round_to_upper_half(V bits) {
  const hn::ScalableTag<uint32_t> d;
  const auto odd = hn::TestBit(bits, hn::Set(d, 0x10000));
  return hn::Add(bits, hn::IfThenElse(odd, hn::Set(d, 0x8000), hn::Set(d, 0x7fff)));
}
HWY_INLINE size_t by_vectors(const float* from, bfloat16* to, size_t n) {
  size_t i = 0;
#if HWY_TARGET <= HWY_AVX2
  const hn::ScalableTag<float> d;
  const hn::ScalableTag<uint32_t> du;
  const hn::ScalableTag<uint16_t> d16;
  auto* y = reinterpret_cast<uint16_t*>(to);
  for (; i + 2 * hn::Lanes(d) <= n; i += 2 * hn::Lanes(d)) {
    const auto a = hn::LoadU(d, from + i), b = hn::LoadU(d, from + i + hn::Lanes(d));
    if (!hn::AllFalse(d, hn::Or(hn::IsNaN(a), hn::IsNaN(b)))) {
      for (size_t k = i; k < i + 2 * hn::Lanes(d); ++k) to[k] = bfloat16(from[k]);
      continue;
    }
    const auto low = round_to_upper_half(hn::BitCast(du, a));
    const auto high = round_to_upper_half(hn::BitCast(du, b));
    hn::StoreU(hn::ConcatOdd(d16, hn::BitCast(d16, high), hn::BitCast(d16, low)), d16, y + i);
  }
#else
  (void)from, (void)to, (void)n;
#endif
  return i;
}
HWY_INLINE size_t by_vectors(const double* from, int64_t* to, size_t n) {
  size_t i = 0;
#if HWY_TARGET <= HWY_AVX3
  // Converting saturates, but for NaN.
  const hn::ScalableTag<double> d;
  const hn::ScalableTag<int64_t> di;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    const auto x = hn::LoadU(d, from + i);
    const auto number = hn::RebindMask(di, hn::Eq(x, x));
    hn::StoreU(hn::IfThenElseZero(number, hn::ConvertTo(di, x)), di, to + i);
  }
#else
  (void)from, (void)to, (void)n;
#endif
  return i;
}

// Real numbers as complex ones.
template <class T>
HWY_INLINE size_t by_vectors(const T* from, std::complex<T>* to, size_t n) {
  const hn::ScalableTag<T> d;
  T* y = reinterpret_cast<T*>(to);
  size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d))
    hn::StoreInterleaved2(hn::LoadU(d, from + i), hn::Zero(d), d, y + 2 * i);
  return i;
}

// The dtype on the way of a conversion that has no loop of its own; To itself for the others.
template <class From, class To>
constexpr auto way() {
  constexpr bool to_int = std::is_integral_v<To> && !std::is_same_v<To, bool>;
  constexpr bool stored = is_storage(dtype_of<From>) || is_storage(dtype_of<To>);
  if constexpr (std::is_same_v<From, To> || is_complex_v<From> || is_complex_v<To> || stored)
    return To();
  else if constexpr (std::is_same_v<From, half> || (is_reduced_floating_v<From> && to_int))
    return float();
  else if constexpr (std::is_same_v<To, half>)
    return std::conditional_t<std::is_same_v<From, float>, half, float>();
  else if constexpr (std::is_same_v<From, float> && to_int)
    return double();
  else if constexpr (std::is_same_v<From, double> && to_int)
    return int64_t();
  else
    return To();
}

template <class From, class To>
void dense(const void* from, void* to, size_t n) {
  using Way = decltype(way<From, To>());
  const From* HWY_RESTRICT x = static_cast<const From*>(from);
  To* HWY_RESTRICT y = static_cast<To*>(to);
  if constexpr (std::is_same_v<From, To>) {
    std::memcpy(y, x, n * sizeof(To));
  } else if constexpr (std::is_same_v<From, bool>) {
    dense<uint8_t, To>(from, to, n);  // bools are 0 and 1, and no compiler makes vectors of them
  } else if constexpr (!std::is_same_v<Way, To>) {
    constexpr size_t kBlock = thresholds::copy::kConvertedBlock;
    Way between[kBlock];
    for (size_t i = 0; i < n; i += kBlock) {
      const size_t count = std::min(kBlock, n - i);
      dense<From, Way>(x + i, between, count);
      dense<Way, To>(between, y + i, count);
    }
  } else {
    size_t i = by_vectors(x, y, n);
    for (; i < n; ++i) y[i] = convert<To>(x[i]);
  }
}

template <class T>
void repeat(const void* value, void* to, size_t n) {
  T one;
  std::memcpy(&one, value, sizeof(T));
  T* out = static_cast<T*>(to);
  size_t i = 0;
  if constexpr (std::is_integral_v<T>) {
    const hn::ScalableTag<T> d;
    const size_t lanes = hn::Lanes(d);
    const auto v = hn::Set(d, one);
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
      hn::StoreU(v, d, out + i);
      hn::StoreU(v, d, out + i + lanes);
      hn::StoreU(v, d, out + i + 2 * lanes);
      hn::StoreU(v, d, out + i + 3 * lanes);
    }
    for (; i + lanes <= n; i += lanes) hn::StoreU(v, d, out + i);
  }
  std::fill_n(out + i, n - i, one);
}

// Elements of 16 bytes are pairs of T.
template <class T, size_t kParts = 1>
void reverse(const void* from, void* to, size_t n) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d) / kParts;
  const T* x = static_cast<const T*>(from);
  T* y = static_cast<T*>(to);
  const auto turned = [&](size_t i) HWY_ATTR {
    const auto v = hn::Reverse(d, hn::LoadU(d, x + (n - i - lanes) * kParts));
    if constexpr (kParts == 2)
      return hn::Reverse2(d, v);
    else
      return v;
  };
  size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto first = turned(i), second = turned(i + lanes);
    hn::StoreU(first, d, y + i * kParts);
    hn::StoreU(second, d, y + (i + lanes) * kParts);
  }
  for (; i < n; ++i) std::copy_n(x + (n - 1 - i) * kParts, kParts, y + i * kParts);
}

// Bytes by words.
void reverse_bytes(const void* from, void* to, size_t n) {
  const uint8_t* x = static_cast<const uint8_t*>(from);
  uint8_t* y = static_cast<uint8_t*>(to);
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    uint64_t word;
    std::memcpy(&word, x + n - i - 8, sizeof word);
    word = __builtin_bswap64(word);
    std::memcpy(y + i, &word, sizeof word);
  }
  std::reverse_copy(x, x + n - i, y + i);
}

// The loop of two dtypes; null where there is none, as conversions go by way of a third.
template <class From, class To>
constexpr DenseConverter dense_of() {
  if constexpr (conversion_way(dtype_of<From>, dtype_of<To>) == dtype_of<To>)
    return dense<From, To>;
  else
    return nullptr;
}

template <class From>
constexpr std::array<DenseConverter, kDTypeCount> row() {
  return {
#define MOONLET_CONVERT(D, NAME, CODE, TYPE, ...) dense_of<From, TYPE>(),
      MOONLET_DTYPES(MOONLET_CONVERT)
#undef MOONLET_CONVERT
  };
}

DenseConverter find_dense_converter(DType from, DType to) {
  static constexpr std::array<DenseConverter, kDTypeCount> table[] = {
#define MOONLET_CONVERT_ROW(D, NAME, CODE, TYPE, ...) row<TYPE>(),
      MOONLET_DTYPES(MOONLET_CONVERT_ROW)
#undef MOONLET_CONVERT_ROW
  };
  return table[static_cast<size_t>(from)][static_cast<size_t>(to)];
}

// The loops for elements of so many bytes.
DenseConverter find_reverser(size_t bytes) {
  switch (bytes) {
    case 1: return reverse_bytes;
    case 2: return reverse<uint16_t>;
    case 4: return reverse<uint32_t>;
    case 8: return reverse<uint64_t>;
    default: return reverse<uint64_t, 2>;
  }
}
DenseConverter find_repeater(size_t bytes) {
  switch (bytes) {
    case 1: return repeat<uint8_t>;
    case 2: return repeat<uint16_t>;
    case 4: return repeat<uint32_t>;
    case 8: return repeat<uint64_t>;
    default: return repeat<std::array<uint64_t, 2>>;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace moonlet::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moonlet::cpu {

HWY_EXPORT(find_dense_converter);
HWY_EXPORT(find_repeater);
HWY_EXPORT(find_reverser);

DenseConverter dense_converter(DType from, DType to) {
  return HWY_DYNAMIC_DISPATCH(find_dense_converter)(from, to);
}

DenseConverter reverser(size_t bytes) { return HWY_DYNAMIC_DISPATCH(find_reverser)(bytes); }

void repeat(const void* value, size_t bytes, void* to, size_t n) {
  const char* byte = static_cast<const char*>(value);
  const bool same = std::all_of(byte, byte + bytes, [&](char b) { return b == *byte; });
  if (same)
    std::memset(to, *byte, n * bytes);
  else
    HWY_DYNAMIC_DISPATCH(find_repeater)(bytes)(value, to, n);
}

}  // namespace moonlet::cpu
#endif

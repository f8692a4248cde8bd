// cuda/kernels/common/sort_keys.cuh: unsigned numbers in the order of elements, of as few bits as
// the dtype needs, which sorting and selecting compare in place of them.
#pragma once

#include "cuda/kernels/common/elements.cuh"
#include "cuda/kernels/common/packs.cuh"

namespace moonlet::cuda {

// How the elements of a dtype become keys of `bits` bits: NaN last and all alike, -0 equal to 0.
struct KeyCode {
  int bits, shift;  // a key is the upper bits of a number of its type
  int64_t bias;     // makes integers of the dtype start at 0
  bool descending;
};

// float16 and bfloat16 are widened: below their digits there are only zeros.
inline KeyCode key_code(DType t, bool descending) {
  const int width = static_cast<int>(size_of(t)) * 8;
  switch (t) {
    case DType::Bool: return {1, 31, 0, descending};
    case DType::UInt8: return {8, 24, 0, descending};
    case DType::Float16: return {19, 13, 0, descending};
    case DType::BFloat16: return {16, 16, 0, descending};
    case DType::Float32:
    case DType::Float64: return {width, 0, 0, descending};
    case DType::Int64: return {64, 0, INT64_MIN, descending};
    default: return {width, 32 - width, int64_t{1} << (width - 1), descending};
  }
}

__device__ __forceinline__ uint32_t whole_key(float v, const KeyCode&) {
  if (v != v) return ~0u;
  const uint32_t bits = moonlet::detail::float_bits(v == 0 ? 0.0f : v);
  return bits >> 31 ? ~bits : bits | 1u << 31;
}
__device__ __forceinline__ uint64_t whole_key(double v, const KeyCode&) {
  if (v != v) return ~uint64_t{0};
  const auto bits = static_cast<uint64_t>(__double_as_longlong(v == 0 ? 0.0 : v));
  return bits >> 63 ? ~bits : bits | uint64_t{1} << 63;
}
__device__ __forceinline__ uint64_t whole_key(int64_t v, const KeyCode& code) {
  return (static_cast<uint64_t>(v) + static_cast<uint64_t>(code.bias)) << code.shift;
}

template <class Key, class C>
__device__ __forceinline__ Key key_of(C v, const KeyCode& code) {
  const auto key = static_cast<Key>(whole_key(v, code));
  return (code.descending ? static_cast<Key>(~key) : key) >> code.shift;
}

// Calls f.template operator()<C, Key>() for a dtype: the type it computes in and that of its keys.
template <class F>
void visit_keys(DType t, F&& f) {
  if (t == DType::Float64) return f.template operator()<double, uint64_t>();
  if (t == DType::Int64) return f.template operator()<int64_t, uint64_t>();
  if (is_floating(t)) return f.template operator()<float, uint32_t>();
  f.template operator()<int64_t, uint32_t>();
}

// A key and where it came from, which makes every item another: an order of items is a stable one
// of keys.
template <class Key>
struct Item {
  Key key;
  uint32_t at;
  __device__ bool before(const Item& b) const { return key < b.key || (key == b.key && at < b.at); }
};
template <>
struct Item<uint32_t> {
  uint32_t at, key;
  __device__ bool before(const Item& b) const {
    return (static_cast<uint64_t>(key) << 32 | at) < (static_cast<uint64_t>(b.key) << 32 | b.at);
  }
};

}  // namespace moonlet::cuda

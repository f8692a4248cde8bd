// tensor/cpu/copy/convert.h: element conversion between any two dtypes over strided runs, and the
// conversion of one value.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "tensor/core/dtype.h"

namespace moonlet::cpu {

// n elements from `from`, `from_stride` bytes apart, to `to`.
using Converter = void (*)(const char* from, int64_t from_stride, char* to, int64_t to_stride,
                           int64_t n);
Converter converter(DType from, DType to);

// n elements from one array to another, which lie apart.
using DenseConverter = void (*)(const void* from, void* to, size_t n);
DenseConverter dense_converter(DType from, DType to);

// Copies n elements of so many bytes, the last one first.
DenseConverter reverser(size_t bytes);

// Writes the one element of so many bytes n times.
void repeat(const void* value, size_t bytes, void* to, size_t n);

// The dtype on the way between two that no loop converts: `to` where one does. Dtypes of storage
// convert to and from the types that kernels compute with them in, and no others.
constexpr DType conversion_way(DType from, DType to) {
  if (from == to || (!is_storage(from) && !is_storage(to))) return to;
  const bool float8 =
      (is_storage(from) && is_floating(from)) || (is_storage(to) && is_floating(to));
  const DType partner = is_storage(from) ? to : from;
  DType way = kind_of(partner) < Kind::Floating ? DType::Int64 : compute_dtype(real_of(partner));
  if (float8) way = DType::Float32;
  return way == from ? to : way;
}

// One value. A float out of int64's range (for uint64, of that above 0) saturates and NaN becomes
// 0; narrower and unsigned integers then keep the low bits. A complex value gives its real part;
// bool is "not zero".
template <class To, class From>
inline To convert(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (is_complex_v<From>) {
    if constexpr (is_complex_v<To>)
      return To(x);
    else if constexpr (std::is_same_v<To, bool>)
      return x != From(0);
    else
      return convert<To>(x.real());
  } else if constexpr (is_reduced_floating_v<From>) {
    return convert<To>(static_cast<float>(x));
  } else if constexpr (is_complex_v<To>) {
    return To(static_cast<typename To::value_type>(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (is_reduced_floating_v<To>) {
    return To(static_cast<float>(x));
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    // The bounds are the largest float below 2^63 and -2^63, which is exact.
    if (!(x >= From(-9223372036854775808.0)))
      return x != x ? To(0) : static_cast<To>(std::numeric_limits<int64_t>::min());
    if constexpr (std::is_same_v<To, uint64_t>) {
      if (x >= From(18446744073709551616.0)) return std::numeric_limits<uint64_t>::max();
      if (x >= From(0)) return static_cast<uint64_t>(x);
    }
    if (x >= From(9223372036854775808.0))
      return static_cast<To>(std::numeric_limits<int64_t>::max());
    return static_cast<To>(static_cast<int64_t>(x));
  } else {
    return static_cast<To>(x);
  }
}

}  // namespace moonlet::cpu

// interp/distributed/reduce.cpp: the elementwise functions of reductions across ranks.
#include "interp/distributed/reduce.h"

#include <algorithm>
#include <complex>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace moonlet {

// As in the library, which this plugin is not linked with.
void refuse_visit(DType, DTypeSet) { throw std::runtime_error("a dtype is not known"); }

}  // namespace moonlet

namespace moonlet::distributed {
namespace {

template <class T>
inline constexpr bool is_complex = false;
template <class T>
inline constexpr bool is_complex<std::complex<T>> = true;
// Storage formats of floats: arithmetic is done in float.
template <class T>
inline constexpr bool narrow = std::is_same_v<T, half> || std::is_same_v<T, bfloat16> ||
                               std::is_same_v<T, float8_e4m3fn> || std::is_same_v<T, float8_e5m2>;

struct Sum {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
      return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    else if constexpr (std::is_same_v<T, bool>)
      return a || b;
    else
      return static_cast<T>(a + b);
  }
};
struct Product {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
      return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else if constexpr (std::is_same_v<T, bool>)
      return a && b;
    else
      return static_cast<T>(a * b);
  }
};
// What is not a number stays.
struct Min {
  template <class T>
  static T of(T a, T b) {
    return a < b || a != a ? a : b;
  }
};
struct Max {
  template <class T>
  static T of(T a, T b) {
    return a > b || a != a ? a : b;
  }
};
struct And {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

template <class Function, class T>
void combine(void* out, const void* a, const void* b, size_t count) {
  auto* const to = static_cast<T*>(out);
  const auto *const left = static_cast<const T*>(a), *const right = static_cast<const T*>(b);
  for (size_t i = 0; i < count; ++i) to[i] = Function::template of<T>(left[i], right[i]);
}

template <class T>
Combine typed(Reduction reduction) {
  switch (reduction) {
    case Reduction::Sum: return combine<Sum, T>;
    case Reduction::Product: return combine<Product, T>;
    default: break;
  }
  if constexpr (!is_complex<T>) {
    if (reduction == Reduction::Min) return combine<Min, T>;
    if (reduction == Reduction::Max) return combine<Max, T>;
  }
  if constexpr (std::is_integral_v<T>) {
    if (reduction == Reduction::And) return combine<And, T>;
    if (reduction == Reduction::Or) return combine<Or, T>;
    if (reduction == Reduction::Xor) return combine<Xor, T>;
  }
  return nullptr;
}

// f(T) with the C++ type of a dtype.
template <class F>
auto with_type(DType dtype, F f) {
  return visit<dtypes::any>(dtype, [&f]<class T>() { return f(T{}); });
}

// Whole blocks at a time, so that the sums stay in the cache.
constexpr size_t kBlock = 4096;

template <class T>
void reduce_narrow(Combine add, const std::vector<const char*>& rows, size_t count, char* out) {
  auto* const to = reinterpret_cast<T*>(out);
  float sum[kBlock], next[kBlock];
  for (size_t start = 0; start < count; start += kBlock) {
    const size_t size = std::min(kBlock, count - start);
    const auto read = [&](size_t row, float* into) {
      const T* const from = reinterpret_cast<const T*>(rows[row]) + start;
      for (size_t i = 0; i < size; ++i) into[i] = static_cast<float>(from[i]);
    };
    read(0, sum);
    for (size_t row = 1; row < rows.size(); ++row) {
      read(row, next);
      add(sum, sum, next, size);
    }
    for (size_t i = 0; i < size; ++i) to[start + i] = T(sum[i]);
  }
}

// What was read last is written, so `out` may be any of the rows.
void reduce_wide(Combine add, size_t width, const std::vector<const char*>& rows, size_t count,
                 char* out) {
  constexpr size_t kWidest = 16;
  alignas(64) char sum[kBlock * kWidest];
  for (size_t start = 0; start < count; start += kBlock) {
    const size_t size = std::min(kBlock, count - start), at = start * width;
    const char* so_far = rows[0] + at;
    for (size_t row = 1; row < rows.size(); ++row) {
      char* const to = row + 1 == rows.size() ? out + at : sum;
      add(to, so_far, rows[row] + at, size);
      so_far = to;
    }
    if (so_far != out + at) std::memcpy(out + at, so_far, size * width);
  }
}

}  // namespace

size_t bytes_of(DType dtype) { return kDTypeSizes[static_cast<size_t>(dtype)]; }

bool is_narrow(DType dtype) {
  return with_type(dtype, [](auto value) { return narrow<decltype(value)>; });
}

Combine combine_of(Reduction reduction, DType dtype) {
  const Combine found = with_type(dtype, [reduction](auto value) -> Combine {
    using T = decltype(value);
    if constexpr (narrow<T>)
      return typed<float>(reduction);
    else
      return typed<T>(reduction);
  });
  if (found == nullptr)
    throw std::runtime_error(std::string(kDTypes[static_cast<size_t>(dtype)].name) +
                             " has no such reduction");
  return found;
}

void reduce_rows(Reduction reduction, DType dtype, const std::vector<const char*>& rows,
                 size_t count, char* out) {
  const Combine add = combine_of(reduction, dtype);
  with_type(dtype, [&](auto value) {
    using T = decltype(value);
    if constexpr (narrow<T>)
      reduce_narrow<T>(add, rows, count, out);
    else
      reduce_wide(add, sizeof(T), rows, count, out);
  });
}

}  // namespace moonlet::distributed

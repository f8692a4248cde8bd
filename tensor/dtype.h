// tensor/dtype.h: the element types: their names, sizes, kinds, sets, promotion order, and
// `visit`, which turns a run-time dtype into a C++ type.
#pragma once

#include <complex>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "tensor/error.h"
#include "tensor/half.h"

namespace moonlet {

enum class DType : uint8_t {
  Bool,
  UInt8,
  Int8,
  Int16,
  Int32,
  Int64,
  Float16,
  BFloat16,
  Float32,
  Float64,
  Complex64,
  Complex128
};
inline constexpr int kDTypeCount = 12;

using complex64 = std::complex<float>;
using complex128 = std::complex<double>;

// A set of dtypes as a bit mask; op rows name the sets they accept.
using DTypeSet = uint16_t;
constexpr DTypeSet bit(DType t) { return static_cast<DTypeSet>(1u << static_cast<int>(t)); }
namespace dtypes {
inline constexpr DTypeSet boolean = bit(DType::Bool);
inline constexpr DTypeSet integral = bit(DType::UInt8) | bit(DType::Int8) | bit(DType::Int16) |
                                     bit(DType::Int32) | bit(DType::Int64);
inline constexpr DTypeSet floating =
    bit(DType::Float16) | bit(DType::BFloat16) | bit(DType::Float32) | bit(DType::Float64);
inline constexpr DTypeSet complex = bit(DType::Complex64) | bit(DType::Complex128);
inline constexpr DTypeSet real = integral | floating;
inline constexpr DTypeSet all = boolean | real | complex;
}  // namespace dtypes

constexpr bool contains(DTypeSet set, DType t) { return (set & bit(t)) != 0; }
constexpr bool is_floating(DType t) { return contains(dtypes::floating, t); }
constexpr bool is_complex(DType t) { return contains(dtypes::complex, t); }
constexpr bool is_integral(DType t) { return contains(dtypes::integral, t); }
// Only floating and complex tensors can require a gradient.
constexpr bool is_differentiable(DType t) {
  return contains(dtypes::floating | dtypes::complex, t);
}

inline constexpr uint8_t kDTypeSizes[kDTypeCount] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16};
constexpr size_t size_of(DType t) { return kDTypeSizes[static_cast<int>(t)]; }

// "float32"; the names scripts use.
std::string_view name(DType t);
// The dtype of that name; throws when there is none, listing the names.
DType dtype_from_name(std::string_view name);
void append(std::string& out, DType t);
// "float16, bfloat16, float32, float64"
std::string names(DTypeSet set);

// The smallest dtype both convert to without losing the kind, as PyTorch's promote_types.
DType promote(DType a, DType b);
// Whether a result of dtype `from` may be stored in place in a tensor of dtype `to`: not from a
// higher kind to a lower one (bool < integer < floating < complex).
bool can_cast(DType from, DType to);
// The real dtype of a complex one's parts, and the complex dtype made of a real one.
DType real_of(DType t);
DType complex_of(DType t);

// clang-format off
template <class T> struct DTypeOf;
template <> struct DTypeOf<bool> { static constexpr DType value = DType::Bool; };
template <> struct DTypeOf<uint8_t> { static constexpr DType value = DType::UInt8; };
template <> struct DTypeOf<int8_t> { static constexpr DType value = DType::Int8; };
template <> struct DTypeOf<int16_t> { static constexpr DType value = DType::Int16; };
template <> struct DTypeOf<int32_t> { static constexpr DType value = DType::Int32; };
template <> struct DTypeOf<int64_t> { static constexpr DType value = DType::Int64; };
template <> struct DTypeOf<half> { static constexpr DType value = DType::Float16; };
template <> struct DTypeOf<bfloat16> { static constexpr DType value = DType::BFloat16; };
template <> struct DTypeOf<float> { static constexpr DType value = DType::Float32; };
template <> struct DTypeOf<double> { static constexpr DType value = DType::Float64; };
template <> struct DTypeOf<complex64> { static constexpr DType value = DType::Complex64; };
template <> struct DTypeOf<complex128> { static constexpr DType value = DType::Complex128; };
// clang-format on
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

template <class T>
inline constexpr bool is_complex_v = false;
template <class T>
inline constexpr bool is_complex_v<std::complex<T>> = true;

// Calls f.template operator()<T>() with the C++ type of `t`, if `Set` contains it; an internal
// error otherwise, since op rows are checked before kernels run.
template <DTypeSet Set = dtypes::all, class F>
auto visit(DType t, F&& f) {
  switch (t) {
#define MOONLET_VISIT(D, T)                  \
  case DType::D:                             \
    if constexpr (contains(Set, DType::D)) { \
      return f.template operator()<T>();     \
    }                                        \
    break;
    MOONLET_VISIT(Bool, bool)
    MOONLET_VISIT(UInt8, uint8_t)
    MOONLET_VISIT(Int8, int8_t)
    MOONLET_VISIT(Int16, int16_t)
    MOONLET_VISIT(Int32, int32_t)
    MOONLET_VISIT(Int64, int64_t)
    MOONLET_VISIT(Float16, half)
    MOONLET_VISIT(BFloat16, bfloat16)
    MOONLET_VISIT(Float32, float)
    MOONLET_VISIT(Float64, double)
    MOONLET_VISIT(Complex64, complex64)
    MOONLET_VISIT(Complex128, complex128)
#undef MOONLET_VISIT
  }
  fail("dtype ", name(t), " is not one of ", names(Set));
}

// Calls f.template operator()<T>() with an unsigned type of the dtype's size: for code that only
// moves elements. 16-byte elements come as complex128.
template <class F>
auto visit_bytes(DType t, F&& f) {
  switch (size_of(t)) {
    case 1: return f.template operator()<uint8_t>();
    case 2: return f.template operator()<uint16_t>();
    case 4: return f.template operator()<uint32_t>();
    case 8: return f.template operator()<uint64_t>();
    default: return f.template operator()<complex128>();
  }
}

}  // namespace moonlet

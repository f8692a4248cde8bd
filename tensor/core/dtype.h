// tensor/core/dtype.h: the element types: one table of their names, sizes, kinds and partners, sets
// of them, promotion, and `visit`, which turns a run-time dtype into a C++ type.
#pragma once

#include <complex>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>

#include "tensor/core/error.h"
#include "tensor/core/half.h"

namespace moonlet {

using complex64 = std::complex<float>;
using complex128 = std::complex<double>;

// What kind of number a dtype holds, from the lowest to the highest: a result of a higher kind is
// never stored in a lower one.
enum class Kind : uint8_t { Bool, Unsigned, Signed, Floating, Complex };

// The one table of dtypes: enumerator, name for scripts, code in safetensors files, C++ type,
// kind, the real dtype of its parts, the complex dtype made of it, and the dtype in which kernels
// compute with its elements. A new dtype is one row here.
// clang-format off
#define MOONLET_DTYPES(ROW)                                                                      \
  ROW(Bool,       "bool",       "BOOL",  bool,       Bool,     Bool,     Complex64,  Int64)      \
  ROW(UInt8,      "uint8",      "U8",    uint8_t,    Unsigned, UInt8,    Complex64,  Int64)      \
  ROW(Int8,       "int8",       "I8",    int8_t,     Signed,   Int8,     Complex64,  Int64)      \
  ROW(Int16,      "int16",      "I16",   int16_t,    Signed,   Int16,    Complex64,  Int64)      \
  ROW(Int32,      "int32",      "I32",   int32_t,    Signed,   Int32,    Complex64,  Int64)      \
  ROW(Int64,      "int64",      "I64",   int64_t,    Signed,   Int64,    Complex64,  Int64)      \
  ROW(Float16,    "float16",    "F16",   half,       Floating, Float16,  Complex64,  Float32)    \
  ROW(BFloat16,   "bfloat16",   "BF16",  bfloat16,   Floating, BFloat16, Complex64,  Float32)    \
  ROW(Float32,    "float32",    "F32",   float,      Floating, Float32,  Complex64,  Float32)    \
  ROW(Float64,    "float64",    "F64",   double,     Floating, Float64,  Complex128, Float64)    \
  ROW(Complex64,  "complex64",  "C64",   complex64,  Complex,  Float32,  Complex64,  Complex64)  \
  ROW(Complex128, "complex128", "C128",  complex128, Complex,  Float64,  Complex128, Complex128)
// clang-format on

enum class DType : uint8_t {
#define MOONLET_DTYPE_ENUM(D, NAME, CODE, TYPE, KIND, REAL, COMPLEX, COMPUTE) D,
  MOONLET_DTYPES(MOONLET_DTYPE_ENUM)
#undef MOONLET_DTYPE_ENUM
};

// A row of the table.
struct DTypeInfo {
  std::string_view name, code;
  Kind kind;
  DType real, complex, compute;
};
inline constexpr DTypeInfo kDTypes[] = {
#define MOONLET_DTYPE_INFO(D, NAME, CODE, TYPE, KIND, REAL, COMPLEX, COMPUTE) \
  {NAME, CODE, Kind::KIND, DType::REAL, DType::COMPLEX, DType::COMPUTE},
    MOONLET_DTYPES(MOONLET_DTYPE_INFO)
#undef MOONLET_DTYPE_INFO
};
inline constexpr int kDTypeCount = static_cast<int>(std::size(kDTypes));
// The bytes of an element: apart from the rest, since every call looks them up.
inline constexpr uint8_t kDTypeSizes[] = {
#define MOONLET_DTYPE_SIZE(D, NAME, CODE, TYPE, KIND, REAL, COMPLEX, COMPUTE) sizeof(TYPE),
    MOONLET_DTYPES(MOONLET_DTYPE_SIZE)
#undef MOONLET_DTYPE_SIZE
};

constexpr const DTypeInfo& info(DType t) { return kDTypes[static_cast<int>(t)]; }
constexpr Kind kind_of(DType t) { return info(t).kind; }
constexpr size_t size_of(DType t) { return kDTypeSizes[static_cast<int>(t)]; }

// A set of dtypes as a bit mask; op rows name the sets they accept.
using DTypeSet = uint64_t;
static_assert(kDTypeCount <= 64, "a DTypeSet has a bit for each dtype");
constexpr DTypeSet bit(DType t) { return DTypeSet{1} << static_cast<int>(t); }
namespace dtypes {
constexpr DTypeSet of_kind(Kind kind) {
  DTypeSet set = 0;
  for (int i = 0; i < kDTypeCount; ++i)
    if (kDTypes[i].kind == kind) set |= bit(static_cast<DType>(i));
  return set;
}
inline constexpr DTypeSet boolean = of_kind(Kind::Bool);
inline constexpr DTypeSet integral = of_kind(Kind::Unsigned) | of_kind(Kind::Signed);
inline constexpr DTypeSet floating = of_kind(Kind::Floating);
// The floats of which kernels compute in a wider one.
constexpr DTypeSet reduced() {
  DTypeSet set = 0;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto t = static_cast<DType>(i);
    if (kind_of(t) == Kind::Floating && info(t).compute != t) set |= bit(t);
  }
  return set;
}
inline constexpr DTypeSet reduced_floating = reduced();
inline constexpr DTypeSet complex = of_kind(Kind::Complex);
inline constexpr DTypeSet real = integral | floating;
inline constexpr DTypeSet all = boolean | real | complex;
}  // namespace dtypes

constexpr bool contains(DTypeSet set, DType t) { return (set & bit(t)) != 0; }
constexpr bool is_floating(DType t) { return contains(dtypes::floating, t); }
constexpr bool is_complex(DType t) { return contains(dtypes::complex, t); }
constexpr bool is_reduced_floating(DType t) { return contains(dtypes::reduced_floating, t); }
constexpr bool is_integral(DType t) { return contains(dtypes::integral, t); }
// Only floating and complex tensors can require a gradient.
constexpr bool is_differentiable(DType t) {
  return contains(dtypes::floating | dtypes::complex, t);
}

// "float32"; the names scripts use.
constexpr std::string_view name(DType t) { return info(t).name; }
// The dtype of that name; throws when there is none, listing the names.
DType dtype_from_name(std::string_view name);
void append(std::string& out, DType t);
// "float16, bfloat16, float32, float64"
std::string names(DTypeSet set);

// The real dtype of a complex one's parts, and the complex dtype made of a real one.
constexpr DType real_of(DType t) { return info(t).real; }
constexpr DType complex_of(DType t) { return info(t).complex; }

// The dtype in which kernels compute with elements of `t`, rounding once at the end: int64 for
// bools and integers, float32 for the 16-bit floats, else t.
constexpr DType compute_dtype(DType t) { return info(t).compute; }
// The dtype that sums of elements of `t` are kept in: as compute_dtype, but integers wrap in their
// own.
constexpr DType sum_dtype(DType t) { return is_reduced_floating(t) ? compute_dtype(t) : t; }

namespace detail {

// The smallest dtype of that kind with more bytes than `size`; float32 when there is none, as
// PyTorch promotes unsigned integers that no signed one can hold.
constexpr DType wider_than(size_t size, Kind kind) {
  DType best = DType::Float32;
  bool found = false;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto t = static_cast<DType>(i);
    if (kind_of(t) != kind || size_of(t) <= size || (found && size_of(t) >= size_of(best)))
      continue;
    best = t;
    found = true;
  }
  return best;
}

// The rules of promotion: the higher kind wins; a complex result is wide enough for a real partner;
// within a kind the wider wins, and two formats of one width meet in the next wider one; an
// unsigned integer needs a signed one with more bytes.
constexpr DType promoted(DType a, DType b) {
  if (a == b) return a;
  if (kind_of(a) > kind_of(b)) return promoted(b, a);
  if (kind_of(b) == Kind::Complex) {
    if (kind_of(a) < Kind::Floating) return b;
    return complex_of(promoted(real_of(a), real_of(b)));
  }
  if (kind_of(a) == kind_of(b)) {
    if (size_of(a) == size_of(b)) return wider_than(size_of(a), kind_of(a));
    return size_of(a) > size_of(b) ? a : b;
  }
  if (kind_of(a) == Kind::Unsigned && kind_of(b) == Kind::Signed && size_of(a) >= size_of(b))
    return wider_than(size_of(a), Kind::Signed);
  return b;
}

struct PromotionTable {
  DType to[kDTypeCount][kDTypeCount];
};
constexpr PromotionTable promotion_table() {
  PromotionTable table{};
  for (int a = 0; a < kDTypeCount; ++a)
    for (int b = 0; b < kDTypeCount; ++b)
      table.to[a][b] = promoted(static_cast<DType>(a), static_cast<DType>(b));
  return table;
}
inline constexpr PromotionTable kPromotion = promotion_table();

// What the table must satisfy.
constexpr bool is_sound() {
  for (int a = 0; a < kDTypeCount; ++a) {
    const auto t = static_cast<DType>(a);
    if (name(t).empty() || info(t).code.empty() || size_of(t) == 0) return false;
    if (kind_of(complex_of(t)) != Kind::Complex || kind_of(real_of(t)) == Kind::Complex)
      return false;
    if (kind_of(t) == Kind::Complex && complex_of(real_of(t)) != t) return false;
    if (kind_of(t) != Kind::Complex && real_of(t) != t) return false;
    if (compute_dtype(compute_dtype(t)) != compute_dtype(t)) return false;
    for (int b = 0; b < kDTypeCount; ++b) {
      if (a != b && (name(t) == kDTypes[b].name || info(t).code == kDTypes[b].code)) return false;
      if (kPromotion.to[a][b] != kPromotion.to[b][a]) return false;
      if (kind_of(kPromotion.to[a][b]) < kind_of(t)) return false;
    }
  }
  return true;
}
static_assert(is_sound(), "a row of MOONLET_DTYPES is incomplete or contradicts another");

}  // namespace detail

// The smallest dtype both convert to without losing the kind, as PyTorch's promote_types.
constexpr DType promote(DType a, DType b) {
  return detail::kPromotion.to[static_cast<int>(a)][static_cast<int>(b)];
}
// Whether a result of dtype `from` may be stored in place in a tensor of dtype `to`: not from a
// higher kind to a lower one (bool < integer < floating < complex).
constexpr bool can_cast(DType from, DType to) {
  return kind_of(from) <= kind_of(to) || (is_integral(from) && is_integral(to));
}

template <class T>
struct DTypeOf;
#define MOONLET_DTYPE_OF(D, NAME, CODE, TYPE, KIND, REAL, COMPLEX, COMPUTE) \
  template <>                                                               \
  struct DTypeOf<TYPE> {                                                    \
    static constexpr DType value = DType::D;                                \
  };
MOONLET_DTYPES(MOONLET_DTYPE_OF)
#undef MOONLET_DTYPE_OF
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

template <DType t>
struct TypeOf;
#define MOONLET_TYPE_OF(D, NAME, CODE, TYPE, KIND, REAL, COMPLEX, COMPUTE) \
  template <>                                                              \
  struct TypeOf<DType::D> {                                                \
    using type = TYPE;                                                     \
  };
MOONLET_DTYPES(MOONLET_TYPE_OF)
#undef MOONLET_TYPE_OF
// The C++ types of compute_dtype and sum_dtype.
template <class T>
using compute_t = typename TypeOf<compute_dtype(dtype_of<T>)>::type;
template <class T>
using sum_t = typename TypeOf<sum_dtype(dtype_of<T>)>::type;
template <class T>
inline constexpr bool is_reduced_floating_v = false;
template <class T>
requires requires { DTypeOf<T>::value; }
inline constexpr bool is_reduced_floating_v<T> = is_reduced_floating(dtype_of<T>);

template <class T>
inline constexpr bool is_complex_v = false;
template <class T>
inline constexpr bool is_complex_v<std::complex<T>> = true;

// Throws: a dtype came to `visit` that its set lacks.
[[noreturn]] void refuse_visit(DType t, DTypeSet set);

// Calls f.template operator()<T>() with the C++ type of `t`, if `Set` contains it; an internal
// error otherwise, since op rows are checked before kernels run.
template <DTypeSet Set = dtypes::all, class F>
auto visit(DType t, F&& f) {
  switch (t) {
#define MOONLET_VISIT(D, NAME, CODE, TYPE, KIND, REAL, COMPLEX, COMPUTE) \
  case DType::D:                                                         \
    if constexpr (contains(Set, DType::D)) {                             \
      return f.template operator()<TYPE>();                              \
    }                                                                    \
    break;
    MOONLET_DTYPES(MOONLET_VISIT)
#undef MOONLET_VISIT
  }
  refuse_visit(t, Set);
}

// The same with compute_t of that type.
template <DTypeSet Set = dtypes::all, class F>
auto visit_compute(DType t, F&& f) {
  return visit<Set>(t, [&]<class T>() { return f.template operator()<compute_t<T>>(); });
}

// Calls f.template operator()<T>() with an unsigned type of the dtype's size: for code that only
// moves elements. 16-byte elements come as `Bytes16`.
template <class Bytes16 = complex128, class F>
auto visit_bytes(DType t, F&& f) {
  switch (size_of(t)) {
    case 1: return f.template operator()<uint8_t>();
    case 2: return f.template operator()<uint16_t>();
    case 4: return f.template operator()<uint32_t>();
    case 8: return f.template operator()<uint64_t>();
    default: return f.template operator()<Bytes16>();
  }
}

}  // namespace moonlet

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
#include "tensor/core/float8.h"
#include "tensor/core/half.h"

namespace moonlet {

using complex64 = std::complex<float>;
using complex128 = std::complex<double>;

// What kind of number a dtype holds, from the lowest to the highest: a result of a higher kind is
// never stored in a lower one.
enum class Kind : uint8_t { Bool, Unsigned, Signed, Floating, Complex };

// What kernels do with a dtype. All compute in a Full one. A Storage one is kept, moved, converted
// and compared; few ops compute in it, by way of its compute dtype (those whose rows name the set
// `storage` or a part of it), so that it costs no loops of its own.
enum class Use : uint8_t { Full, Storage };

// The one table of dtypes: enumerator, name for scripts, code in safetensors files, C++ type, kind
// and what kernels do with it; the real dtype of its parts, the complex dtype made of it, and the
// dtype in which kernels compute with its elements; of a floating one the bits of the mantissa, the
// exponent of the smallest normal number, and the largest number. A new dtype is one row here.
// clang-format off
#define MOONLET_DTYPES(ROW)                                                                       \
  ROW(Bool,         "bool",          "BOOL",    bool,          Bool,     Full,                    \
      Bool,         Complex64,  Int64,      0,  0,     0)                                         \
  ROW(UInt8,        "uint8",         "U8",      uint8_t,       Unsigned, Full,                    \
      UInt8,        Complex64,  Int64,      0,  0,     0)                                         \
  ROW(UInt16,       "uint16",        "U16",     uint16_t,      Unsigned, Storage,                 \
      UInt16,       Complex64,  Int64,      0,  0,     0)                                         \
  ROW(UInt32,       "uint32",        "U32",     uint32_t,      Unsigned, Storage,                 \
      UInt32,       Complex64,  Int64,      0,  0,     0)                                         \
  ROW(UInt64,       "uint64",        "U64",     uint64_t,      Unsigned, Storage,                 \
      UInt64,       Complex64,  Int64,      0,  0,     0)                                         \
  ROW(Int8,         "int8",          "I8",      int8_t,        Signed,   Full,                    \
      Int8,         Complex64,  Int64,      0,  0,     0)                                         \
  ROW(Int16,        "int16",         "I16",     int16_t,       Signed,   Full,                    \
      Int16,        Complex64,  Int64,      0,  0,     0)                                         \
  ROW(Int32,        "int32",         "I32",     int32_t,       Signed,   Full,                    \
      Int32,        Complex64,  Int64,      0,  0,     0)                                         \
  ROW(Int64,        "int64",         "I64",     int64_t,       Signed,   Full,                    \
      Int64,        Complex64,  Int64,      0,  0,     0)                                         \
  ROW(Float8E4M3FN, "float8_e4m3fn", "F8_E4M3", float8_e4m3fn, Floating, Storage,                 \
      Float8E4M3FN, Complex64,  Float32,    3,  -6,    448)                                       \
  ROW(Float8E5M2,   "float8_e5m2",   "F8_E5M2", float8_e5m2,   Floating, Storage,                 \
      Float8E5M2,   Complex64,  Float32,    2,  -14,   57344)                                     \
  ROW(Float16,      "float16",       "F16",     half,          Floating, Full,                    \
      Float16,      Complex64,  Float32,    10, -14,   65504)                                     \
  ROW(BFloat16,     "bfloat16",      "BF16",    bfloat16,      Floating, Full,                    \
      BFloat16,     Complex64,  Float32,    7,  -126,  0x1.FEp127)                                \
  ROW(Float32,      "float32",       "F32",     float,         Floating, Full,                    \
      Float32,      Complex64,  Float32,    23, -126,  0x1.FFFFFEp127)                            \
  ROW(Float64,      "float64",       "F64",     double,        Floating, Full,                    \
      Float64,      Complex128, Float64,    52, -1022, 0x1.FFFFFFFFFFFFFp1023)                    \
  ROW(Complex64,    "complex64",     "C64",     complex64,     Complex,  Full,                    \
      Float32,      Complex64,  Complex64,  0,  0,     0)                                         \
  ROW(Complex128,   "complex128",    "C128",    complex128,    Complex,  Full,                    \
      Float64,      Complex128, Complex128, 0,  0,     0)
// clang-format on

enum class DType : uint8_t {
#define MOONLET_DTYPE_ENUM(D, ...) D,
  MOONLET_DTYPES(MOONLET_DTYPE_ENUM)
#undef MOONLET_DTYPE_ENUM
};

// A row of the table.
struct DTypeInfo {
  std::string_view name, code;
  Kind kind;
  Use use;
  DType real, complex, compute;
  int mantissa, min_exponent;
  double largest;
};
inline constexpr DTypeInfo kDTypes[] = {
#define MOONLET_DTYPE_INFO(D, NAME, CODE, TYPE, KIND, USE, REAL, COMPLEX, COMPUTE, ...) \
  {NAME, CODE, Kind::KIND, Use::USE, DType::REAL, DType::COMPLEX, DType::COMPUTE, __VA_ARGS__},
    MOONLET_DTYPES(MOONLET_DTYPE_INFO)
#undef MOONLET_DTYPE_INFO
};
inline constexpr int kDTypeCount = static_cast<int>(std::size(kDTypes));
// The bytes of an element: apart from the rest, since every call looks them up.
inline constexpr uint8_t kDTypeSizes[] = {
#define MOONLET_DTYPE_SIZE(D, NAME, CODE, TYPE, ...) sizeof(TYPE),
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
constexpr bool contains(DTypeSet set, DType t) { return (set & bit(t)) != 0; }
namespace dtypes {
constexpr DTypeSet of_kind(Kind kind) {
  DTypeSet set = 0;
  for (int i = 0; i < kDTypeCount; ++i)
    if (kDTypes[i].kind == kind) set |= bit(static_cast<DType>(i));
  return set;
}
constexpr DTypeSet of_use(Use use) {
  DTypeSet set = 0;
  for (int i = 0; i < kDTypeCount; ++i)
    if (kDTypes[i].use == use) set |= bit(static_cast<DType>(i));
  return set;
}
// The dtypes that kernels compute in, all of them and by kind.
inline constexpr DTypeSet all = of_use(Use::Full);
inline constexpr DTypeSet boolean = all & of_kind(Kind::Bool);
inline constexpr DTypeSet integral =
    (all & of_kind(Kind::Unsigned)) | (all & of_kind(Kind::Signed));
inline constexpr DTypeSet floating = all & of_kind(Kind::Floating);
// The floats of which kernels compute in a wider one.
constexpr DTypeSet reduced() {
  DTypeSet set = 0;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto t = static_cast<DType>(i);
    if (contains(floating, t) && info(t).compute != t) set |= bit(t);
  }
  return set;
}
inline constexpr DTypeSet reduced_floating = reduced();
inline constexpr DTypeSet complex = all & of_kind(Kind::Complex);
inline constexpr DTypeSet real = integral | floating;
// The dtypes of storage, and every dtype: what code that only moves elements takes.
inline constexpr DTypeSet storage = of_use(Use::Storage);
inline constexpr DTypeSet storage_unsigned = storage & of_kind(Kind::Unsigned);
inline constexpr DTypeSet storage_floating = storage & of_kind(Kind::Floating);
inline constexpr DTypeSet any = all | storage;
}  // namespace dtypes

// What kind a dtype is of, whatever kernels do with it.
constexpr bool is_storage(DType t) { return contains(dtypes::storage, t); }
constexpr bool is_floating(DType t) {
  return contains(dtypes::floating | dtypes::storage_floating, t);
}
constexpr bool is_complex(DType t) { return contains(dtypes::complex, t); }
constexpr bool is_integral(DType t) {
  return contains(dtypes::integral | dtypes::storage_unsigned, t);
}
constexpr bool is_unsigned(DType t) { return kind_of(t) == Kind::Unsigned; }
constexpr bool is_reduced_floating(DType t) { return contains(dtypes::reduced_floating, t); }
// Only floating and complex tensors can require a gradient.
constexpr bool is_differentiable(DType t) {
  return contains(dtypes::floating | dtypes::storage_floating | dtypes::complex, t);
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
constexpr DType sum_dtype(DType t) { return is_floating(t) ? compute_dtype(t) : t; }

namespace detail {

// The smallest full dtype of that kind with more bytes than `size`; float32 when there is none, as
// PyTorch promotes unsigned integers that no signed one can hold.
constexpr DType wider_than(size_t size, Kind kind) {
  DType best = DType::Float32;
  bool found = false;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto t = static_cast<DType>(i);
    if (kind_of(t) != kind || is_storage(t) || size_of(t) <= size) continue;
    if (found && size_of(t) >= size_of(best)) continue;
    best = t;
    found = true;
  }
  return best;
}

// What the table has where two dtypes do not promote.
inline constexpr DType kNoDType{0xff};

// PyTorch promotes no 8-bit floats, and the wider unsigned integers only to floats.
constexpr bool promotes(DType a, DType b) {
  if (contains(dtypes::storage_floating, a) || contains(dtypes::storage_floating, b)) return false;
  const auto promotes_with = [](DType wide, DType other) {
    return !contains(dtypes::storage_unsigned, wide) || is_floating(other);
  };
  return promotes_with(a, b) && promotes_with(b, a);
}

// The rules of promotion: the higher kind wins; a complex result is wide enough for a real partner;
// within a kind the wider wins, and two formats of one width meet in the next wider one; an
// unsigned integer needs a signed one with more bytes.
constexpr DType promoted(DType a, DType b) {
  if (a == b) return a;
  if (!promotes(a, b)) return kNoDType;
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
    if (is_storage(compute_dtype(t)) || is_floating(t) != (info(t).largest > 0)) return false;
    for (int b = 0; b < kDTypeCount; ++b) {
      if (a != b && (name(t) == kDTypes[b].name || info(t).code == kDTypes[b].code)) return false;
      if (kPromotion.to[a][b] != kPromotion.to[b][a]) return false;
      if (kPromotion.to[a][b] == kNoDType) continue;
      if (kind_of(kPromotion.to[a][b]) < kind_of(t)) return false;
    }
  }
  return true;
}
static_assert(is_sound(), "a row of MOONLET_DTYPES is incomplete or contradicts another");

}  // namespace detail

// Throws, naming `op` unless it is null: two dtypes have no dtype that both promote to.
[[noreturn]] void refuse_promotion(const char* op, DType a, DType b);

// The smallest dtype both convert to without losing the kind, as PyTorch's promote_types; throws
// where that does, naming `op`.
constexpr DType promote(DType a, DType b, const char* op = nullptr) {
  const DType out = detail::kPromotion.to[static_cast<int>(a)][static_cast<int>(b)];
  if (out == detail::kNoDType) [[unlikely]]
    refuse_promotion(op, a, b);
  return out;
}
// Whether a result of dtype `from` may be stored in place in a tensor of dtype `to`: not from a
// higher kind to a lower one (bool < integer < floating < complex).
constexpr bool can_cast(DType from, DType to) {
  return kind_of(from) <= kind_of(to) || (is_integral(from) && is_integral(to));
}

namespace detail {
constexpr double power_of_two(int exponent) {
  double out = 1;
  for (; exponent > 0; --exponent) out *= 2;
  for (; exponent < 0; ++exponent) out /= 2;
  return out;
}
}  // namespace detail

// The limits of a floating dtype; those of a complex one are its parts'.

// How many bits the mantissa has behind the leading one.
constexpr int mantissa_bits(DType t) { return info(real_of(t)).mantissa; }
// How far 1 is from the next larger number.
constexpr double epsilon(DType t) { return detail::power_of_two(-mantissa_bits(t)); }
// The smallest positive number that has a whole mantissa, and the smallest positive one.
constexpr double smallest_normal(DType t) {
  return detail::power_of_two(info(real_of(t)).min_exponent);
}
constexpr double smallest_subnormal(DType t) {
  return detail::power_of_two(info(real_of(t)).min_exponent - mantissa_bits(t));
}
// The largest finite number; the smallest is its negative.
constexpr double largest(DType t) { return info(real_of(t)).largest; }

// The largest and the smallest integer of an integer dtype or bool.
constexpr uint64_t largest_integer(DType t) {
  if (kind_of(t) == Kind::Bool) return 1;
  return UINT64_MAX >> (64 - 8 * size_of(t) + (is_unsigned(t) ? 0 : 1));
}
constexpr int64_t smallest_integer(DType t) {
  return kind_of(t) == Kind::Signed ? -static_cast<int64_t>(largest_integer(t)) - 1 : 0;
}

template <class T>
struct DTypeOf;
#define MOONLET_DTYPE_OF(D, NAME, CODE, TYPE, ...) \
  template <>                                      \
  struct DTypeOf<TYPE> {                           \
    static constexpr DType value = DType::D;       \
  };
MOONLET_DTYPES(MOONLET_DTYPE_OF)
#undef MOONLET_DTYPE_OF
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

template <DType t>
struct TypeOf;
#define MOONLET_TYPE_OF(D, NAME, CODE, TYPE, ...) \
  template <>                                     \
  struct TypeOf<DType::D> {                       \
    using type = TYPE;                            \
  };
MOONLET_DTYPES(MOONLET_TYPE_OF)
#undef MOONLET_TYPE_OF
// The C++ types of compute_dtype and sum_dtype.
template <class T>
using compute_t = typename TypeOf<compute_dtype(dtype_of<T>)>::type;
template <class T>
using sum_t = typename TypeOf<sum_dtype(dtype_of<T>)>::type;
namespace detail {
template <class T, class = void>
inline constexpr bool is_widened = false;
template <class T>
inline constexpr bool is_widened<T, std::void_t<decltype(DTypeOf<T>::value)>> =
    is_floating(dtype_of<T>) && compute_dtype(dtype_of<T>) != dtype_of<T>;
}  // namespace detail
// Whether T is a floating type that kernels widen: it has bits, and converts to float and from it.
template <class T>
inline constexpr bool is_reduced_floating_v = detail::is_widened<T>;

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
#define MOONLET_VISIT(D, NAME, CODE, TYPE, ...) \
  case DType::D:                                \
    if constexpr (contains(Set, DType::D)) {    \
      return f.template operator()<TYPE>();     \
    }                                           \
    break;
    MOONLET_DTYPES(MOONLET_VISIT)
#undef MOONLET_VISIT
  }
  refuse_visit(t, Set);
}

namespace detail {
template <class F>
struct ComputeVisitor {
  F& f;
  template <class T>
  auto operator()() const {
    return f.template operator()<compute_t<T>>();
  }
};
}  // namespace detail
// The same with compute_t of that type.
template <DTypeSet Set = dtypes::all, class F>
auto visit_compute(DType t, F&& f) {
  return visit<Set>(t, detail::ComputeVisitor<std::remove_reference_t<F>>{f});
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

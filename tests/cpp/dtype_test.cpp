// tests/cpp/dtype_test.cpp: the table of dtypes, and what is computed from it.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string>
#include "tests/cpp/catch2.h"

#include "tensor/core/dtype.h"

using namespace moonlet;

namespace {

// PyTorch's promote_types: row by row the partners in the order of the table; - where it throws.
// clang-format off
constexpr const char* kPromoted[] = {
    "bool uint8 - - - int8 int16 int32 int64 - - float16 bfloat16 float32 float64 complex64 complex128",
    "uint8 uint8 - - - int16 int16 int32 int64 - - float16 bfloat16 float32 float64 complex64 complex128",
    "- - uint16 - - - - - - - - float16 bfloat16 float32 float64 - -",
    "- - - uint32 - - - - - - - float16 bfloat16 float32 float64 - -",
    "- - - - uint64 - - - - - - float16 bfloat16 float32 float64 - -",
    "int8 int16 - - - int8 int16 int32 int64 - - float16 bfloat16 float32 float64 complex64 complex128",
    "int16 int16 - - - int16 int16 int32 int64 - - float16 bfloat16 float32 float64 complex64 complex128",
    "int32 int32 - - - int32 int32 int32 int64 - - float16 bfloat16 float32 float64 complex64 complex128",
    "int64 int64 - - - int64 int64 int64 int64 - - float16 bfloat16 float32 float64 complex64 complex128",
    "- - - - - - - - - float8_e4m3fn - - - - - - -",
    "- - - - - - - - - - float8_e5m2 - - - - - -",
    "float16 float16 float16 float16 float16 float16 float16 float16 float16 - - float16 float32 float32 float64 complex64 complex128",
    "bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 - - float32 bfloat16 float32 float64 complex64 complex128",
    "float32 float32 float32 float32 float32 float32 float32 float32 float32 - - float32 float32 float32 float64 complex64 complex128",
    "float64 float64 float64 float64 float64 float64 float64 float64 float64 - - float64 float64 float64 float64 complex128 complex128",
    "complex64 complex64 - - - complex64 complex64 complex64 complex64 - - complex64 complex64 complex64 complex128 complex64 complex128",
    "complex128 complex128 - - - complex128 complex128 complex128 complex128 - - complex128 complex128 complex128 complex128 complex128 complex128",
};
// clang-format on

DType at(int i) { return static_cast<DType>(i); }

}  // namespace

// Every entry of the tables, at compile time.
static_assert(kDTypeCount == std::size(kPromoted));
static_assert(size_of(DType::Bool) == 1 && size_of(DType::BFloat16) == 2);
static_assert(size_of(DType::Complex64) == 8 && size_of(DType::Complex128) == 16);
static_assert(dtypes::any == (DTypeSet{1} << kDTypeCount) - 1);
static_assert((dtypes::all & dtypes::storage) == 0 && dtypes::any != dtypes::all);
static_assert(is_floating(DType::Float8E5M2) && is_integral(DType::UInt64));
static_assert((dtypes::floating & bit(DType::Float8E5M2)) == 0);
static_assert(largest_integer(DType::UInt64) == UINT64_MAX && smallest_integer(DType::UInt64) == 0);
static_assert(largest_integer(DType::Int64) == INT64_MAX && smallest_integer(DType::Int8) == -128);
static_assert((dtypes::boolean & dtypes::real) == 0 && (dtypes::real & dtypes::complex) == 0);
static_assert(dtypes::real == (dtypes::integral | dtypes::floating));
static_assert(is_integral(DType::UInt8) && is_integral(DType::Int64) && !is_integral(DType::Bool));
static_assert(is_floating(DType::BFloat16) && !is_floating(DType::Complex64));
static_assert(sizeof(DTypeSet) == 8, "a set has room for 64 dtypes");
static_assert(dtype_of<half> == DType::Float16 && dtype_of<complex128> == DType::Complex128);
static_assert(real_of(DType::Complex128) == DType::Float64 && real_of(DType::Int8) == DType::Int8);
static_assert(complex_of(DType::Float64) == DType::Complex128);
static_assert(complex_of(DType::Float16) == DType::Complex64);
static_assert(promote(DType::UInt8, DType::Int8) == DType::Int16);
static_assert(promote(DType::Float16, DType::BFloat16) == DType::Float32);
static_assert(promote(DType::Complex64, DType::Float64) == DType::Complex128);
static_assert(can_cast(DType::Int64, DType::UInt8) && !can_cast(DType::Float16, DType::Int64));
static_assert(can_cast(DType::Bool, DType::Float16) && !can_cast(DType::Complex64, DType::Float64));
static_assert(!can_cast(DType::Int8, DType::Bool));

TEST_CASE("promotion is PyTorch's for every pair", "[dtype]") {
  for (int a = 0; a < kDTypeCount; ++a) {
    std::string row;
    for (int b = 0; b < kDTypeCount; ++b) {
      const bool promotes = detail::kPromotion.to[a][b] != detail::kNoDType;
      row += text(b > 0 ? " " : "", promotes ? name(promote(at(a), at(b))) : "-");
      if (!promotes) CHECK_THROWS_AS(promote(at(a), at(b)), Error);
    }
    CHECK(row == kPromoted[a]);
  }
  CHECK_THROWS_WITH(promote(DType::Float8E5M2, DType::Float32),
                    ContainsSubstring("no dtype holds both float8_e5m2 and float32"));
}

TEST_CASE("limits are those of the C++ types", "[dtype]") {
  const auto check_limits = []<class T>(T) {
    using Limits = std::numeric_limits<T>;
    CHECK(epsilon(dtype_of<T>) == Limits::epsilon());
    CHECK(largest(dtype_of<T>) == Limits::max());
    CHECK(smallest_normal(dtype_of<T>) == Limits::min());
    CHECK(smallest_subnormal(dtype_of<T>) == Limits::denorm_min());
  };
  check_limits(float());
  check_limits(double());
  CHECK(epsilon(DType::Complex128) == std::numeric_limits<double>::epsilon());
  // Of what has no such limits in C++: the codes that stand for them.
  const auto value = []<class T>(T x, unsigned code) {
    x.bits = static_cast<decltype(x.bits)>(code);
    return static_cast<double>(x);
  };
  CHECK(largest(DType::Float16) == value(half(), 0x7bff));
  CHECK(smallest_normal(DType::Float16) == value(half(), 0x0400));
  CHECK(smallest_subnormal(DType::Float16) == value(half(), 1));
  CHECK(largest(DType::BFloat16) == value(bfloat16(), 0x7f7f));
  CHECK(smallest_subnormal(DType::BFloat16) == value(bfloat16(), 1));
  CHECK(largest(DType::Float8E4M3FN) == value(float8_e4m3fn(), 0x7e));
  CHECK(smallest_normal(DType::Float8E4M3FN) == value(float8_e4m3fn(), 0x08));
  CHECK(smallest_subnormal(DType::Float8E4M3FN) == value(float8_e4m3fn(), 1));
  CHECK(1 + epsilon(DType::Float8E4M3FN) == value(float8_e4m3fn(), 0x39));
  CHECK(largest(DType::Float8E5M2) == value(float8_e5m2(), 0x7b));
  CHECK(smallest_normal(DType::Float8E5M2) == value(float8_e5m2(), 0x04));
  CHECK(1 + epsilon(DType::Float8E5M2) == value(float8_e5m2(), 0x3d));
}

namespace {

// The value of a code of an 8-bit format by its definition, apart from infinities and NaN.
double value_of(int code, int mantissa, int bias) {
  const int exponent = (code & 0x7f) >> mantissa, fraction = code & ((1 << mantissa) - 1);
  const double digits = std::ldexp(fraction, -mantissa) + (exponent > 0 ? 1 : 0);
  const double size = std::ldexp(digits, std::max(exponent, 1) - bias);
  return code & 0x80 ? -size : size;
}

// All codes, and float32 numbers around each code and around the middle between two.
template <class T>
void check_float8(int mantissa, int bias, int last, bool infinite) {
  const auto code_of = [](double x) { return int{T(static_cast<float>(x)).bits}; };
  for (int code = 0; code <= last; ++code) {
    T x;
    x.bits = static_cast<uint8_t>(code);
    const double value = value_of(code, mantissa, bias);
    INFO(code);
    CHECK(static_cast<double>(x) == value);
    CHECK(code_of(value) == code);
    CHECK(code_of(-value) == (code | 0x80));
    if (code == last) break;
    const double middle = (value + value_of(code + 1, mantissa, bias)) / 2;
    CHECK(code_of(middle) == code + code % 2);  // ties go to even codes
    CHECK(code_of(std::nextafter(static_cast<float>(middle), 0.0f)) == code);
    CHECK(code_of(std::nextafter(static_cast<float>(middle), INFINITY)) == code + 1);
    x.bits = static_cast<uint8_t>(code | 0x80);
    CHECK(static_cast<double>(x) == -value);
  }
  const int beyond = infinite ? last + 1 : last;
  for (const double x : {1e6, 3e38, double(INFINITY)}) CHECK(code_of(x) == beyond);
  CHECK(code_of(-INFINITY) == (beyond | 0x80));
  for (int code = last + 1 + infinite; code < 0x80; ++code) {
    T x;
    x.bits = static_cast<uint8_t>(code);
    CHECK(std::isnan(static_cast<float>(x)));
  }
  CHECK(code_of(NAN) == 0x7f);
  CHECK(code_of(1e-30) == 0);
  CHECK(code_of(-0.0) == 0x80);
}

}  // namespace

TEST_CASE("all codes of the 8-bit floats", "[dtype]") {
  check_float8<float8_e4m3fn>(3, 7, 0x7e, false);
  check_float8<float8_e5m2>(2, 15, 0x7b, true);
  // Half way from the largest number to the next power of two it would round to infinity.
  CHECK(float8_e5m2(61439.0f).bits == 0x7b);
  CHECK(float8_e5m2(61440.0f).bits == 0x7c);
  CHECK(std::isinf(static_cast<float>(float8_e5m2(61440.0f))));
}

TEST_CASE("names and C++ types of every dtype lead back to it", "[dtype]") {
  for (int i = 0; i < kDTypeCount; ++i) {
    CHECK(dtype_from_name(name(at(i))) == at(i));
    visit<dtypes::any>(at(i), [&]<class T>() {
      CHECK(dtype_of<T> == at(i));
      CHECK(sizeof(T) == size_of(at(i)));
    });
  }
  CHECK(dtype_from_name("half") == DType::Float16);
  CHECK_THROWS_WITH(dtype_from_name("int4"), ContainsSubstring("no dtype is named 'int4'"));
}

// tests/cpp/dtype_test.cpp: the table of dtypes, and what is computed from it.
#include <iterator>
#include <string>
#include "tests/cpp/catch2.h"

#include "tensor/core/dtype.h"

using namespace moonlet;

namespace {

// PyTorch's promote_types: row by row the partners in the order of the table.
// clang-format off
constexpr const char* kPromoted[] = {
    "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128",
    "uint8 uint8 int16 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128",
    "int8 int16 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128",
    "int16 int16 int16 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128",
    "int32 int32 int32 int32 int32 int64 float16 bfloat16 float32 float64 complex64 complex128",
    "int64 int64 int64 int64 int64 int64 float16 bfloat16 float32 float64 complex64 complex128",
    "float16 float16 float16 float16 float16 float16 float16 float32 float32 float64 complex64 complex128",
    "bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 float32 bfloat16 float32 float64 complex64 complex128",
    "float32 float32 float32 float32 float32 float32 float32 float32 float32 float64 complex64 complex128",
    "float64 float64 float64 float64 float64 float64 float64 float64 float64 float64 complex128 complex128",
    "complex64 complex64 complex64 complex64 complex64 complex64 complex64 complex64 complex64 complex128 complex64 complex128",
    "complex128 complex128 complex128 complex128 complex128 complex128 complex128 complex128 complex128 complex128 complex128 complex128",
};
// clang-format on

DType at(int i) { return static_cast<DType>(i); }

}  // namespace

// Every entry of the tables, at compile time.
static_assert(kDTypeCount == std::size(kPromoted));
static_assert(size_of(DType::Bool) == 1 && size_of(DType::BFloat16) == 2);
static_assert(size_of(DType::Complex64) == 8 && size_of(DType::Complex128) == 16);
static_assert(dtypes::all == (DTypeSet{1} << kDTypeCount) - 1);
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
    for (int b = 0; b < kDTypeCount; ++b)
      row += text(b > 0 ? " " : "", name(promote(at(a), at(b))));
    CHECK(row == kPromoted[a]);
  }
}

TEST_CASE("names and C++ types of every dtype lead back to it", "[dtype]") {
  for (int i = 0; i < kDTypeCount; ++i) {
    CHECK(dtype_from_name(name(at(i))) == at(i));
    visit(at(i), [&]<class T>() {
      CHECK(dtype_of<T> == at(i));
      CHECK(sizeof(T) == size_of(at(i)));
    });
  }
  CHECK(dtype_from_name("half") == DType::Float16);
  CHECK_THROWS_WITH(dtype_from_name("int4"), ContainsSubstring("no dtype is named 'int4'"));
}

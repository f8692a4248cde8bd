// tests/cpp/tensor_test.cpp: making tensors and views, bounds, and type promotion.
#include "tests/cpp/catch2.h"

#include "tensor/core/operand.h"
#include "tensor/core/tensor.h"

using namespace moonlet;

TEST_CASE("a new tensor is contiguous", "[tensor]") {
  const Tensor x = empty_plain({2, 3, 4}, {DType::Int16, {}});
  CHECK(x.numel() == 24);
  CHECK(x.strides() == Dims({12, 4, 1}));
  CHECK(x.is_contiguous());
  CHECK(x.storage().bytes() == 48);
  CHECK(empty_plain({}, {}).numel() == 1);
  CHECK(empty_plain({0, 3}, {}).numel() == 0);
}

TEST_CASE("views outside the storage are refused", "[tensor]") {
  const Tensor x = empty_plain({3, 4}, {});
  CHECK(alias(x, {4, 3}, {1, 4}, 0).stride(1) == 4);
  CHECK_FALSE(alias(x, {4, 3}, {1, 4}, 0).is_contiguous());
  CHECK_THROWS_AS(alias(x, {3, 4}, {4, 1}, 1), Error);
  CHECK_THROWS_AS(alias(x, {3, 4}, {4, -1}, 0), Error);
  CHECK_THROWS_AS(alias(x, {3, 4}, {4, 1}, -1), Error);
  CHECK_THROWS_AS(alias(x, {1 << 30, 1 << 30}, {int64_t{1} << 40, 1}, 0), Error);
  CHECK(alias(x, {0, 4}, {4, 1}, 12).numel() == 0);
}

TEST_CASE("impossible sizes are errors", "[tensor]") {
  CHECK_THROWS_AS(empty_plain({-1}, {}), Error);
  CHECK_THROWS_AS(empty_plain({int64_t{1} << 40, int64_t{1} << 40}, {}), Error);
}

TEST_CASE("promotion is PyTorch's result_type", "[tensor]") {
  const auto make = [](DType t, Dims sizes) { return empty_plain(sizes, {t, {}}); };
  const Tensor f16 = make(DType::Float16, {2}), i32 = make(DType::Int32, {2});
  const Tensor f64_0 = make(DType::Float64, {}), u8 = make(DType::UInt8, {2});
  const Tensor b = make(DType::Bool, {2}), f64 = make(DType::Float64, {2});
  CHECK(result_type(f16, f64_0) == DType::Float16);
  CHECK(result_type(i32, f64_0) == DType::Float64);
  CHECK(result_type(i32, Operand(2.5)) == DType::Float32);
  CHECK(result_type(u8, Operand(300)) == DType::UInt8);
  CHECK(result_type(b, Operand(1)) == DType::Int64);
  CHECK(result_type(b, Operand(true)) == DType::Bool);
  CHECK(result_type(f64, Operand(Scalar(complex128(0, 1)))) == DType::Complex128);
  CHECK(result_type(f16, make(DType::BFloat16, {2})) == DType::Float32);
  CHECK(result_type(u8, make(DType::Int8, {2})) == DType::Int16);
  CHECK(result_type(i32, make(DType::Int64, {})) == DType::Int32);
}

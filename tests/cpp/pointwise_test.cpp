// tests/cpp/pointwise_test.cpp: the pointwise engine: layouts, dtypes, in-place rules, errors,
// special values, and results that do not depend on the number of threads.
#include "tests/cpp/catch2.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>

#include "tensor/cpu/copy/copy.h"
#include "tensor/cpu/pointwise/pointwise.h"
#include "tensor/raw_activation.h"
#include "tensor/raw_arithmetic.h"
#include "tensor/raw_math.h"
#include "tensor/runtime/threads.h"

using namespace moonlet;

namespace {
Tensor range(const Dims& sizes, DType dtype = DType::Float32, double step = 1) {
  Tensor x = empty_plain(sizes, {DType::Float64, {}});
  for (int64_t i = 0; i < x.numel(); ++i) x.data<double>()[i] = static_cast<double>(i) * step;
  Tensor y = empty_plain(sizes, {dtype, {}});
  cpu::copy_into(y, x);
  return y;
}
double at(const Tensor& x, int64_t i) {
  Tensor y = empty_plain(x.sizes(), {DType::Float64, {}});
  cpu::copy_into(y, x);
  return y.data<double>()[i];
}
std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}
// Where the bytes of two tensors differ.
std::string message_of_difference(const Tensor& a, const Tensor& b) {
  const auto bytes = static_cast<size_t>(a.numel()) * size_of(a.dtype());
  if (a.dtype() == b.dtype() && std::memcmp(a.raw(), b.raw(), bytes) == 0) return "";
  return text("they differ: ", a.dtype(), " of ", a.numel());
}
}  // namespace

TEST_CASE("broadcasting and transposed inputs", "[pointwise]") {
  const Tensor x = range({3, 4}), row = range({4}), column = range({3, 1});
  const Tensor flipped = alias(x, {4, 3}, {1, 4}, 0);
  for (int64_t i = 0; i < 12; ++i) {
    CHECK(at(raw::add(x, row), i) == i + i % 4);
    CHECK(at(raw::add(x, column), i) == i + i / 4);
    CHECK(at(raw::mul(flipped, 2.0), i) == 2.0 * ((i % 3) * 4 + i / 3));
  }
  CHECK_THROWS_AS(raw::add(x, range({5})), Error);
}

TEST_CASE("every dtype adds in its own way", "[pointwise]") {
  for (int t = 1; t < kDTypeCount; ++t) {
    if (is_storage(static_cast<DType>(t)) && is_floating(static_cast<DType>(t))) continue;
    const Tensor y =
        raw::add(range({37}, static_cast<DType>(t)), range({37}, static_cast<DType>(t)));
    CHECK(y.dtype() == static_cast<DType>(t));
    for (int64_t i = 0; i < 37; ++i) CHECK(at(y, i) == 2.0 * i);
  }
  CHECK(at(raw::add(range({300}, DType::UInt8), 200), 100) == 44);
}

TEST_CASE("integer division by zero is an error and floor division floors", "[pointwise]") {
  const Tensor x = range({4}, DType::Int32);
  CHECK(message([&] { raw::floor_divide(x, 0); }).find("division by zero") != std::string::npos);
  CHECK(at(raw::floor_divide(raw::neg(x), 2), 3) == -2);
  CHECK(at(raw::remainder(raw::neg(x), 2), 3) == 1);
  CHECK(at(raw::fmod(raw::neg(x), 2), 3) == -1);
}

TEST_CASE("in place keeps dtype and shape", "[pointwise]") {
  Tensor x = range({3}, DType::Int64);
  CHECK(message([&] { raw::add_(x, 0.5); }).find("float32 cannot be stored in int64") !=
        std::string::npos);
  CHECK_THROWS_AS(raw::add_(x, range({2, 3}, DType::Int64)), Error);
  const uint32_t version = x.storage().version();
  raw::add_(x, 1);
  CHECK(at(x, 2) == 3);
  CHECK(x.storage().version() == version + 1);
}

TEST_CASE("overlapping memory is read before it is written", "[pointwise]") {
  const Tensor all = range({6});
  Tensor tail = alias(all, {5}, {1}, 1);
  raw::add_(tail, alias(all, {5}, {1}, 0));
  for (int64_t i = 1; i < 6; ++i) CHECK(at(all, i) == 2.0 * i - 1);
}

TEST_CASE("special values", "[pointwise]") {
  const double inf = std::numeric_limits<double>::infinity();
  Tensor x = empty_plain({4}, {});
  const float values[] = {static_cast<float>(inf), static_cast<float>(-inf), NAN, -0.0f};
  std::memcpy(x.data<float>(), values, sizeof values);
  const Tensor e = raw::exp(x), l = raw::log(x), t = raw::tanh(x), r = raw::relu(x);
  CHECK((at(e, 0) == inf && at(e, 1) == 0 && std::isnan(at(e, 2)) && at(e, 3) == 1));
  CHECK((at(l, 0) == inf && std::isnan(at(l, 1)) && std::isnan(at(l, 2)) && at(l, 3) == -inf));
  CHECK((at(t, 0) == 1 && at(t, 1) == -1 && std::isnan(at(t, 2)) && std::signbit(at(t, 3))));
  CHECK((at(r, 0) == inf && at(r, 1) == 0 && std::isnan(at(r, 2))));
  CHECK(std::isnan(at(raw::maximum(x, 1.0), 2)));
}

TEST_CASE("the number of threads changes no bit", "[pointwise]") {
  const Tensor x = range({300001}, DType::Float32, 0.001);
  const int before = num_threads();
  set_num_threads(1);
  const Tensor one = raw::sin(x);
  set_num_threads(3);
  const Tensor three = raw::sin(x);
  set_num_threads(before);
  CHECK(std::memcmp(one.raw(), three.raw(), static_cast<size_t>(x.numel()) * 4) == 0);
}

TEST_CASE("numbers beside dense tensors of any length", "[pointwise]") {
  for (const DType dtype : {DType::Float32, DType::Float64, DType::Float16, DType::Int64,
                            DType::Int8, DType::Complex64}) {
    for (const int64_t n : {1, 60, 129, 600, 1500, 2500, 5000, 20000}) {
      Tensor x = range({n}, dtype, 0.01), three = range({n}, dtype, 0);
      three = raw::add(three, 3);
      CHECK(message_of_difference(raw::mul(x, 3), raw::mul(x, three)).empty());
      CHECK(message_of_difference(raw::sub(3, x), raw::sub(three, x)).empty());
    }
  }
}

TEST_CASE("floats saturate into integers", "[pointwise]") {
  Tensor x = empty_plain({3}, {DType::Float64, {}}), y = empty_plain({3}, {DType::Int64, {}});
  x.data<double>()[0] = 1e300;
  x.data<double>()[1] = -1e300;
  x.data<double>()[2] = NAN;
  cpu::copy_into(y, x);
  CHECK(y.data<int64_t>()[0] == INT64_MAX);
  CHECK(y.data<int64_t>()[1] == INT64_MIN);
  CHECK(y.data<int64_t>()[2] == 0);
}

namespace {
// Which of its loops an op of two inputs is run with, the second one a number unless it is a
// tensor.
const char* called = "";
template <char First, char Second>
void note(const void* const*, void*, size_t, const Scalar*) {
  static constexpr char name[] = {First, Second, 0};
  called = name;
}
std::string loop_of(cpu::PointwiseLoops loops, const Tensor& out, const Tensor& x,
                    const Operand& other) {
  loops.i8 = note<'i', '1'>, loops.u8 = note<'u', '1'>, loops.i16 = note<'i', '2'>;
  loops.i32 = note<'i', '4'>, loops.i64 = note<'i', '8'>;
  PointwisePlan plan;
  plan.op = "op";
  plan.numel = out.numel();
  plan.inputs = 2;
  plan.compute = DType::Int64;
  plan.param_count = 0;
  const auto set = [](PointwiseArg& arg, const Tensor& t) {
    arg.data = t.raw();
    arg.scalar = nullptr;
    arg.dtype = t.dtype();
  };
  set(plan.out, out);
  set(plan.in[0], x);
  const Tensor* tensors[] = {&x, other.is_tensor() ? &other.tensor() : nullptr};
  if (other.is_tensor())
    set(plan.in[1], other.tensor());
  else
    plan.in[1].scalar = &other.scalar();
  plan_layout(plan, out, tensors);
  cpu::run_loops(plan, loops);
  return called;
}
}  // namespace

TEST_CASE("small integers are computed as they lie where all have the type", "[pointwise]") {
  cpu::PointwiseLoops plain = {}, truth = {};
  truth.takes_bools = truth.gives_truth = true;
  const Tensor i8 = range({40}, DType::Int8), u8 = range({40}, DType::UInt8),
               i16 = range({40}, DType::Int16), i32 = range({40}, DType::Int32),
               i64 = range({40}, DType::Int64), bools = range({40}, DType::Bool);
  CHECK(loop_of(plain, i8, i8, i8) == "i1");
  CHECK(loop_of(plain, u8, u8, u8) == "u1");
  CHECK(loop_of(plain, i16, i16, i16) == "i2");
  CHECK(loop_of(plain, i32, i32, alias(i32, {40}, {0}, 0)) == "i4");
  CHECK(loop_of(plain, i64, i64, i64) == "i8");
  CHECK(loop_of(plain, i16, i8, i16) == "i8");
  CHECK(loop_of(plain, i64, i8, i8) == "i8");
  CHECK(loop_of(plain, i8, i8, bools) == "i1");
  CHECK(loop_of(plain, i8, i8, Scalar(127)) == "i1");
  CHECK(loop_of(plain, i8, i8, Scalar(128)) == "i8");
  CHECK(loop_of(plain, u8, u8, Scalar(-1)) == "i8");
  CHECK(loop_of(plain, bools, bools, bools) == "i8");
  CHECK(loop_of(truth, bools, i8, i8) == "i1");
  CHECK(loop_of(truth, bools, i32, Scalar(5)) == "i4");
  CHECK(loop_of(truth, bools, i32, i64) == "i8");
  CHECK(loop_of(truth, bools, bools, bools) == "u1");
  CHECK(loop_of(truth, i64, bools, bools) == "u1");
}

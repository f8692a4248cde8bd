// tests/cpp/random_test.cpp: Philox against its published vectors, the moments of random fills, and
// their independence of threads and layouts.
#include "tests/cpp/catch2.h"

#include <cmath>
#include <cstring>

#include "autograd/ops_arithmetic.h"
#include "autograd/ops_clone.h"
#include "autograd/ops_compare.h"
#include "autograd/ops_convert.h"
#include "autograd/ops_create.h"
#include "autograd/ops_random.h"
#include "autograd/ops_reduce.h"
#include "autograd/ops_shape.h"
#include "autograd/ops_sort.h"
#include "tensor/functors/random_transforms.h"
#include "tensor/runtime/random_generator.h"
#include "tensor/runtime/threads.h"
#include "tensor/shapes/random.h"

using namespace moonlet;

namespace {
double number(const Tensor& t) { return *to(t, DType::Float64).data<double>(); }
bool same(const Tensor& a, const Tensor& b) {
  const Tensor x = contiguous(a), y = contiguous(b);
  return std::memcmp(x.raw(), y.raw(), size_of(x.dtype()) * size_t(x.numel())) == 0;
}
}  // namespace

TEST_CASE("Philox gives the vectors of Random123") {
  const PhiloxBlock zero = Philox{0, 0}.block(0);
  CHECK(zero.v[0] == 0x6627e8d5u);
  CHECK(zero.v[1] == 0xe169c58du);
  CHECK(zero.v[2] == 0xbc57ac4cu);
  CHECK(zero.v[3] == 0x9b00dbd8u);
}

TEST_CASE("fills have the moments of their distributions") {
  default_generator().manual_seed(7);
  const int64_t n = 200000;
  for (DType dtype : {DType::Float32, DType::Float64}) {
    Tensor x = empty_plain({n}, {dtype, {}});
    uniform_(x, -1, 3);
    CHECK((number(amin(x)) >= -1 && number(amax(x)) < 3));
    CHECK(std::abs(number(mean(x)) - 1) < 0.02);
    CHECK(std::abs(number(var(x)) - 16.0 / 12) < 0.02);
    normal_(x, 2, 3);
    CHECK(std::abs(number(mean(x)) - 2) < 0.04);
    CHECK(std::abs(number(moonlet::std(x)) - 3) < 0.03);
    exponential_(x, 2);
    CHECK(number(amin(x)) >= 0);
    CHECK(std::abs(number(mean(x)) - 0.5) < 0.01);
    bernoulli_(x, 0.3);
    CHECK(std::abs(number(mean(x)) - 0.3) < 0.01);
    random_(x, 2, 4);
    CHECK((number(amin(x)) == 2 && number(amax(x)) == 4));
    CHECK(std::abs(number(mean(x)) - 3) < 0.01);
  }
}

TEST_CASE("one seed gives the same numbers for any number of threads and layout") {
  const auto draw = [](int threads) {
    const int before = num_threads();
    set_num_threads(threads);
    default_generator().manual_seed(3);
    const Tensor x = cat({randn({300001}), rand({70001})}, 0);
    set_num_threads(before);
    return x;
  };
  const Tensor one = draw(1);
  CHECK(same(one, draw(2)));
  CHECK(same(one, draw(5)));
  default_generator().manual_seed(3);
  Tensor turned = transpose(empty_plain({50, 40}, {}), 0, 1);
  normal_(turned);
  default_generator().manual_seed(3);
  CHECK(same(turned, randn({40, 50})));
  CHECK_FALSE(same(turned, randn({40, 50})));
}

TEST_CASE("randperm and multinomial give positions from 1") {
  const Tensor order = randperm(1000);
  CHECK(number(sum(order)) == 500500);
  CHECK(number(sum(std::get<0>(sort(order)))) == 500500);
  CHECK((number(amin(order)) == 1 && number(amax(order)) == 1000));
  Tensor weights = zeros({5}, {});
  weights.data<float>()[2] = 1;
  weights.data<float>()[4] = 3;
  const Tensor drawn = multinomial(weights, 4000, true);
  const Tensor fives = to(eq(drawn, 5), DType::Float32);
  CHECK(number(amin(drawn)) == 3);
  CHECK(std::abs(number(mean(fives)) - 0.75) < 0.03);
  CHECK(number(sum(multinomial(weights, 2))) == 8);
}

TEST_CASE("the extreme random words give numbers of the distribution") {
  for (const uint32_t bits : {0u, 1u, 0x7fffffffu, 0x80000000u, 0xfffffeffu, 0xffffffffu}) {
    CHECK((draws::unit_f32(bits) >= 0 && draws::unit_f32(bits) < 1));
    CHECK((draws::unit_above_zero_f32(bits) > 0 && draws::unit_above_zero_f32(bits) <= 1));
    CHECK((draws::exponential_f32(bits) > 0 && draws::exponential_f32(bits) < 17));
    CHECK((draws::unit_f64(bits, bits) >= 0 && draws::unit_f64(bits, bits) < 1));
    CHECK((draws::exponential_f64(bits, bits) > 0 && draws::exponential_f64(bits, bits) < 37));
  }
}

TEST_CASE("bounds of draws are the nearest values inside the interval") {
  const auto bounds = [](DType dtype, double from, double to) {
    return shapes::uniform_bounds(empty_plain({0}, {dtype, {}}), from, to);
  };
  CHECK(bounds(DType::BFloat16, 0, 1).last == 1 - 0x1p-8);
  CHECK(bounds(DType::Float16, 0, 1).last == 1 - 0x1p-11);
  CHECK(bounds(DType::Float32, 0, 1).last == 1 - 0x1p-24);
  CHECK(bounds(DType::Float64, 0, 1).last == 1 - 0x1p-53);
  CHECK(bounds(DType::Float16, -1, 0).last == -0x1p-24);
  CHECK(bounds(DType::BFloat16, -1, -0.5).last == -0.5 - 0x1p-8);
  CHECK(bounds(DType::Float16, 0.1, 1).first == 1639 * 0x1p-14);
  CHECK(bounds(DType::Float16, -0.1, 1).first == -1638 * 0x1p-14);
  CHECK(bounds(DType::Float16, 0, 65504).last == 65472);
  CHECK(bounds(DType::BFloat16, 3, 3).last == 3);
  const Tensor wide = empty_plain({0}, {DType::Float64, {}});
  const int64_t high = int64_t{1} << 60;
  CHECK(shapes::integer_bounds(wide, {0, high - 1}).last == 0x1p60 - 128);
  CHECK(shapes::integer_bounds(wide, {INT64_MIN, INT64_MAX}).last == 0x1p63 - 1024);
  CHECK(shapes::integer_bounds(empty_plain({0}, {DType::Float16, {}}), {0, 4095}).last == 4094);
}

TEST_CASE("integers are drawn with both ends") {
  default_generator().manual_seed(7);
  Tensor x = empty_plain({1000}, {DType::Int64, {}});
  random_(x, 3);
  CHECK((number(amin(x)) == 1 && number(amax(x)) == 3));
  random_(x, 5, 5);
  CHECK((number(amin(x)) == 5 && number(amax(x)) == 5));
  random_(x, INT64_MIN, INT64_MAX);
  CHECK((number(amin(x)) < -0x1p62 && number(amax(x)) > 0x1p62));
  CHECK_THROWS_AS(random_(x, 5, 4), Error);
  CHECK_THROWS_AS(random_(x, 0), Error);
  Tensor bits = empty_plain({100}, {DType::Bool, {}});
  random_(bits, 0, 1);
  CHECK_THROWS_AS(random_(bits, 1, 2), Error);
  Tensor bytes = empty_plain({3000}, {DType::UInt8, {}});
  random_(bytes, 0, 255);
  CHECK(
      (number(amin(to(bytes, DType::Int64))) == 0 && number(amax(to(bytes, DType::Int64))) == 255));
}

TEST_CASE("dropout masks keep the mean") {
  const Tensor mask = dropout_mask(zeros({100000}, {}), 0.25);
  CHECK(std::abs(number(mean(mask)) - 1) < 0.01);
  CHECK(number(amin(mask)) == 0);
}

TEST_CASE("a generator that is given draws, and the default one rests", "[random]") {
  Generator one, two;
  one.manual_seed(5);
  two.manual_seed(5);
  const Philox before = default_generator().state();
  const Tensor a = rand({40}, &one), b = rand({40}, &two);
  CHECK(same(a, b));
  CHECK_FALSE(same(a, rand({40}, &one)));
  CHECK(same(randn({40}, &one), [&] {
    rand({40}, &two);
    return randn({40}, &two);
  }()));
  CHECK(same(randint(0, 999, {40}, {}, {}, &one), randint(0, 999, {40}, {}, {}, &two)));
  CHECK(same(randperm(40, {}, {}, &one), randperm(40, {}, {}, &two)));
  const Tensor weights = full({6}, 1.0);
  for (bool replacement : {true, false})
    CHECK(same(multinomial(weights, 5, replacement, &one),
               multinomial(weights, 5, replacement, &two)));
  CHECK(same(rand_like(a, {}, {}, &one), rand_like(a, {}, {}, &two)));
  CHECK(same(randn_like(a, {}, {}, &one), randn_like(a, {}, {}, &two)));
  CHECK(same(dropout_mask(a, 0.5, &one), dropout_mask(a, 0.5, &two)));
  Tensor x = clone(a), y = clone(a);
  CHECK(same(bernoulli_(x, 0.5, &one), bernoulli_(y, 0.5, &two)));
  CHECK(same(exponential_(x, 1, &one), exponential_(y, 1, &two)));
  CHECK(before.offset == default_generator().state().offset);
}

// tests/cpp/nn_test.cpp: the kernels of softmax, pooling and the likelihood at the edges of their
// domains.
#include "tests/cpp/catch2.h"

#include <cmath>
#include <limits>

#include "tensor/kernels_loss.h"
#include "tensor/kernels_softmax.h"
#include "tensor/shapes_conv.h"
#include "tensor/shapes_pool.h"

using namespace moonlet;

TEST_CASE("softmax is stable, and NaN and all minus infinity give NaN") {
  const float inf = std::numeric_limits<float>::infinity();
  for (int64_t n : {3, 40, 300}) {
    Tensor x = empty_plain({4, n}, {}), y = empty_plain(x.sizes(), options_of(x));
    for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = static_cast<float>(i % 7) + 1e4f;
    for (int64_t j = 0; j < n; ++j) x.data<float>()[n + j] = -inf;
    x.data<float>()[2 * n + n / 2] = std::nanf("");
    x.data<float>()[3 * n] = -inf;
    for (const bool log : {false, true}) {
      log ? cpu::log_softmax(x, 1, y) : cpu::softmax(x, 1, y);
      double sum = 0;
      for (int64_t j = 0; j < n; ++j)
        sum += log ? std::exp(y.data<float>()[j]) : y.data<float>()[j];
      CHECK(std::abs(sum - 1) < 1e-4);
      CHECK(std::isnan(y.data<float>()[n]));
      CHECK(std::isnan(y.data<float>()[2 * n]));
      CHECK(y.data<float>()[3 * n] == (log ? -inf : 0));
    }
  }
}

TEST_CASE("softmax along the first dimension equals that of the transpose") {
  Tensor x = empty_plain({5, 301}, {}), y = empty_plain(x.sizes(), options_of(x)),
         flipped = empty_plain({301, 5}, {});
  Tensor z = empty_plain(flipped.sizes(), options_of(flipped));
  for (int64_t i = 0; i < 5; ++i)
    for (int64_t j = 0; j < 301; ++j)
      flipped.data<float>()[j * 5 + i] = x.data<float>()[i * 301 + j] = float(i * j % 13) - 6;
  cpu::softmax(x, 0, y);
  cpu::softmax(flipped, 1, z);
  for (int64_t i = 0; i < 5; ++i)
    for (int64_t j = 0; j < 301; ++j)
      CHECK(std::abs(z.data<float>()[j * 5 + i] - y.data<float>()[i * 301 + j]) < 1e-6);
}

TEST_CASE("a class outside the range is an error that names it") {
  Tensor x = empty_plain({1, 3}, {}), target = empty_plain({1}, {DType::Int64, {}});
  Tensor y = empty_plain({}, {}), total = empty_plain({}, {});
  for (int64_t bad : {int64_t{0}, int64_t{4}}) {
    *target.data<int64_t>() = bad;
    CHECK_THROWS_AS(cpu::native_nll_loss(x, target, {}, 1, -100, y, total), Error);
  }
}

TEST_CASE("shape checks name the shapes") {
  Tensor x = empty_plain({1, 3, 4, 4}, {}), weight = empty_plain({2, 2, 3, 3}, {});
  CHECK_THROWS_AS(shapes::native_conv(x, weight, {}, {1, 1}, {0, 0}, {1, 1}, 1), Error);
  CHECK_THROWS_AS(shapes::max_pool2d_with_indices(x, {5, 5}, {}, {0, 0}, {1, 1}, false), Error);
  CHECK_THROWS_AS(shapes::max_pool2d_with_indices(x, {2, 2}, {0, 0}, {0, 0}, {1, 1}, false), Error);
  CHECK(shapes::max_pool2d_with_indices(x, {3, 3}, {2, 2}, {1, 1}, {1, 1}, true)[0].sizes ==
        Dims{1, 3, 3, 3});
}

// tests/cpp/sort_test.cpp: sort, topk, gather, scatter and indexing on the CPU.
#include "tests/cpp/catch2.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "autograd/ops_arithmetic.h"
#include "autograd/ops_clone.h"
#include "autograd/ops_compare.h"
#include "autograd/ops_convert.h"
#include "autograd/ops_copy.h"
#include "autograd/ops_create.h"
#include "autograd/ops_gather.h"
#include "autograd/ops_index.h"
#include "autograd/ops_random.h"
#include "autograd/ops_shape.h"
#include "autograd/ops_sort.h"
#include "tensor/runtime/threads.h"

using namespace moonlet;

namespace {
Tensor numbers(std::initializer_list<double> values, DType dtype = DType::Float64) {
  Tensor t = empty_plain({static_cast<int64_t>(values.size())}, {DType::Float64, {}});
  std::copy(values.begin(), values.end(), t.data<double>());
  return to(t, dtype);
}
Tensor positions(std::initializer_list<double> values) { return numbers(values, DType::Int64); }

bool equal(const Tensor& y, std::initializer_list<double> wanted) {
  const Tensor plain = contiguous(to(y, DType::Float64));
  return std::equal(wanted.begin(), wanted.end(), plain.data<double>(),
                    plain.data<double>() + plain.numel());
}

// Whether f throws with that text in its message.
template <class F>
bool says(F&& f, const char* text) {
  try {
    f();
  } catch (const Error& error) {
    return std::string(error.what()).find(text) != std::string::npos;
  }
  return false;
}

// The 1-based positions of x's elements in order, by a stable sort of double values.
std::vector<int64_t> sorted_positions(const Tensor& x, bool descending) {
  const Tensor plain = contiguous(to(x, DType::Float64));
  const double* v = plain.data<double>();
  std::vector<int64_t> order(static_cast<size_t>(x.numel()));
  std::iota(order.begin(), order.end(), 1);
  const auto less = [&](int64_t a, int64_t b) {
    return v[a - 1] < v[b - 1] || (v[b - 1] != v[b - 1] && v[a - 1] == v[a - 1]);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return descending ? less(b, a) : less(a, b); });
  return order;
}

void check_order(const Tensor& x) {
  for (bool descending : {false, true}) {
    const std::vector<int64_t> wanted = sorted_positions(x, descending);
    const auto [values, indices] = sort(x, -1, descending);
    CHECK(std::equal(wanted.begin(), wanted.end(), indices.data<int64_t>()));
    for (int64_t k : {int64_t{0}, int64_t{1}, x.numel() / 20, x.numel() / 3, x.numel()}) {
      const Tensor top = std::get<1>(topk(x, k, -1, descending));
      CHECK(std::equal(wanted.begin(), wanted.begin() + k, top.data<int64_t>()));
    }
    const Tensor again = gather(x, 0, indices);
    CHECK(std::memcmp(values.raw(), again.raw(), size_of(x.dtype()) * size_t(x.numel())) == 0);
  }
}
}  // namespace

TEST_CASE("sort and topk keep equal elements in order and put NaN last, in every dtype") {
  for (DType dtype :
       {DType::Bool, DType::UInt8, DType::Int8, DType::Int16, DType::Int32, DType::Int64,
        DType::Float16, DType::BFloat16, DType::Float32, DType::Float64}) {
    for (int64_t n : {1, 7, 100, 3000}) {
      CAPTURE(name(dtype), n);
      Tensor x = to(mul(randn({n}), 20.0), dtype);
      check_order(x);
      if (!is_floating(dtype)) continue;
      x = masked_fill(x, gt(x, 25.0), std::numeric_limits<double>::quiet_NaN());
      x = masked_fill(x, lt(x, -25.0), -std::numeric_limits<double>::infinity());
      check_order(masked_fill(x, lt(abs(x), 2.0), -0.0));
    }
  }
}

TEST_CASE("sort along other dims and of other layouts") {
  const Tensor x = reshape(numbers({3, 1, 2, 0, 5, 4}), {2, 3});
  CHECK(equal(std::get<0>(sort(x, 0)), {0, 1, 2, 3, 5, 4}));
  CHECK(equal(std::get<1>(sort(x, 0)), {2, 1, 1, 1, 2, 2}));
  CHECK(equal(std::get<0>(sort(transpose(x, 0, 1), 0)), {1, 0, 2, 4, 3, 5}));
  CHECK(equal(argsort(x, 1, true), {1, 3, 2, 2, 3, 1}));
  CHECK(equal(std::get<1>(sort(full({}, 2.0, {}), 0)), {1}));
  CHECK(std::get<0>(sort(empty_plain({0}, {}), 0)).numel() == 0);
  CHECK(says([&] { topk(x, 4); }, "topk: k = 4 is not between 0 and 3"));
}

TEST_CASE("gather and scatter count from 1 and check positions") {
  const Tensor x = reshape(numbers({1, 2, 3, 4, 5, 6}), {2, 3});
  const Tensor index = reshape(positions({3, 1, 2, 2}), {2, 2});
  CHECK(equal(gather(x, 1, index), {3, 1, 5, 5}));
  CHECK(equal(gather(transpose(x, 0, 1), 0, transpose(index, 0, 1)), {3, 5, 1, 5}));
  const Tensor source = reshape(numbers({10, 20, 30, 40}), {2, 2});
  CHECK(equal(scatter(x, -1, index, source), {20, 2, 10, 4, 40, 6}));
  CHECK(equal(scatter_add(x, 1, index, source), {21, 2, 13, 4, 75, 6}));
  CHECK(says([&] { gather(x, 1, add(index, 1)); }, "gather: position 4"));
  CHECK(says([&] { gather(x, 1, sub(index, 1)); }, "positions start at 1"));
  CHECK(says([&] { scatter(x, 0, index, source); }, "scatter: position 3"));
  CHECK(equal(x, {1, 2, 3, 4, 5, 6}));
}

TEST_CASE("index_select, index_add and embedding") {
  const Tensor x = reshape(numbers({1, 2, 3, 4, 5, 6}), {2, 3});
  CHECK(equal(index_select(x, 0, positions({2, 1, 2})), {4, 5, 6, 1, 2, 3, 4, 5, 6}));
  CHECK(equal(index_select(x, 1, positions({3, 3})), {3, 3, 6, 6}));
  CHECK(index_select(x, 0, empty_plain({0}, {DType::Int64, {}})).sizes() == Dims{0, 3});
  CHECK(equal(index_add(x, 1, positions({1, 1}), reshape(numbers({1, 2, 3, 4}), {2, 2})),
              {4, 2, 3, 11, 5, 6}));
  CHECK(equal(embedding(x, positions({2, 1})), {4, 5, 6, 1, 2, 3}));
  CHECK(equal(embedding_grad_weight(x, positions({3, 3}), 3), {0, 0, 0, 0, 0, 0, 5, 7, 9}));
  CHECK(equal(embedding_grad_weight(x, positions({3, 1}), 3, 3), {4, 5, 6, 0, 0, 0, 0, 0, 0}));
  CHECK(says([&] { embedding(x, positions({3})); }, "out of range for size 2"));
}

TEST_CASE("advanced indexing reads and writes") {
  const Tensor x = reshape(numbers({1, 2, 3, 4, 5, 6}), {2, 3});
  CHECK(equal(index(x, {positions({2, 1}), positions({3, -3})}), {6, 1}));
  CHECK(equal(index(x, {Tensor(), positions({-1, 1})}), {3, 1, 6, 4}));
  const Tensor rows = reshape(positions({2, 1}), {2, 1});
  CHECK(equal(index(x, {rows, positions({1, 2})}), {4, 5, 1, 2}));
  const Tensor one = full({}, 9.0, {DType::Float64, {}});
  CHECK(equal(index_put(x, {positions({1}), Tensor()}, one), {9, 9, 9, 4, 5, 6}));
  CHECK(
      equal(index_put(x, {positions({2, 2}), positions({1, 1})}, one, true), {1, 2, 3, 22, 5, 6}));
  CHECK(says([&] { index(x, {positions({0})}); }, "positions start at 1"));
  CHECK(says([&] { index(x, {positions({-3})}); }, "out of range"));
}

TEST_CASE("nonzero, masked_select and bincount") {
  const Tensor x = reshape(numbers({0, 1, 2, 0}), {2, 2});
  CHECK(equal(nonzero(x), {1, 2, 2, 1}));
  CHECK(nonzero(full({}, 1.0, {})).sizes() == Dims{1, 0});
  CHECK(equal(masked_select(x, gt(x, 0.0)), {1, 2}));
  CHECK(equal(bincount(positions({1, 3, 3})), {1, 0, 2}));
}

TEST_CASE("scattered sums do not depend on the number of threads") {
  const Tensor x = randn({64, 500}), index = randint(1, 500, {64, 2000});
  const Tensor source = randn({64, 2000}), rows = randint(1, 64, {3000}), more = randn({3000, 500});
  const auto all_sums = [&] {
    return cat({scatter_add(x, 1, index, source), index_add(x, 0, rows, more),
                embedding_grad_weight(more, rows, 64)},
               0);
  };
  const int threads = num_threads();
  set_num_threads(1);
  const Tensor one = all_sums();
  set_num_threads(5);
  const Tensor many = all_sums();
  set_num_threads(threads);
  CHECK(std::memcmp(one.raw(), many.raw(), static_cast<size_t>(one.numel()) * 4) == 0);
}

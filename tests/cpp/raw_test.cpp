// tests/cpp/raw_test.cpp: what the generated ops without the tape do around a kernel: out forms
// with one and with several results, and arguments that an op writes to.
#include "tests/cpp/catch2.h"

#include <vector>

#include "tensor/core/views.h"
#include "tensor/raw_convert.h"
#include "tensor/raw_copy.h"
#include "tensor/raw_gather.h"
#include "tensor/raw_index.h"
#include "tensor/raw_shape.h"
#include "tensor/raw_sort.h"

using namespace moonlet;

namespace {

constexpr Options kDouble{DType::Float64, {}};

Tensor of(const std::vector<double>& values) {
  Tensor out = empty_plain({static_cast<int64_t>(values.size())}, kDouble);
  std::copy(values.begin(), values.end(), out.data<double>());
  return out;
}

std::vector<double> values(const Tensor& x) {
  const Tensor y = raw::convert(x, DType::Float64, std::nullopt, std::nullopt);
  return {y.data<double>(), y.data<double>() + y.numel()};
}

using Values = std::vector<double>;

}  // namespace

TEST_CASE("an out form with several results fills all of them", "[raw]") {
  const Tensor x = of({3, 1, 2});
  Tensor sorted = empty_plain({3}, kDouble), order = empty_plain({3}, {DType::Int64, {}});
  const char* memory = sorted.raw();
  raw::sort_out(sorted, order, x, 0, false, false);
  CHECK(values(sorted) == Values{1, 2, 3});
  CHECK(values(order) == Values{2, 3, 1});
  CHECK(sorted.raw() == memory);
  CHECK(sorted.storage().version() == 1);
  CHECK(order.storage().version() == 1);

  Tensor small = empty_plain({0}, kDouble), wide = empty_plain({0}, kDouble);
  raw::sort_out(small, wide, x, 0, true, false);
  CHECK(values(small) == Values{3, 2, 1});
  CHECK(values(wide) == Values{1, 3, 2});
}

TEST_CASE("an out form may write over its input", "[raw]") {
  Tensor x = of({3, 1, 2});
  Tensor order = empty_plain({3}, {DType::Int64, {}});
  raw::sort_out(x, order, x, 0, false, false);
  CHECK(values(x) == Values{1, 2, 3});
  CHECK(values(order) == Values{2, 3, 1});
  Tensor whole = of({1, 2, 3, 4});
  Tensor part = views::slice(whole, 0, 1, 4, 1);
  raw::cat_out(part, {views::slice(whole, 0, 0, 2, 1), views::slice(whole, 0, 3, 4, 1)}, 0);
  CHECK(values(whole) == Values{1, 1, 2, 4});
}

TEST_CASE("an out form refuses what cannot hold the results before it computes", "[raw]") {
  const Tensor x = of({3, 1, 2});
  Tensor sorted = empty_plain({3}, kDouble), order = empty_plain({3}, {DType::Int64, {}});
  Tensor short_one = empty_plain({2}, {DType::Int64, {}}), missing;
  const std::vector<double> before = {7, 7, 7};
  std::copy(before.begin(), before.end(), sorted.data<double>());
  CHECK_THROWS_WITH(raw::sort_out(sorted, short_one, x, 0, false, false),
                    ContainsSubstring("sort: out has shape (2,)"));
  CHECK_THROWS_WITH(raw::sort_out(sorted, missing, x, 0, false, false),
                    ContainsSubstring("sort: out is missing"));
  Tensor bools = empty_plain({3}, {DType::Bool, {}});
  CHECK_THROWS_WITH(raw::sort_out(bools, order, x, 0, false, false),
                    ContainsSubstring("cannot be stored in an out of dtype bool"));
  CHECK_THROWS_WITH(raw::sort_out(sorted, sorted, x, 0, false, false),
                    ContainsSubstring("share memory"));
  CHECK(values(sorted) == before);
}

TEST_CASE("an allocating op has an out form", "[raw]") {
  const Tensor x = of({0, 5, 6});
  Tensor out = empty_plain({0}, {DType::Int64, {}});
  CHECK(&raw::nonzero_out(out, x) == &out);
  CHECK(values(out) == Values{2, 3});
  CHECK(out.sizes() == Dims{2, 1});
}

TEST_CASE("an update copies what it reads from the memory that it writes", "[raw]") {
  Tensor x = of({1, 2, 3, 4});
  Tensor index = empty_plain({3}, {DType::Int64, {}});
  for (int64_t i = 0; i < 3; ++i) index.data<int64_t>()[i] = i + 2;
  raw::scatter_(x, 0, index, views::slice(x, 0, 0, 3, 1));
  CHECK(values(x) == Values{1, 1, 2, 3});
  x = of({1, 2, 3, 4});
  raw::index_add_(x, 0, index, views::slice(x, 0, 0, 3, 1));
  CHECK(values(x) == Values{1, 3, 5, 7});
}

TEST_CASE("written arguments have elements of their own", "[raw]") {
  Tensor windows = views::unfold(of({1, 2, 3}), 0, 2, 1);
  CHECK_THROWS_WITH(raw::fill_(windows, 0.0), ContainsSubstring("share one position in memory"));
  Tensor columns = views::transpose(views::view(of({1, 2, 3, 4}), {2, 2}), 0, 1);
  CHECK_NOTHROW(raw::fill_(columns, 0.0));
  Tensor every_second = views::slice(of({1, 2, 3, 4}), 0, 0, 4, 2);
  CHECK_NOTHROW(raw::fill_(every_second, 0.0));
}

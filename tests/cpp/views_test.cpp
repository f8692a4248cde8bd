// tests/cpp/views_test.cpp: views show the elements they should, refuse what lies outside, and the
// kernels that join, pad, flip and lay gradients into views agree with element-by-element results.
#include "tests/cpp/catch2.h"

#include <numeric>
#include <vector>

#include "tensor/core/views.h"
#include "tensor/kernels_shape.h"
#include "tensor/raw_shape.h"
#include "tensor/shapes_shape.h"

using namespace moonlet;

namespace {

using Values = std::vector<double>;

Tensor numbered(const Dims& sizes) {
  Tensor x = empty_plain(sizes, {DType::Float64, {}});
  std::iota(x.elements<double>(), x.elements<double>() + x.numel(), 0.0);
  return x;
}

void collect(const Tensor& x, int dim, int64_t at, Values& out) {
  if (dim == x.dim()) {
    out.push_back(x.elements<double>()[at]);
    return;
  }
  for (int64_t i = 0; i < x.size(dim); ++i) collect(x, dim + 1, at + i * x.stride(dim), out);
}

// The elements in row-major order, read through the strides.
Values values(const Tensor& x) {
  Values out;
  collect(x, 0, 0, out);
  return out;
}

}  // namespace

TEST_CASE("view follows the strides or refuses", "[views]") {
  const Tensor x = numbered({2, 3, 4});
  CHECK(views::view(x, {6, -1}).sizes() == Dims{6, 4});
  CHECK(values(views::view(x, {4, 6})) == values(x));
  const Tensor turned = views::transpose(x, 0, 1);
  CHECK_THROWS_WITH(views::view(turned, {24}), ContainsSubstring("use reshape"));
  CHECK(values(views::view(turned, {3, 2, 2, 2})) == values(turned));
  CHECK(views::view(views::slice(x, 2, 0, 2, 1), {6, 2}).strides() == Dims{4, 1});
  CHECK(views::view(numbered({0, 3}), {3, 0, 5}).numel() == 0);
  CHECK(views::view(numbered({}), {1, 1}).sizes() == Dims{1, 1});
  CHECK_THROWS_WITH(views::view(x, {5, -1}), ContainsSubstring("24 elements do not fit"));
  CHECK_THROWS_WITH(views::view(x, {-1, -1}), ContainsSubstring("only one size"));
  CHECK_THROWS_WITH(views::view(numbered({0}), {0, -1}), ContainsSubstring("any size"));
  CHECK_THROWS_AS(views::view(x, {INT64_MAX, 4}), Error);
  CHECK_THROWS_AS(views::view(x, {-2, 12}), Error);
}

TEST_CASE("view_strides splits and joins what one stride walks through", "[views]") {
  CHECK(views::view_strides({2, 3}, {3, 1}, {3, 2}) == Dims{2, 1});
  CHECK(views::view_strides({2, 3}, {6, 2}, {6}) == Dims{2});
  CHECK_FALSE(views::view_strides({2, 3}, {4, 1}, {6}).has_value());
  CHECK(views::view_strides({4, 6}, {8, 1}, {2, 2, 3, 2}) == Dims{16, 8, 2, 1});
  CHECK_FALSE(views::view_strides({4, 6}, {8, 1}, {3, 8}).has_value());
  CHECK(views::view_strides({1, 5}, {99, 1}, {5, 1})->operator[](0) == 1);
  CHECK(views::view_strides({3, 4}, {0, 0}, {12}) == Dims{0});
}

TEST_CASE("select and slice take positions and count from the end", "[views]") {
  const Tensor x = numbered({4, 3});
  CHECK(values(views::select(x, 0, 1)) == Values{3, 4, 5});
  CHECK(values(views::select(x, 1, -1)) == Values{2, 5, 8, 11});
  CHECK_THROWS_WITH(views::select(x, 0, 4), ContainsSubstring("index 5 is out of range for dim 1"));
  CHECK_THROWS_WITH(views::select(x, 0, -5), ContainsSubstring("index -5"));
  CHECK_THROWS_AS(views::select(numbered({}), 0, 0), Error);
  CHECK(values(views::slice(x, 0, 1, 3, 1)) == Values{3, 4, 5, 6, 7, 8});
  CHECK(values(views::slice(x, 1, 0, 3, 2)) == Values{0, 2, 3, 5, 6, 8, 9, 11});
  CHECK(values(views::slice(x, 0, -2, -1, 1)) == Values{6, 7, 8, 9, 10, 11});
  CHECK(views::slice(x, 0, 4, 4, 1).sizes() == Dims{0, 3});
  CHECK(views::slice(x, 0, 0, 4, INT64_MAX).sizes() == Dims{1, 3});
  CHECK_THROWS_WITH(views::slice(x, 0, 0, 5, 1), ContainsSubstring("positions 1 to 5 leave dim 1"));
  CHECK_THROWS_WITH(views::slice(x, 0, 3, 1, 1), ContainsSubstring("backwards"));
  CHECK_THROWS_WITH(views::slice(x, 0, 0, 2, 0), ContainsSubstring("step"));
  CHECK_THROWS_AS(views::slice(x, 0, INT64_MIN, INT64_MAX, 1), Error);
}

TEST_CASE("expand, permute, squeeze and unsqueeze", "[views]") {
  const Tensor x = numbered({2, 1});
  CHECK(values(views::expand(x, {-1, 3})) == Values{0, 0, 0, 1, 1, 1});
  CHECK(views::expand(x, {2, -1, 3}).sizes() == Dims{2, 2, 3});
  CHECK(views::expand(x, {2, 0}).numel() == 0);
  CHECK_THROWS_WITH(views::expand(x, {3, 3}), ContainsSubstring("does not expand"));
  CHECK_THROWS_AS(views::expand(x, {-1, 2, 1}), Error);
  CHECK_THROWS_AS(views::expand(x, {INT64_MAX, INT64_MAX, 2, 1}), Error);
  const Tensor y = numbered({2, 3, 4});
  CHECK(views::permute(y, {2, 0, 1}).sizes() == Dims{4, 2, 3});
  CHECK_THROWS_AS(views::permute(y, {0, 1}), Error);
  CHECK(views::squeeze(x, {0, 1}).sizes() == Dims{2});
  CHECK(views::squeeze(x, {}).sizes() == x.sizes());
  CHECK(views::squeeze(x, {0}).sizes() == Dims{2, 1});
  CHECK(views::squeeze(numbered({}), {}).sizes() == Dims{});
  CHECK(views::unsqueeze(y, 3).sizes() == Dims{2, 3, 4, 1});
  CHECK(views::unsqueeze(y, 0).sizes() == Dims{1, 2, 3, 4});
}

TEST_CASE("diagonal, unfold and as_strided", "[views]") {
  const Tensor x = numbered({3, 4});
  CHECK(values(views::diagonal(x, 0, 0, 1)) == Values{0, 5, 10});
  CHECK(values(views::diagonal(x, 2, 0, 1)) == Values{2, 7});
  CHECK(values(views::diagonal(x, -1, 0, 1)) == Values{4, 9});
  CHECK(views::diagonal(x, INT64_MIN, 0, 1).numel() == 0);
  CHECK(views::diagonal(x, INT64_MAX, 0, 1).numel() == 0);
  CHECK(values(views::diagonal(x, 1, 1, 0)) == Values{4, 9});
  CHECK_THROWS_AS(views::diagonal(x, 0, 1, 1), Error);
  CHECK(values(views::unfold(numbered({5}), 0, 3, 2)) == Values{0, 1, 2, 2, 3, 4});
  CHECK_THROWS_AS(views::unfold(x, 0, 4, 1), Error);
  CHECK_THROWS_AS(views::unfold(x, 0, 1, 0), Error);
  const auto strided = [](const Tensor& of, const Dims& size, const Dims& stride, int64_t offset) {
    return views::strided_view(of, size, stride, offset, of.strides(), of.offset());
  };
  CHECK(values(strided(x, {3, 2}, {1, 2}, 1)) == Values{1, 3, 2, 4, 3, 5});
  CHECK(values(strided(views::select(x, 0, 2), {2}, {4}, 0)) == Values{0, 4});
  CHECK(values(strided(views::t(x), {2}, {1}, 5)) == Values{5, 6});
  CHECK(strided(x, {2, 0}, {5, 1}, 3).numel() == 0);
  CHECK_THROWS_WITH(strided(x, {4}, {4}, 0), ContainsSubstring("reach outside a storage of 12"));
  CHECK_THROWS_AS(strided(x, {2}, {INT64_MAX}, 5), Error);
  CHECK_THROWS_AS(strided(x, {2}, {1}, -1), Error);
  CHECK_THROWS_AS(strided(x, {2}, {-1}, 5), Error);
  CHECK_THROWS_AS(strided(x, {2, 1}, {1}, 0), Error);
}

TEST_CASE("complex views pair up reals", "[views]") {
  const Tensor x = numbered({2, 3, 2});
  const Tensor z = views::view_as_complex(x);
  CHECK(z.sizes() == Dims{2, 3});
  CHECK(z.elements<complex128>()[4] == complex128(8, 9));
  CHECK(values(views::view_as_real(views::t(z))) == values(views::transpose(x, 0, 1)));
  CHECK_THROWS_AS(views::view_as_complex(numbered({3})), Error);
  CHECK_THROWS_WITH(views::view_as_complex(views::slice(numbered({2, 3}), 1, 0, 2, 1)),
                    ContainsSubstring("contiguous"));
  CHECK_THROWS_AS(views::view_as_real(x), Error);
}

TEST_CASE("cat joins and promotes", "[views]") {
  const Tensor a = numbered({2, 2}), b = views::t(numbered({1, 2}));
  Tensor y = raw::cat({a, b}, 1);
  CHECK(values(y) == Values{0, 1, 0, 2, 3, 1});
  y = raw::cat({a, a}, 0);
  CHECK(values(y) == Values{0, 1, 2, 3, 0, 1, 2, 3});
  Tensor ints = empty_plain({2, 1}, {DType::Int64, {}});
  ints.elements<int64_t>()[0] = 7;
  ints.elements<int64_t>()[1] = 8;
  y = raw::cat({a, ints}, 1);
  CHECK(y.dtype() == DType::Float64);
  CHECK(values(y) == Values{0, 1, 7, 2, 3, 8});
  CHECK_THROWS_WITH(shapes::cat({a, numbered({3, 1})}, 1), ContainsSubstring("tensor 2 has shape"));
  CHECK(values(raw::cat({a, numbered({0})}, 0)) == values(a));
  CHECK_THROWS_AS(shapes::cat({}, 0), Error);
  CHECK_THROWS_AS(shapes::cat({numbered({})}, 0), Error);
}

TEST_CASE("flip reverses any layout", "[views]") {
  const Tensor x = views::t(numbered({2, 3}));
  Tensor y = empty_plain(x.sizes(), options_of(x));
  cpu::flip(x, {0}, y);
  CHECK(values(y) == Values{2, 5, 1, 4, 0, 3});
  cpu::flip(x, {0, 1}, y);
  CHECK(values(y) == Values{5, 2, 4, 1, 3, 0});
  const Tensor z = numbered({2, 3});
  Tensor w = empty_plain(z.sizes(), options_of(z));
  cpu::flip(z, {1}, w);
  CHECK(values(w) == Values{2, 1, 0, 5, 4, 3});
  Tensor into = views::t(empty_plain({3, 2}, {DType::Float64, {}}));
  cpu::flip(z, {0}, into);
  CHECK(values(into) == Values{3, 4, 5, 0, 1, 2});
}

TEST_CASE("constant_pad adds and cuts", "[views]") {
  const Tensor x = numbered({2, 3});
  const std::vector<int64_t> pad = {-1, 1, 1, 0};
  Tensor y = raw::constant_pad(x, pad, Scalar(9.0));
  CHECK(y.sizes() == Dims{3, 3});
  CHECK(values(y) == Values{9, 9, 9, 1, 2, 9, 4, 5, 9});
  CHECK_THROWS_WITH(shapes::constant_pad(x, {-2, -2}, 0.0), ContainsSubstring("cuts more"));
  CHECK_THROWS_WITH(shapes::constant_pad(x, {-4, 5}, 0.0), ContainsSubstring("cuts more"));
  CHECK_THROWS_AS(shapes::constant_pad(x, {1}, 0.0), Error);
  CHECK_THROWS_AS(shapes::constant_pad(x, {1, 1, 1, 1, 1, 1}, 0.0), Error);
  CHECK_THROWS_AS(shapes::constant_pad(x, {INT64_MAX, 1}, 0.0), Error);
  CHECK_THROWS_AS(shapes::constant_pad(x, {INT64_MIN, INT64_MIN}, 0.0), Error);
}

TEST_CASE("gradients of views land where the view was", "[views]") {
  const Tensor dy = numbered({2});
  Tensor y = raw::select_grad_x(dy, {2, 2}, 1, -1);
  CHECK(values(y) == Values{0, 0, 0, 1});
  y = raw::slice_grad_x(dy, {5}, 0, 1, 4, 2);
  CHECK(values(y) == Values{0, 0, 0, 1, 0});
  y = raw::diagonal_grad_x(dy, {2, 3}, 1, 0, 1);
  CHECK(values(y) == Values{0, 0, 0, 0, 0, 1});
  CHECK_THROWS_WITH(shapes::slice_grad_x(dy, {5}, 0, 1, 4, 1), ContainsSubstring("(3,)"));
}

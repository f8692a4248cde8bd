// tests/cpp/reduce_test.cpp: reductions and scans against plain loops, over dtypes, dims and
// layouts; NaN, empty inputs, rounding, and independence of the number of threads.
#include "tests/cpp/catch2.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "autograd/ops_arithmetic.h"
#include "autograd/ops_clone.h"
#include "autograd/ops_compare.h"
#include "autograd/ops_convert.h"
#include "autograd/ops_copy.h"
#include "autograd/ops_create.h"
#include "autograd/ops_math.h"
#include "autograd/ops_random.h"
#include "autograd/ops_reduce.h"
#include "autograd/ops_scan.h"
#include "autograd/ops_shape.h"
#include "tensor/runtime/threads.h"

using namespace moonlet;

namespace {
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensor numbers(std::initializer_list<double> values, DType dtype = DType::Float64) {
  Tensor t = empty_plain({static_cast<int64_t>(values.size())}, {DType::Float64, {}});
  std::copy(values.begin(), values.end(), t.data<double>());
  return to(t, dtype);
}

// Small whole numbers, so that sums are exact in every dtype.
Tensor filled(const Dims& sizes, DType dtype) {
  Tensor t = empty_plain(sizes, {DType::Int64, {}});
  for (int64_t i = 0; i < t.numel(); ++i) t.data<int64_t>()[i] = i * 7 % 5;
  return to(t, dtype);
}

double at(const Tensor& t, int64_t i) {
  return contiguous(to(t, DType::Float64)).data<double>()[i];
}

// f(elements) for each result of reducing `dims` of x by plain loops, in row order.
template <class F>
std::vector<double> by_loops(const Tensor& x, const Dims& dims, F&& f) {
  const Tensor plain = contiguous(to(x, DType::Float64));
  Dims kept;
  for (int d = 0; d < x.dim(); ++d) {
    if (!dims.contains(d)) kept.push_back(d);
  }
  int64_t results = 1;
  for (int64_t d : kept) results *= x.size(static_cast<int>(d));
  std::vector<std::vector<double>> met(static_cast<size_t>(results));
  for (int64_t i = 0; i < x.numel(); ++i) {
    int64_t rest = i, result = 0, step = 1;
    Dims index = Dims::filled(x.dim(), 0);
    for (int d = x.dim() - 1; d >= 0; --d) {
      index[d] = rest % x.size(d);
      rest /= x.size(d);
    }
    for (int k = kept.size() - 1; k >= 0; --k) {
      result += index[static_cast<int>(kept[k])] * step;
      step *= x.size(static_cast<int>(kept[k]));
    }
    met[static_cast<size_t>(result)].push_back(plain.data<double>()[i]);
  }
  std::vector<double> out;
  for (const auto& values : met) out.push_back(f(values));
  return out;
}

double total(const std::vector<double>& v) {
  double sum = 0;
  for (double x : v) sum += x;
  return sum;
}
double maximum_of(const std::vector<double>& v) { return *std::max_element(v.begin(), v.end()); }

// Whether y holds the wanted numbers, rounded to its dtype.
bool equal(const Tensor& y, const std::vector<double>& wanted) {
  if (y.numel() != static_cast<int64_t>(wanted.size())) return false;
  Tensor rounded = empty_plain({y.numel()}, {DType::Float64, {}});
  std::copy(wanted.begin(), wanted.end(), rounded.data<double>());
  rounded = to(rounded, y.dtype());
  for (int64_t i = 0; i < y.numel(); ++i) {
    if (at(y, i) != at(rounded, i)) return false;
  }
  return true;
}

bool near(double a, double b) { return std::abs(a - b) <= 1e-12 * std::abs(b); }

// The message with which f throws.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}
bool begins(const std::string& s, const char* start) { return s.rfind(start, 0) == 0; }

const Dims kDimLists[] = {{0}, {1}, {2}, {3}, {0, 1}, {0, 2}, {1, 3}, {0, 2, 3}, {0, 1, 2, 3}};
}  // namespace

TEST_CASE("sums and extremes over any dims, layouts and dtypes equal plain loops") {
  for (DType dtype : {DType::UInt8, DType::Int16, DType::Int64, DType::Float16, DType::BFloat16,
                      DType::Float32, DType::Float64}) {
    const Tensor base = filled({3, 5, 4, 6}, dtype);
    for (const Tensor& x : {base, permute(base, {2, 0, 3, 1}), narrow(base, 1, 1, 3),
                            expand(narrow(base, 2, 0, 1), {3, 5, 4, 6})}) {
      for (const Dims& dims : kDimLists) {
        CAPTURE(name(dtype), text(dims), text(x.strides()));
        CHECK(equal(sum(x, dims), by_loops(x, dims, total)));
        CHECK(equal(amax(x, dims), by_loops(x, dims, maximum_of)));
        CHECK(equal(count_nonzero(x, dims), by_loops(x, dims, [](const auto& v) {
                      return total(v) == 0 ? 0.0
                                           : double(v.size() - std::count(v.begin(), v.end(), 0.0));
                    })));
      }
    }
  }
}

TEST_CASE("complex sums and bools") {
  Tensor z = empty_plain({3}, {DType::Complex64, {}});
  for (int i = 0; i < 3; ++i) z.data<complex64>()[i] = complex64(1, float(i));
  CHECK(*sum(z).data<complex64>() == complex64(3, 3));
  CHECK(*mean(z).data<complex64>() == complex64(1, 1));
  const Tensor b = gt(filled({2, 50}, DType::Float32), 2.0);
  CHECK(sum(b).dtype() == DType::Int64);
  CHECK(equal(sum(b), {40}));
  CHECK(*any(b).data<bool>());
  CHECK_FALSE(*all(b).data<bool>());
  CHECK(*sum(b, {}, false, DType::Bool).data<bool>());
  CHECK(equal(sum(numbers({0.5, 1.5}), {}, false, DType::Int32), {1}));
}

TEST_CASE("products, norms, variance and logsumexp") {
  const Tensor x = numbers({1, -2, 3, -4});
  CHECK(at(prod(x), 0) == 24);
  CHECK(near(at(norm(x), 0), std::sqrt(30.0)));
  CHECK(at(norm(x, 1), 0) == 10);
  CHECK(at(norm(x, 0), 0) == 4);
  CHECK(near(at(norm(x, 3), 0), std::cbrt(100.0)));
  CHECK(at(norm(x, kInfinity), 0) == 4);
  CHECK(at(norm(x, -kInfinity), 0) == 1);
  CHECK(at(x, 1) == -2);
  CHECK(near(at(var(x), 0), 29.0 / 3));
  CHECK(near(at(var(x, {}, 0), 0), 7.25));
  CHECK(near(at(logsumexp(numbers({1000, 1000}), {0}), 0), 1000 + std::log(2.0)));
  CHECK(at(logsumexp(numbers({-kInfinity, -kInfinity}), {0}), 0) == -kInfinity);
  CHECK(std::isnan(at(logsumexp(numbers({0, kNaN}), {0}), 0)));
  CHECK(std::isnan(at(var(numbers({1})), 0)));
}

TEST_CASE("NaN wins, the first of equals is found, in runs, columns and long runs") {
  for (int64_t n : {3, 100, 5000, 300000}) {
    Tensor x = filled({n}, DType::Float32);
    x.data<float>()[n - 1] = 4;
    CHECK(at(argmax(x), 0) == 3);
    x.data<float>()[n / 2] = std::numeric_limits<float>::quiet_NaN();
    x.data<float>()[n - 1] = std::numeric_limits<float>::quiet_NaN();
    CHECK(at(argmax(x), 0) == double(n / 2 + 1));
    CHECK(at(argmin(x), 0) == double(n / 2 + 1));
    CHECK(std::isnan(at(amax(x), 0)));
    CHECK(std::isnan(at(amin(x), 0)));
  }
  const Tensor m = reshape(numbers({1, 5, 5, kNaN, 2, kNaN}), {2, 3});
  const auto [values, indices] = max_dim(m, 0);
  CHECK(std::isnan(at(values, 0)));
  CHECK(at(values, 1) == 5);
  CHECK((at(indices, 0) == 2 && at(indices, 1) == 1 && at(indices, 2) == 2));
  CHECK(at(std::get<1>(max_dim(m, -1)), 0) == 2);
  CHECK(at(std::get<0>(min_dim(m, 1, true)), 0) == 1);
  CHECK(at(argmin(to(numbers({3, -7, -7}), DType::Int8)), 0) == 2);
}

TEST_CASE("infinite elements are extremes like others") {
  for (DType dtype : {DType::Float16, DType::Float32, DType::Float64}) {
    const Tensor low = numbers({-kInfinity, -kInfinity}, dtype);
    CHECK(at(amax(low), 0) == -kInfinity);
    CHECK(at(std::get<1>(max_dim(low, 0)), 0) == 1);
    CHECK(at(amin(neg(low)), 0) == kInfinity);
  }
}

TEST_CASE("reductions of nothing") {
  const Tensor x = empty_plain({0, 3}, {});
  CHECK(equal(sum(x), {0}));
  CHECK(equal(sum(x, {0}), {0, 0, 0}));
  CHECK(sum(x, {1}).numel() == 0);
  CHECK(equal(prod(x), {1}));
  CHECK(std::isnan(at(mean(x), 0)));
  CHECK(*all(x).data<bool>());
  CHECK_FALSE(*any(x).data<bool>());
  CHECK(equal(norm(x), {0}));
  CHECK(begins(error_of([&] { norm(x, kInfinity); }), "norm: nothing to reduce"));
  CHECK(equal(logsumexp(x, {0}), {-kInfinity, -kInfinity, -kInfinity}));
  CHECK(begins(error_of([&] { amax(x); }), "amax: nothing to reduce"));
  CHECK(begins(error_of([&] { argmax(x, 0); }), "argmax: nothing to reduce"));
  CHECK(std::get<0>(max_dim(x, 1)).numel() == 0);
}

TEST_CASE("long float sums stay near the exact value") {
  const int64_t n = 1 << 22;
  Tensor x = full({n}, 0.1, {});
  const double exact = double(0.1f) * double(n);
  CHECK(std::abs(at(sum(x), 0) - exact) < exact * 1e-6);
  CHECK(std::abs(at(sum(reshape(x, {n / 2, 2}), {0}), 0) - exact / 2) < exact * 1e-6);
  CHECK(std::abs(at(cumsum(x, 0), n - 1) - exact) < exact * 1e-6);
  CHECK(at(sum(to(full({4096}, 1.0, {}), DType::BFloat16)), 0) == 4096);
}

TEST_CASE("results do not depend on the number of threads") {
  const Tensor x = randn({1 << 20});
  const Tensor tall = reshape(x, {1 << 15, 32}), wide = reshape(x, {8, 1 << 17});
  const auto all_sums = [&] {
    return cat({reshape(sum(x), {1}), sum(tall, {0}), sum(tall, {1}), sum(wide, {0}),
                sum(wide, {1}), var(wide, {1}), reshape(norm(x, 3), {1})},
               0);
  };
  const int threads = num_threads();
  set_num_threads(1);
  const Tensor one = all_sums();
  for (int many : {2, 3, 7}) {
    set_num_threads(many);
    const Tensor more = all_sums();
    CHECK(std::memcmp(one.raw(), more.raw(), static_cast<size_t>(one.numel()) * 4) == 0);
  }
  set_num_threads(threads);
}

TEST_CASE("running sums and products") {
  const Tensor x = reshape(numbers({1, 2, 3, 4, 5, 6}), {2, 3});
  CHECK(equal(cumsum(x, 1), {1, 3, 6, 4, 9, 15}));
  CHECK(equal(cumsum(x, 0), {1, 2, 3, 5, 7, 9}));
  CHECK(equal(cumsum(transpose(x, 0, 1), -1), {1, 5, 2, 7, 3, 9}));
  CHECK(equal(cumprod(x, 1), {1, 2, 6, 4, 20, 120}));
  CHECK(cumsum(gt(x, 2.0), 0).dtype() == DType::Int64);
  CHECK(equal(cumsum(to(x, DType::Float16), 1), {1, 3, 6, 4, 9, 15}));
  CHECK(equal(cumsum(full({}, 3.0, {}), 0), {3}));
  CHECK(cumsum(empty_plain({0, 2}, {}), 0).numel() == 0);
}

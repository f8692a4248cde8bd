// tests/cpp/gemm_blocked_test.cpp: products without a library (-Dblas=bundled) against plain loops,
// over layouts, dtypes and sizes beside those of blocks.
#include "tests/cpp/catch2.h"

#include <cstring>
#include <limits>

#include "tensor/cpu/gemm/gemm_blocked.h"
#include "tensor/runtime/threads.h"

using namespace moonlet;

namespace {
template <class T>
T small_number(int64_t i) {
  const auto value = static_cast<float>(i * 7 % 11) - 5;
  if constexpr (is_complex_v<T>)
    return T(value, static_cast<float>(i % 3) - 1);
  else
    return static_cast<T>(value);
}

template <class T>
Tensor filled(const Dims& sizes) {
  Tensor t = empty_plain(sizes, {dtype_of<T>, {}});
  for (int64_t i = 0; i < t.numel(); ++i) t.data<T>()[i] = small_number<T>(i);
  return t;
}

template <class T>
T at(const cpu::Matrix& m, int64_t i, int64_t j) {
  return reinterpret_cast<T*>(m.data)[i * m.row_stride + j * m.col_stride];
}

// All values are small integers, so sums are exact.
template <class T>
bool is_product(T alpha, const cpu::Matrix& a, const cpu::Matrix& b, T beta, const Tensor& before,
                const cpu::Matrix& c) {
  for (int64_t i = 0; i < c.rows; ++i)
    for (int64_t j = 0; j < c.cols; ++j) {
      T sum = 0;
      for (int64_t p = 0; p < a.cols; ++p) sum += at<T>(a, i, p) * at<T>(b, p, j);
      if (at<T>(c, i, j) != alpha * sum + beta * before.data<T>()[i * c.cols + j]) return false;
    }
  return true;
}

template <class T>
void check_layouts(int64_t m, int64_t k, int64_t n) {
  const T alpha(2), beta(-1);
  const Tensor before = filled<T>({m, n});
  for (int layout = 0; layout < 8; ++layout) {
    const bool flip_a = layout & 1, flip_b = layout & 2, flip_c = layout & 4;
    const Tensor a = filled<T>(flip_a ? Dims{k, m} : Dims{m, k});
    const Tensor b = filled<T>(flip_b ? Dims{n, k} : Dims{k, n});
    const Tensor c = empty_plain(flip_c ? Dims{n, m} : Dims{m, n}, {dtype_of<T>, {}});
    const auto matrix = [](const Tensor& t, bool flip) {
      return flip ? cpu::transposed(cpu::matrix_of(t)) : cpu::matrix_of(t);
    };
    const auto ma = matrix(a, flip_a), mb = matrix(b, flip_b), mc = matrix(c, flip_c);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j)
        reinterpret_cast<T*>(mc.data)[i * mc.row_stride + j * mc.col_stride] =
            before.data<T>()[i * n + j];
    cpu::blocked_gemm(dtype_of<T>, Scalar(alpha), ma, mb, Scalar(beta), mc);
    CAPTURE(m, k, n, layout);
    CHECK(is_product<T>(alpha, ma, mb, beta, before, mc));
  }
}
}  // namespace

TEST_CASE("blocked products of every layout equal plain loops") {
  for (int64_t m : {1, 3, 8, 37})
    for (int64_t n : {1, 5, 32, 70}) {
      check_layouts<float>(m, 7, n);
      check_layouts<double>(m, 7, n);
      check_layouts<complex64>(m, 7, n);
      check_layouts<complex128>(m, 7, n);
    }
}

TEST_CASE("blocked products of several blocks equal plain loops") {
  check_layouts<float>(20, 530, 50);   // of terms
  check_layouts<float>(300, 20, 33);   // of rows
  check_layouts<double>(9, 20, 1100);  // of columns
  check_layouts<float>(1, 300, 1100);  // one row, and one column
  check_layouts<double>(600, 300, 1);
  check_layouts<float>(5000, 1, 1);
}

TEST_CASE("blocked products of operands with gaps equal plain loops") {
  const Tensor base = filled<float>({16, 24});
  const Tensor a = alias(base, {4, 6}, {48, 2}, 0), b = alias(base, {6, 3}, {0, 5}, 2),
               x = alias(base, {6, 1}, {7, 1}, 1);
  const Tensor c = empty_plain({4, 3}, {}), y = empty_plain({4, 1}, {}),
               none = filled<float>({4, 3});
  cpu::blocked_gemm(DType::Float32, 1, cpu::matrix_of(a), cpu::matrix_of(b), 0, cpu::matrix_of(c));
  CHECK(is_product<float>(1, cpu::matrix_of(a), cpu::matrix_of(b), 0, none, cpu::matrix_of(c)));
  cpu::blocked_gemm(DType::Float32, 1, cpu::matrix_of(a), cpu::matrix_of(x), 0, cpu::matrix_of(y));
  CHECK(is_product<float>(1, cpu::matrix_of(a), cpu::matrix_of(x), 0, none, cpu::matrix_of(y)));
}

TEST_CASE("blocked products with beta 0 do not read the result") {
  for (int64_t n : {1, 9}) {
    const Tensor a = filled<double>({9, 9}), b = filled<double>({9, n}),
                 c = empty_plain({9, n}, {DType::Float64, {}}), none = filled<double>({9, n});
    for (int64_t i = 0; i < c.numel(); ++i)
      c.data<double>()[i] = std::numeric_limits<double>::quiet_NaN();
    cpu::blocked_gemm(DType::Float64, 3, cpu::matrix_of(a), cpu::matrix_of(b), 0,
                      cpu::matrix_of(c));
    CHECK(is_product<double>(3, cpu::matrix_of(a), cpu::matrix_of(b), 0, none, cpu::matrix_of(c)));
  }
}

TEST_CASE("blocked products have the same bits on any number of threads") {
  const int before = num_threads();
  for (const Dims& sizes : {Dims{300, 300}, Dims{3000, 1}, Dims{24, 900}}) {
    Tensor results[2];
    const int64_t k = 300;
    Tensor a = empty_plain({sizes[0], k}, {}), b = empty_plain({k, sizes[1]}, {});
    for (const Tensor& t : {a, b})
      for (int64_t i = 0; i < t.numel(); ++i)
        t.data<float>()[i] = 1.0f / static_cast<float>(1 + i * 37 % 1009);
    for (const bool flipped : {false, true}) {
      const Tensor other = empty_plain({k, sizes[0]}, {});
      const cpu::Matrix left = flipped ? cpu::transposed(cpu::matrix_of(other)) : cpu::matrix_of(a);
      for (int64_t i = 0; flipped && i < other.numel(); ++i)
        other.data<float>()[i] = 1.0f / static_cast<float>(1 + i * 41 % 1009);
      for (const int threads : {1, 2}) {
        set_num_threads(threads);
        results[threads - 1] = empty_plain(sizes, {});
        cpu::blocked_gemm(DType::Float32, 1, left, cpu::matrix_of(b), 0,
                          cpu::matrix_of(results[threads - 1]));
      }
      CHECK(std::memcmp(results[0].raw(), results[1].raw(),
                        static_cast<size_t>(results[0].numel()) * sizeof(float)) == 0);
    }
  }
  set_num_threads(before);
}

// tests/cpp/gemm_test.cpp: matrix products against plain loops, over layouts and dtypes.
#include "tests/cpp/catch2.h"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

#include "tensor/cpu/gemm/gemm.h"

using namespace moonlet;

namespace {
template <class T>
Tensor filled(const Dims& sizes) {
  Tensor t = empty_plain(sizes, {dtype_of<T>, {}});
  for (int64_t i = 0; i < t.numel(); ++i) t.data<T>()[i] = static_cast<T>(float(i * 7 % 11) - 5);
  return t;
}

// Whether c = 2 a b holds element by element; all values are small integers, so sums are exact.
template <class T>
bool is_product(const cpu::Matrix& a, const cpu::Matrix& b, const cpu::Matrix& c) {
  const auto at = [](const cpu::Matrix& m, int64_t i, int64_t j) {
    return static_cast<double>(reinterpret_cast<T*>(m.data)[i * m.row_stride + j * m.col_stride]);
  };
  for (int64_t i = 0; i < c.rows; ++i)
    for (int64_t j = 0; j < c.cols; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < a.cols; ++p) sum += at(a, i, p) * at(b, p, j);
      if (at(c, i, j) != 2 * sum) return false;
    }
  return true;
}

template <class T>
void check_layouts(int64_t n, int64_t k, int64_t m) {
  for (int layout = 0; layout < 8; ++layout) {
    const bool flip_a = layout & 1, flip_b = layout & 2, flip_c = layout & 4;
    Tensor a = filled<T>(flip_a ? Dims{k, n} : Dims{n, k});
    Tensor b = filled<T>(flip_b ? Dims{m, k} : Dims{k, m});
    Tensor c = empty_plain(flip_c ? Dims{m, n} : Dims{n, m}, {dtype_of<T>, {}});
    const auto matrix = [](const Tensor& t, bool flip) {
      return flip ? cpu::transposed(cpu::matrix_of(t)) : cpu::matrix_of(t);
    };
    const auto ma = matrix(a, flip_a), mb = matrix(b, flip_b), mc = matrix(c, flip_c);
    cpu::gemm(dtype_of<T>, 2, ma, mb, 0, mc);
    CAPTURE(n, k, m, layout);
    CHECK(is_product<T>(ma, mb, mc));
  }
}
}  // namespace

TEST_CASE("products of every layout equal plain loops") {
  for (int64_t n : {1, 3, 17})
    for (int64_t m : {1, 5, 33}) {
      check_layouts<float>(n, 7, m);
      check_layouts<double>(n, 7, m);
      check_layouts<int64_t>(n, 7, m);
      check_layouts<bfloat16>(n, 1, m);
    }
}

TEST_CASE("strides that BLAS cannot read are packed") {
  Tensor base = filled<float>({8, 12});
  Tensor a = alias(base, {4, 6}, {24, 2}, 0), b = alias(base, {6, 3}, {0, 1}, 2);
  Tensor c = empty_plain({4, 3}, {});
  cpu::gemm(DType::Float32, 2, cpu::matrix_of(a), cpu::matrix_of(b), 0, cpu::matrix_of(c));
  CHECK(is_product<float>(cpu::matrix_of(a), cpu::matrix_of(b), cpu::matrix_of(c)));
}

TEST_CASE("beta 0 does not read the result, and an empty inner size gives zeros") {
  for (int64_t m : {1, 4}) {
    Tensor a = filled<float>({4, 4}), b = filled<float>({4, m}), c = empty_plain({4, m}, {});
    for (int64_t i = 0; i < c.numel(); ++i)
      c.data<float>()[i] = std::numeric_limits<float>::quiet_NaN();
    cpu::gemm(DType::Float32, 2, cpu::matrix_of(a), cpu::matrix_of(b), 0, cpu::matrix_of(c));
    CHECK(is_product<float>(cpu::matrix_of(a), cpu::matrix_of(b), cpu::matrix_of(c)));
    Tensor none_a = empty_plain({4, 0}, {}), none_b = empty_plain({0, m}, {});
    cpu::gemm(DType::Float32, 1, cpu::matrix_of(none_a), cpu::matrix_of(none_b), 0,
              cpu::matrix_of(c));
    for (int64_t i = 0; i < c.numel(); ++i) CHECK(c.data<float>()[i] == 0);
  }
}

TEST_CASE("products by panels of every layout equal plain loops") {
  check_layouts<float>(20, 270, 50);  // two blocks of terms
  check_layouts<float>(300, 20, 33);  // and of rows
  check_layouts<double>(130, 100, 110);
  check_layouts<double>(16, 260, 259);
}

#if defined(__x86_64__)
extern "C" [[gnu::weak]] char* gotoblas_corename();

// Elsewhere there is one set of kernels, or the user said which.
TEST_CASE("OpenBLAS has kernels for the processor's vectors") {
  const bool chooses = gotoblas_corename && !std::getenv("OPENBLAS_CORETYPE");
  if (chooses && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    CHECK(std::string(gotoblas_corename()) != "Prescott");
}
#endif

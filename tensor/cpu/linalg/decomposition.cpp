// tensor/cpu/linalg/decomposition.cpp: LU, LDL and Cholesky factorizations and what is solved with
// them.
#include "tensor/cpu/common/columns.h"
#include "tensor/kernels_decomposition.h"

namespace moonlet::cpu {

namespace {

// P L U of one of the matrices in `lu`, in place.
template <class T>
int lu_of(const Columns& lu, T* a, int* pivots) {
  if constexpr (!is_complex_v<T>)
    if (lu.by_rows()) return small::getrf(lu.rows(), lu.cols(), a, pivots);
  return lapack::getrf(lu.rows(), lu.cols(), a, pivots);
}

// Factorizes each matrix in place.
void factorize(const char* op, const Tensor& A, const Columns& matrices, const Tensor& pivots,
               const Tensor& info) {
  const int64_t k = std::min(A.size(-1), A.size(-2));
  std::fill_n(info.elements<int>(), batch_count(A), 0);
  if (k == 0) return;
  visit_lapack(A, [&]<class T>() {
    each_entry(op, batch_count(A), cube(A), [lu = matrices, pivots, info, k](int64_t i) mutable {
      info.elements<int>()[i] = lu_of(lu, lu.template at<T>(i), pivots.elements<int>() + i * k);
    });
  });
}

template <class T>
void fill_nan(T* x, int64_t count) {
  std::fill_n(x, count, T(std::numeric_limits<lapack::real_t<T>>::quiet_NaN()));
}

// The sign that the swaps give a determinant.
double parity(const int* pivots, int64_t n) {
  double sign = 1;
  for (int64_t i = 0; i < n; ++i)
    if (pivots[i] != i + 1) sign = -sign;
  return sign;
}

template <class T>
T determinant(int64_t n, const T* lu, const int* pivots) {
  T out(static_cast<lapack::real_t<T>>(parity(pivots, n)));
  for (int64_t i = 0; i < n; ++i) out *= lu[i * n + i];
  return out;
}

}  // namespace

void linalg_lu_factor_ex(const Tensor& A, bool, bool check_errors, Tensor& LU, Tensor& pivots,
                         Tensor& info) {
  Columns lu = Columns::of(A, order_for(A));
  Output swaps(pivots, DType::Int32, cube(A)), status(info, DType::Int32, cube(A));
  factorize("linalg.lu_factor", A, lu, swaps.held(), status.held());
  if (check_errors) check_info("linalg.lu_factor", A, status.at<int>(0), singular);
  lu.store(LU);
  swaps.store();
  status.store();
}

void pivot_matrix(const Tensor& pivots, int64_t n, DType, Tensor& y) {
  const Tensor swaps = contiguous(pivots);
  const int64_t count = batch_count(y), each = pivots.size(-1);
  Output matrices(y, y.dtype(), 0);
  zero_bytes(matrices.at<char>(0), y.numel() * static_cast<int64_t>(size_of(y.dtype())));
  visit<dtypes::floating | dtypes::complex>(y.dtype(), [&]<class T>() {
    std::vector<int64_t> rows(static_cast<size_t>(n));
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t r = 0; r < n; ++r) rows[r] = r;
      for (int64_t r = 0; r < each; ++r) {
        const int64_t other = swaps.elements<int>()[i * each + r];
        check(other >= 1 && other <= n, "lu_unpack: pivot ", other, ", a row from 1 to ", n,
              " is expected");
        std::swap(rows[r], rows[other - 1]);
      }
      T* matrix = matrices.at<T>(i, n * n);
      for (int64_t r = 0; r < n; ++r) matrix[rows[r] * n + r] = static_cast<T>(1.0f);
    }
  });
  matrices.store();
}

void det(const Tensor& A, Tensor& y) {
  const int64_t n = A.size(-1), count = batch_count(A);
  Columns lu = Columns::of(A, order_for(A));
  lapack::Scratch<int> pivots(count * n), info(count);
  factorize("det", A, lu, pivots.held(), info.held());
  Output values(y, lapack_dtype(A), 0);
  visit_lapack(A, [&]<class T>() {
    for (int64_t i = 0; i < count; ++i)
      *values.at<T>(i) = determinant(n, lu.at<T>(i), pivots.data() + i * n);
  });
  values.store();
}

void slogdet(const Tensor& A, Tensor& sign, Tensor& logabsdet) {
  const int64_t n = A.size(-1), count = batch_count(A);
  Columns lu = Columns::of(A, order_for(A));
  lapack::Scratch<int> pivots(count * n), info(count);
  factorize("slogdet", A, lu, pivots.held(), info.held());
  Output signs(sign, lapack_dtype(A), 0), logs(logabsdet, real_of(lapack_dtype(A)), 0);
  visit_lapack(A, [&]<class T>() {
    using R = lapack::real_t<T>;
    for (int64_t i = 0; i < count; ++i) {
      T phase(static_cast<R>(parity(pivots.data() + i * n, n)));
      R log(0);
      for (int64_t j = 0; j < n; ++j) {
        const T u = lu.at<T>(i)[j * n + j];
        const R size = std::abs(u);
        log += std::log(size);
        phase *= size == R(0) ? T(0) : u / size;
      }
      *signs.at<T>(i) = phase;
      *logs.at<R>(i) = log;
    }
  });
  signs.store();
  logs.store();
}

namespace {

// The inverse from the factorization of one of the matrices in `held`, in place of it; NaN where it
// is singular.
template <class T>
void invert(const Columns& held, T* lu, const int* pivots, int info) {
  if (info > 0) return fill_nan(lu, held.each());
  if constexpr (!is_complex_v<T>)
    if (held.by_rows()) return small::getri(held.rows(), lu, pivots);
  lapack::getri(held.rows(), lu, pivots);
}

// The conjugated cofactors of a matrix that is nearly singular, in place of it:
// conj(det U det Vh) U diag(products of the other singular values) Vh.
template <class T>
void cofactors_by_singular_values(int n, T* a) {
  using R = lapack::real_t<T>;
  const int64_t size = int64_t{n} * n;
  lapack::Scratch<T> u(size), vh(size), lu(size);
  lapack::Scratch<R> s(n);
  lapack::Scratch<int> pivots(n);
  check_finite("det", a, size);
  check(lapack::gesdd('A', n, n, a, s.data(), u.data(), vh.data(), n) == 0,
        "det: the singular values did not converge");
  T factor(1);
  for (T* unitary : {u.data(), vh.data()}) {
    std::copy_n(unitary, size, lu.data());
    lapack::getrf(n, n, lu.data(), pivots.data());
    factor *= conjugate(determinant(n, lu.data(), pivots.data()));
  }
  for (int64_t k = 0; k < n; ++k) {
    T others = factor;
    for (int64_t j = 0; j < n; ++j)
      if (j != k) others *= s[j];
    for (int64_t i = 0; i < n; ++i) u[k * n + i] *= others;
  }
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; i < n; ++i) {
      T sum(0);
      for (int64_t k = 0; k < n; ++k) sum += u[k * n + i] * vh[j * n + k];
      a[j * n + i] = sum;
    }
  }
}

// Whether the inverse from these factors has digits left.
template <class T>
bool far_from_singular(int64_t n, const T* lu) {
  using R = lapack::real_t<T>;
  R smallest = std::numeric_limits<R>::infinity(), largest(0);
  for (int64_t i = 0; i < n; ++i) {
    smallest = std::min(smallest, R(std::abs(lu[i * n + i])));
    largest = std::max(largest, R(std::abs(lu[i * n + i])));
  }
  return smallest > largest * std::numeric_limits<R>::epsilon() * R(16 * n);
}

}  // namespace

void det_grad_A(const Tensor& grad, const Tensor& A, Tensor& y) {
  const int n = static_cast<int>(A.size(-1));
  const int64_t count = batch_count(A), each = int64_t{n} * n;
  if (y.numel() == 0) return;
  const Tensor factors = converted(grad, lapack_dtype(A));
  // Both orders do: the gradient of a transposed matrix is the transpose.
  const Columns::Order order = order_for(A);
  Columns work = Columns::of(A, order), result(A, order);
  lapack::Scratch<int> pivots(count * n), info(count);
  factorize("det", A, work, pivots.held(), info.held());
  Columns original = Columns::of(A, order);
  visit_lapack(A, [&]<class T>() {
    each_entry("det", count, 2 * cube(A), [=](int64_t i) mutable {
      T *lu = work.at<T>(i), *a = original.at<T>(i), *to = result.at<T>(i);
      T factor = factors.elements<T>()[i];
      if (far_from_singular(n, lu)) {
        factor *= conjugate(determinant(n, lu, pivots.data() + i * n));
        invert(work, lu, pivots.data() + i * n, info.data()[i]);
        for (int64_t r = 0; r < n; ++r)
          for (int64_t c = 0; c < n; ++c) to[c * n + r] = factor * conjugate(lu[r * n + c]);
      } else {
        cofactors_by_singular_values(n, a);
        for (int64_t j = 0; j < each; ++j) to[j] = factor * a[j];
      }
    });
  });
  result.store(y);
}

void linalg_inv_ex(const Tensor& A, bool check_errors, Tensor& inverse, Tensor& info) {
  const int64_t n = A.size(-1), count = batch_count(A);
  Columns work = Columns::of(A, order_for(A));
  lapack::Scratch<int> pivots(count * n);
  Output status(info, DType::Int32, 2 * cube(A));
  factorize("inverse", A, work, pivots.held(), status.held());
  if (check_errors) check_info("inverse", A, status.at<int>(0), singular);
  if (inverse.numel() > 0) {
    visit_lapack(A, [&]<class T>() {
      each_entry("inverse", count, 2 * cube(A), [=](int64_t i) mutable {
        invert(work, work.at<T>(i), pivots.data() + i * n, *status.at<int>(i));
      });
    });
    work.store(inverse);
  }
  status.store();
}

void native_solve(const Tensor& A, const Tensor& B, bool check_errors, Tensor& X, Tensor& info) {
  const int64_t n = A.size(-1), count = batch_count(A);
  Columns lu = Columns::of(A, order_for(A)), x = Columns::of(B, order_for(A));
  lapack::Scratch<int> pivots(count * n);
  Output status(info, DType::Int32, cube(A) + double(n) * double(x.each()));
  factorize("linalg.solve", A, lu, pivots.held(), status.held());
  if (check_errors) check_info("linalg.solve", A, status.at<int>(0), singular);
  if (X.numel() > 0) {
    visit_lapack(A, [&]<class T>() {
      each_entry("linalg.solve", count, cube(A) + double(n) * double(x.each()),
                 [=](int64_t i) mutable {
                   if (*status.at<int>(i) > 0) return fill_nan(x.at<T>(i), x.each());
                   const int* swaps = pivots.data() + i * n;
                   if constexpr (!is_complex_v<T>)
                     if (lu.by_rows())
                       return small::getrs(lu.rows(), x.cols(), lu.at<T>(i), swaps, x.at<T>(i));
                   lapack::getrs(lu.rows(), x.cols(), lu.at<T>(i), swaps, x.at<T>(i));
                 });
    });
    x.store(X);
  }
  status.store();
}

void native_solve_triangular(const Tensor& A, const Tensor& B, bool upper, bool unitriangular,
                             Tensor& y) {
  if (y.numel() == 0) return;
  Columns a = Columns::of(A, order_for(A)), x = Columns::of(B, order_for(A));
  const double work = double(A.size(-1)) * double(x.each());
  visit_lapack(A, [&]<class T>() {
    each_entry("linalg.solve_triangular", batch_count(A), work, [=](int64_t i) mutable {
      if constexpr (!is_complex_v<T>)
        if (a.by_rows())
          return small::trsm(upper, unitriangular, a.rows(), x.cols(), a.at<T>(i), x.at<T>(i));
      lapack::trsm(upper, unitriangular, a.rows(), x.cols(), a.at<T>(i), x.at<T>(i));
    });
  });
  x.store(y);
}

namespace {

// The Cholesky factor of one of the matrices in `work`, in place of it.
template <class T>
int cholesky_of(const Columns& work, bool upper, T* a) {
  const int n = work.rows();
  const bool by_rows = work.by_rows();
  int info = 0;
  if constexpr (!is_complex_v<T>)
    if (by_rows) info = small::potrf(upper, n, a);
  if (!by_rows) info = lapack::potrf(upper, n, a);
  // What lies on the side of the other triangle.
  const bool before = upper == by_rows;
  for (int64_t c = 0; c < n; ++c) {
    if (before)
      std::fill(a + c * n, a + c * n + c, T(0));
    else
      std::fill(a + c * n + c + 1, a + (c + 1) * n, T(0));
  }
  return info;
}

}  // namespace

void linalg_cholesky_ex(const Tensor& A, bool upper, bool check_errors, Tensor& L, Tensor& info) {
  Columns work = Columns::of(A, order_for(A));
  Output status(info, DType::Int32, cube(A));
  std::fill_n(status.at<int>(0), batch_count(A), 0);
  if (A.size(-1) > 0) {
    visit_lapack(A, [&]<class T>() {
      each_entry("cholesky", batch_count(A), cube(A), [=](int64_t i) mutable {
        *status.at<int>(i) = cholesky_of(work, upper, work.at<T>(i));
      });
    });
  }
  if (check_errors) check_info("cholesky", A, status.at<int>(0), not_positive);
  work.store(L);
  status.store();
}

void linalg_ldl_factor_ex(const Tensor& A, bool hermitian, bool check_errors, Tensor& LD,
                          Tensor& pivots, Tensor& info) {
  Columns work = Columns::of(A);
  Output swaps(pivots, DType::Int32, cube(A)), status(info, DType::Int32, cube(A));
  std::fill_n(status.at<int>(0), batch_count(A), 0);
  const int64_t n = A.size(-1);
  if (n > 0) {
    visit_lapack(A, [&]<class T>() {
      each_entry("linalg.ldl_factor", batch_count(A), cube(A), [=](int64_t i) mutable {
        T* a = work.at<T>(i);
        *status.at<int>(i) = lapack::sytrf(hermitian, work.rows(), a, swaps.at<int>(i, n));
        for (int64_t c = 0; c < n; ++c) std::fill(a + c * n, a + c * n + c, T(0));
      });
    });
  }
  if (check_errors) {
    check_info("linalg.ldl_factor", A, status.at<int>(0), [](int at, const std::string& where) {
      return text("the matrix is singular", where, ": D(", at, ", ", at, ") is zero");
    });
  }
  work.store(LD);
  swaps.store();
  status.store();
}

namespace {

// LAPACK follows pivots without looking: rows from 1 to n, and negative ones in pairs, for blocks
// of two rows.
void check_ldl_pivots(const int* pivots, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t row = pivots[i] < 0 ? -int64_t{pivots[i]} : pivots[i];
    check(row >= 1 && row <= n, "linalg.ldl_solve: pivot ", pivots[i], ", a row from 1 to ", n,
          " is expected");
    if (pivots[i] > 0) continue;
    check(i + 1 < n && pivots[i + 1] < 0 && -int64_t{pivots[i + 1]} <= n,
          "linalg.ldl_solve: negative pivots come in pairs");
    ++i;
  }
}

}  // namespace

void linalg_ldl_solve(const Tensor& LD, const Tensor& pivots, const Tensor& B, bool hermitian,
                      Tensor& y) {
  if (y.numel() == 0) return;
  const int64_t n = LD.size(-1);
  Columns a = Columns::of(LD), x = Columns::of(B);
  const Tensor swaps = contiguous(pivots);
  for (int64_t i = 0; i < batch_count(LD); ++i) check_ldl_pivots(swaps.elements<int>() + i * n, n);
  visit_lapack(LD, [&]<class T>() {
    each_entry("linalg.ldl_solve", batch_count(LD), double(n) * double(x.each()),
               [=](int64_t i) mutable {
                 lapack::sytrs(hermitian, a.rows(), x.cols(), a.at<T>(i),
                               swaps.elements<int>() + i * n, x.at<T>(i));
               });
  });
  x.store(y);
}

}  // namespace moonlet::cpu

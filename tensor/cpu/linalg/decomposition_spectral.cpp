// tensor/cpu/linalg/decomposition_spectral.cpp: QR, singular values, eigenvalues, and what is
// computed from them: the pseudoinverse, least squares; the exponential of matrices.
#include "tensor/cpu/common/columns.h"
#include "tensor/cpu/gemm/gemm.h"
#include "tensor/kernels_decomposition.h"

namespace moonlet::cpu {

namespace {

double rows_of(const Tensor& A) { return double(A.size(-2)); }

void check_converged(const char* op, const Tensor& A, int* info) {
  check_info(op, A, info, not_converged);
}

void check_all_finite(const char* op, const Tensor& A, Columns& a) {
  visit_lapack(A, [&]<class T>() {
    for (int64_t i = 0; i < batch_count(A); ++i) check_finite(op, a.at<T>(i), a.each());
  });
}

// The upper triangle of the first rows of a, whose columns have `rows` elements, as r.
template <class T>
void copy_upper(const T* a, int64_t rows, int64_t cols, int64_t kept, T* r) {
  for (int64_t c = 0; c < cols; ++c)
    for (int64_t i = 0; i < kept; ++i)
      r[c * kept + i] = i <= c && i < rows ? a[c * rows + i] : T(0);
}

// The identity, for a matrix without columns.
template <class T>
void set_identity(T* q, int64_t rows, int64_t cols) {
  for (int64_t i = 0; i < rows * cols; ++i) q[i] = i % (rows + 1) == 0 ? T(1) : T(0);
}

}  // namespace

void linalg_qr(const Tensor& A, std::string_view mode, Tensor& Q, Tensor& R) {
  const int m = static_cast<int>(A.size(-2)), n = static_cast<int>(A.size(-1)), k = std::min(m, n);
  const bool wants_q = mode != "r";
  Columns a = Columns::of(A), r(R), q = wants_q ? Columns(Q) : Columns(A, 0);
  visit_lapack(A, [&]<class T>() {
    each_entry("linalg.qr", batch_count(A), 2 * cube(A) + rows_of(A) * q.each(),
               [=](int64_t i) mutable {
                 if (k == 0) {
                   if (wants_q) set_identity(q.at<T>(i), m, q.cols());
                   return;
                 }
                 lapack::Scratch<T> tau(k);
                 T *from = a.at<T>(i), *to = q.at<T>(i);
                 lapack::geqrf(m, n, from, tau.data());
                 copy_upper(from, m, n, r.rows(), r.at<T>(i));
                 if (!wants_q) return;
                 std::copy_n(from, int64_t{m} * std::min(n, q.cols()), to);
                 lapack::orgqr(m, q.cols(), k, to, tau.data());
               });
  });
  r.store(R);
  if (wants_q) q.store(Q);
}

void geqrf(const Tensor& A, Tensor& a, Tensor& tau) {
  Columns work = Columns::of(A);
  Output factors(tau, lapack_dtype(A), 2 * cube(A));
  const int64_t k = std::min(A.size(-1), A.size(-2));
  if (k > 0) {
    visit_lapack(A, [&]<class T>() {
      each_entry("geqrf", batch_count(A), 2 * cube(A), [=](int64_t i) mutable {
        lapack::geqrf(work.rows(), work.cols(), work.at<T>(i), factors.at<T>(i, k));
      });
    });
  }
  work.store(a);
  factors.store();
}

void native_svd(const Tensor& A, bool full_matrices, bool vectors, Tensor& U, Tensor& S,
                Tensor& Vh) {
  const int m = static_cast<int>(A.size(-2)), n = static_cast<int>(A.size(-1)), k = std::min(m, n);
  Columns a = Columns::of(A);
  check_all_finite("linalg.svd", A, a);
  Columns u = vectors ? Columns(U) : Columns(A, 0), vh = vectors ? Columns(Vh) : Columns(A, 0);
  Output values(S, real_of(lapack_dtype(A)), 16 * cube(A));
  lapack::Scratch<int> info(batch_count(A));
  std::fill_n(info.data(), batch_count(A), 0);
  const char job = !vectors ? 'N' : full_matrices ? 'A' : 'S';
  visit_lapack(A, [&]<class T>() {
    using R = lapack::real_t<T>;
    each_entry("linalg.svd", batch_count(A), 16 * cube(A), [=](int64_t i) mutable {
      if (k > 0) {
        info[i] = lapack::gesdd(job, m, n, a.at<T>(i), values.at<R>(i, k), u.at<T>(i), vh.at<T>(i),
                                vectors ? vh.rows() : 1);
      } else if (vectors) {
        set_identity(u.at<T>(i), u.rows(), u.cols());
        set_identity(vh.at<T>(i), vh.rows(), vh.cols());
      }
    });
  });
  check_converged("linalg.svd", A, info.data());
  values.store();
  if (!vectors) return;
  u.store(U);
  vh.store(Vh);
}

void native_eigh(const Tensor& A, std::string_view UPLO, bool vectors, Tensor& eigenvalues,
                 Tensor& eigenvectors) {
  const bool upper = UPLO == "U" || UPLO == "u";
  const int64_t n = A.size(-1);
  Columns a = Columns::of(A);
  check_all_finite("linalg.eigh", A, a);
  Output values(eigenvalues, real_of(lapack_dtype(A)), 8 * cube(A));
  lapack::Scratch<int> info(batch_count(A));
  std::fill_n(info.data(), batch_count(A), 0);
  if (n > 0) {
    visit_lapack(A, [&]<class T>() {
      using R = lapack::real_t<T>;
      each_entry("linalg.eigh", batch_count(A), 8 * cube(A), [=](int64_t i) mutable {
        info[i] = lapack::syevd(vectors, upper, a.rows(), a.at<T>(i), values.at<R>(i, n));
      });
    });
  }
  check_converged("linalg.eigh", A, info.data());
  values.store();
  if (vectors) a.store(eigenvectors);
}

void native_eig(const Tensor& A, bool vectors, Tensor& eigenvalues, Tensor& eigenvectors) {
  const int64_t n = A.size(-1);
  Columns a = Columns::of(A), right = vectors ? Columns(eigenvectors) : Columns(A, 0);
  check_all_finite("linalg.eig", A, a);
  Output values(eigenvalues, complex_of(lapack_dtype(A)), 16 * cube(A));
  lapack::Scratch<int> info(batch_count(A));
  std::fill_n(info.data(), batch_count(A), 0);
  if (n > 0) {
    visit_lapack(A, [&]<class T>() {
      using C = lapack::complex_t<T>;
      each_entry("linalg.eig", batch_count(A), 16 * cube(A), [=](int64_t i) mutable {
        info[i] = lapack::geev(a.rows(), a.at<T>(i), values.at<C>(i, n),
                               vectors ? right.at<C>(i) : nullptr);
      });
    });
  }
  check_converged("linalg.eig", A, info.data());
  values.store();
  if (vectors) right.store(eigenvectors);
}

namespace {

template <class T>
Matrix columns_matrix(T* data, int64_t rows, int64_t cols) {
  return {reinterpret_cast<char*>(data), rows, cols, 1, std::max<int64_t>(1, rows)};
}

// The pseudoinverse (n, m) of a (m, n): conj(Vh)^T times conj(U)^T whose rows are divided by the
// singular values above the tolerance, the others 0.
template <class T>
int pseudoinverse(int m, int n, T* a, double atol, double rtol, T* to) {
  using R = lapack::real_t<T>;
  const int64_t k = std::min(m, n);
  lapack::Scratch<T> u(m * k), vh(k * n);
  lapack::Scratch<R> s(k);
  const int info = lapack::gesdd('S', m, n, a, s.data(), u.data(), vh.data(), static_cast<int>(k));
  if (info != 0) return info;
  const double least = std::max(atol, rtol * double(s[0]));
  for (int64_t c = 0; c < k; ++c) {
    const R factor = double(s[c]) > least ? R(1) / s[c] : R(0);
    for (int64_t i = 0; i < m; ++i) u[c * m + i] = conjugate(u[c * m + i]) * factor;
  }
  for (int64_t i = 0; i < k * n; ++i) vh[i] = conjugate(vh[i]);
  gemm(dtype_of<T>, 1, transposed(columns_matrix(vh.data(), k, n)),
       transposed(columns_matrix(u.data(), m, k)), 0, columns_matrix(to, n, m));
  return 0;
}

}  // namespace

void native_pinv(const Tensor& A, double atol, double rtol, Tensor& y) {
  if (y.numel() == 0) return;
  Columns a = Columns::of(A), result(y);
  check_all_finite("linalg.pinv", A, a);
  lapack::Scratch<int> info(batch_count(A));
  visit_lapack(A, [&]<class T>() {
    each_entry("linalg.pinv", batch_count(A), 16 * cube(A), [=](int64_t i) mutable {
      info[i] = pseudoinverse(a.rows(), a.cols(), a.at<T>(i), atol, rtol, result.at<T>(i));
    });
  });
  check_converged("linalg.pinv", A, info.data());
  result.store(y);
}

void native_lstsq(const Tensor& A, const Tensor& B, double rcond, std::string_view driver,
                  Tensor& X, Tensor& rank, Tensor& singular_values) {
  const int m = static_cast<int>(A.size(-2)), n = static_cast<int>(A.size(-1)), k = std::min(m, n);
  const bool values = driver == "gelsd" || driver == "gelss", ranks = driver != "gels";
  Columns a = Columns::of(A), x = Columns::of(B, std::max(m, n));
  check_all_finite("linalg.lstsq", A, a);
  check_all_finite("linalg.lstsq", B, x);
  lapack::Scratch<int> info(batch_count(A)), found(batch_count(A));
  std::fill_n(info.data(), batch_count(A), 0);
  std::fill_n(found.data(), batch_count(A), 0);
  const double work = 16 * cube(A) + rows_of(A) * double(x.each());
  Output s(singular_values, real_of(lapack_dtype(A)), work), r(rank, DType::Int64, work);
  visit_lapack(A, [&]<class T>() {
    using R = lapack::real_t<T>;
    each_entry("linalg.lstsq", batch_count(A), 16 * cube(A) + rows_of(A) * x.each(),
               [=](int64_t i) mutable {
                 if (k == 0 || x.cols() == 0) {
                   std::fill_n(x.at<T>(i), x.each(), T(0));
                   return;
                 }
                 info[i] = values ? lapack::gelsd(m, n, x.cols(), a.at<T>(i), x.at<T>(i),
                                                  s.at<R>(i, k), R(rcond), &found[i])
                                  : lapack::gelsy(m, n, x.cols(), a.at<T>(i), x.at<T>(i), R(rcond),
                                                  &found[i]);
               });
  });
  check_converged("linalg.lstsq", A, info.data());
  x.store(X);
  for (int64_t i = 0; ranks && i < batch_count(A); ++i) *r.at<int64_t>(i) = found[i];
  if (ranks) r.store();
  if (values) s.store();
}

namespace {

// V diag(sqrt(values)) V^H, in place of V.
template <class T>
void root_from(int n, T* v, const lapack::real_t<T>* values) {
  const int64_t size = int64_t{n} * n;
  lapack::Scratch<T> scaled(size), conjugated(size);
  for (int64_t i = 0; i < size; ++i) {
    const auto value = values[i / n];
    scaled[i] = v[i] * (value > 0 ? std::sqrt(value) : lapack::real_t<T>(0));
    conjugated[i] = conjugate(v[i]);
  }
  gemm(dtype_of<T>, 1, columns_matrix(scaled.data(), n, n),
       transposed(columns_matrix(conjugated.data(), n, n)), 0, columns_matrix(v, n, n));
}

}  // namespace

void linalg_matrix_sqrth(const Tensor& A, Tensor& y) {
  const int n = static_cast<int>(A.size(-1));
  if (y.numel() == 0) return;
  Columns a = Columns::of(A);
  check_all_finite("linalg.matrix_sqrth", A, a);
  lapack::Scratch<int> info(batch_count(A));
  visit_lapack(A, [&]<class T>() {
    each_entry("linalg.matrix_sqrth", batch_count(A), 10 * cube(A), [=](int64_t i) mutable {
      lapack::Scratch<lapack::real_t<T>> values(n);
      info[i] = lapack::syevd(true, false, n, a.at<T>(i), values.data());
      if (info[i] == 0) root_from(n, a.at<T>(i), values.data());
    });
  });
  check_converged("linalg.matrix_sqrth", A, info.data());
  a.store(y);
}

namespace {

// The n by n matrices of one exponential.
template <class T>
class Exponential {
 public:
  using R = lapack::real_t<T>;
  explicit Exponential(int n) : n_(n), size_(int64_t{n} * n) {}

  // a becomes its exponential.
  void run(T* a) {
    const int squarings = scale(a);
    lapack::Scratch<T> a2(size_), a4(size_), a6(size_), odd(size_), even(size_);
    multiply(a, a, a2.data());
    multiply(a2.data(), a2.data(), a4.data());
    multiply(a4.data(), a2.data(), a6.data());
    // The odd terms are a (a6 (b13 a6 + b11 a4 + b9 a2) + b7 a6 + b5 a4 + b3 a2 + b1), the even
    // ones the same without the factor a, one coefficient lower.
    half(a6, a4, a2, 13, odd);
    half(a6, a4, a2, 12, even);
    multiply(a, odd.data(), a6.data());
    std::copy_n(a6.data(), size_, odd.data());
    for (int64_t i = 0; i < size_; ++i) {
      a[i] = even[i] + odd[i];
      even[i] -= odd[i];
    }
    lapack::Scratch<int> pivots(n_);
    lapack::getrf(n_, n_, even.data(), pivots.data());
    lapack::getrs(n_, n_, even.data(), pivots.data(), a);
    for (int i = 0; i < squarings; ++i) {
      stop_if_requested();
      multiply(a, a, a2.data());
      std::copy_n(a2.data(), size_, a);
    }
  }

 private:
  // Halves a so often that its 1-norm is at most 5.37, where the approximation holds.
  int scale(T* a) {
    R norm(0);
    for (int64_t c = 0; c < n_; ++c) {
      R sum(0);
      for (int64_t i = 0; i < n_; ++i) sum += std::abs(a[c * n_ + i]);
      norm = std::max(norm, sum);
    }
    if (!(norm > R(5.371920351148152))) return 0;
    const int count = static_cast<int>(std::ceil(std::log2(norm / R(5.371920351148152))));
    const R factor = std::ldexp(R(1), -count);
    for (int64_t i = 0; i < size_; ++i) a[i] *= factor;
    return count;
  }

  void multiply(T* x, T* y, T* to) {
    gemm(dtype_of<T>, 1, columns_matrix(x, n_, n_), columns_matrix(y, n_, n_), 0,
         columns_matrix(to, n_, n_));
  }

  // a6 (b[k] a6 + b[k-2] a4 + b[k-4] a2) + b[k-6] a6 + b[k-8] a4 + b[k-10] a2 + b[k-12], with the
  // coefficients of the Padé approximant of degree 13.
  void half(lapack::Scratch<T>& a6, lapack::Scratch<T>& a4, lapack::Scratch<T>& a2, int k,
            lapack::Scratch<T>& to) {
    static constexpr double b[] = {64764752532480000.,
                                   32382376266240000.,
                                   7771770303897600.,
                                   1187353796428800.,
                                   129060195264000.,
                                   10559470521600.,
                                   670442572800.,
                                   33522128640.,
                                   1323241920.,
                                   40840800.,
                                   960960.,
                                   16380.,
                                   182.,
                                   1.};
    lapack::Scratch<T> inner(size_);
    for (int64_t i = 0; i < size_; ++i)
      inner[i] = a6[i] * R(b[k]) + a4[i] * R(b[k - 2]) + a2[i] * R(b[k - 4]);
    multiply(a6.data(), inner.data(), to.data());
    for (int64_t i = 0; i < size_; ++i)
      to[i] += a6[i] * R(b[k - 6]) + a4[i] * R(b[k - 8]) + a2[i] * R(b[k - 10]);
    for (int64_t i = 0; i < n_; ++i) to[i * n_ + i] += T(R(b[k - 12]));
  }

  int n_;
  int64_t size_;
};

}  // namespace

void matrix_exp(const Tensor& A, Tensor& y) {
  if (y.numel() == 0) return;
  Columns a = Columns::of(A);
  visit_lapack(A, [&]<class T>() {
    each_entry("matrix_exp", batch_count(A), 12 * cube(A), [=](int64_t i) mutable {
      T* matrix = a.at<T>(i);
      for (int64_t j = 0; j < a.each(); ++j) {
        if (std::isfinite(std::abs(matrix[j]))) continue;
        std::fill_n(matrix, a.each(), matrix[j] - matrix[j]);
        return;
      }
      Exponential<T>(a.rows()).run(matrix);
    });
  });
  a.store(y);
}

}  // namespace moonlet::cpu

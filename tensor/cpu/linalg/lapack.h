// tensor/cpu/linalg/lapack.h: the routines of LAPACK and BLAS that the factorizations call, for all
// types of elements, with workspaces of their own. Matrices lie column by column without gaps. What
// the functions return is LAPACK's `info`: 0, or what went wrong.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "moonlet_config.h"
#include "tensor/core/tensor.h"
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/linalg/small_matrix.h"

namespace moonlet::cpu::lapack {

// The real type of T's parts, and the complex type made of it.
template <class T>
using real_t = decltype(std::abs(T()));
template <class T>
using complex_t = std::complex<real_t<T>>;

// Memory for the time of a call. Copies share it.
template <class T>
class Scratch {
 public:
  explicit Scratch(int64_t count) : held_(empty_plain({count}, {dtype_of<T>, {}}, "linalg")) {}
  T* data() { return held_.elements<T>(); }
  T& operator[](int64_t i) { return data()[i]; }
  Tensor held() const { return held_; }

 private:
  Tensor held_;
};

#if MOONLET_OPENBLAS

// The Fortran symbols; the lengths of character arguments follow the others.
#define MOONLET_LAPACK_ALL(P, T)                                                                 \
  void P##getrf_(const int*, const int*, T*, const int*, int*, int*);                            \
  void P##getrs_(const char*, const int*, const int*, const T*, const int*, const int*, T*,      \
                 const int*, int*, size_t);                                                      \
  void P##getri_(const int*, T*, const int*, const int*, T*, const int*, int*);                  \
  void P##trsm_(const char*, const char*, const char*, const char*, const int*, const int*,      \
                const T*, const T*, const int*, T*, const int*, size_t, size_t, size_t, size_t); \
  void P##potrf_(const char*, const int*, T*, const int*, int*, size_t);                         \
  void P##geqrf_(const int*, const int*, T*, const int*, T*, T*, const int*, int*);              \
  void P##sytf2_(const char*, const int*, T*, const int*, int*, int*, size_t);                   \
  void P##sytrf_(const char*, const int*, T*, const int*, int*, T*, const int*, int*, size_t);   \
  void P##sytrs_(const char*, const int*, const int*, const T*, const int*, const int*, T*,      \
                 const int*, int*, size_t);
#define MOONLET_LAPACK_REAL(P, T)                                                                  \
  MOONLET_LAPACK_ALL(P, T)                                                                         \
  void P##sterf_(const int*, T*, T*, int*);                                                        \
  void P##steqr_(const char*, const int*, T*, T*, T*, const int*, T*, int*, size_t);               \
  void P##lasq1_(const int*, T*, T*, T*, int*);                                                    \
  void P##orgqr_(const int*, const int*, const int*, T*, const int*, const T*, T*, const int*,     \
                 int*);                                                                            \
  void P##gesdd_(const char*, const int*, const int*, T*, const int*, T*, T*, const int*, T*,      \
                 const int*, T*, const int*, int*, int*, size_t);                                  \
  void P##syevd_(const char*, const char*, const int*, T*, const int*, T*, T*, const int*, int*,   \
                 const int*, int*, size_t, size_t);                                                \
  void P##geev_(const char*, const char*, const int*, T*, const int*, T*, T*, T*, const int*, T*,  \
                const int*, T*, const int*, int*, size_t, size_t);                                 \
  void P##gelsy_(const int*, const int*, const int*, T*, const int*, T*, const int*, int*,         \
                 const T*, int*, T*, const int*, int*);                                            \
  void P##gelsd_(const int*, const int*, const int*, T*, const int*, T*, const int*, T*, const T*, \
                 int*, T*, const int*, int*, int*);
#define MOONLET_LAPACK_COMPLEX(P, T, R)                                                            \
  MOONLET_LAPACK_ALL(P, T)                                                                         \
  void P##ungqr_(const int*, const int*, const int*, T*, const int*, const T*, T*, const int*,     \
                 int*);                                                                            \
  void P##gesdd_(const char*, const int*, const int*, T*, const int*, R*, T*, const int*, T*,      \
                 const int*, T*, const int*, R*, int*, int*, size_t);                              \
  void P##heevd_(const char*, const char*, const int*, T*, const int*, R*, T*, const int*, R*,     \
                 const int*, int*, const int*, int*, size_t, size_t);                              \
  void P##geev_(const char*, const char*, const int*, T*, const int*, T*, T*, const int*, T*,      \
                const int*, T*, const int*, R*, int*, size_t, size_t);                             \
  void P##hetrf_(const char*, const int*, T*, const int*, int*, T*, const int*, int*, size_t);     \
  void P##hetrs_(const char*, const int*, const int*, const T*, const int*, const int*, T*,        \
                 const int*, int*, size_t);                                                        \
  void P##gelsy_(const int*, const int*, const int*, T*, const int*, T*, const int*, int*,         \
                 const R*, int*, T*, const int*, R*, int*);                                        \
  void P##gelsd_(const int*, const int*, const int*, T*, const int*, T*, const int*, R*, const R*, \
                 int*, T*, const int*, R*, int*, int*);

extern "C" {
MOONLET_LAPACK_REAL(s, float)
MOONLET_LAPACK_REAL(d, double)
MOONLET_LAPACK_COMPLEX(c, complex64, float)
MOONLET_LAPACK_COMPLEX(z, complex128, double)
}
#undef MOONLET_LAPACK_ALL
#undef MOONLET_LAPACK_REAL
#undef MOONLET_LAPACK_COMPLEX

// Calls the routine of T: CALL(getrf, arguments...); REAL and COMPLEX where the two kinds differ.
#define MOONLET_LAPACK_CALL(T, NAME, ...)            \
  [&] {                                              \
    if constexpr (std::is_same_v<T, float>)          \
      s##NAME##_(__VA_ARGS__);                       \
    else if constexpr (std::is_same_v<T, double>)    \
      d##NAME##_(__VA_ARGS__);                       \
    else if constexpr (std::is_same_v<T, complex64>) \
      c##NAME##_(__VA_ARGS__);                       \
    else                                             \
      z##NAME##_(__VA_ARGS__);                       \
  }()
#define MOONLET_LAPACK_CALL_REAL(T, NAME, ...)    \
  [&] {                                           \
    if constexpr (std::is_same_v<T, float>)       \
      s##NAME##_(__VA_ARGS__);                    \
    else if constexpr (std::is_same_v<T, double>) \
      d##NAME##_(__VA_ARGS__);                    \
  }()
#define MOONLET_LAPACK_CALL_COMPLEX(T, NAME, ...)     \
  [&] {                                               \
    if constexpr (std::is_same_v<T, complex64>)       \
      c##NAME##_(__VA_ARGS__);                        \
    else if constexpr (std::is_same_v<T, complex128>) \
      z##NAME##_(__VA_ARGS__);                        \
  }()

// The elements of a workspace that LAPACK asked for; a float may have been rounded down.
template <class T>
int asked(const T& answer) {
  const double size = std::ceil(double(std::real(answer)) * 1.000001);
  check(size >= 0 && size < double(std::numeric_limits<int>::max()),
        "linalg: the matrix is too large for LAPACK");
  return std::max(1, static_cast<int>(size));
}

inline int leading(int rows) { return std::max(1, rows); }

// How much workspace a routine asked for last, and for what, so that a batch asks once.
class Workspace {
 public:
  // Returns call(work, size), of which call(&answer, -1) asks for the size; it is the same for
  // equal `question`s.
  template <class T, class Call>
  int lend(const std::array<int, 3>& question, Call&& call) {
    if (question != question_) {
      T answer{};
      call(&answer, -1);
      size_ = asked(answer);
      question_ = question;
    }
    Scratch<T> work(size_);
    return call(work.data(), size_);
  }

 private:
  std::array<int, 3> question_{-1, -1, -1};
  int size_ = 0;
};

template <class T>
int getrf(int m, int n, T* a, int* pivots) {
  int info = 0;
  const int lda = leading(m);
  MOONLET_LAPACK_CALL(T, getrf, &m, &n, a, &lda, pivots, &info);
  return info;
}

template <class T>
int getrs(int n, int columns, const T* lu, const int* pivots, T* b) {
  int info = 0;
  const int ld = leading(n);
  MOONLET_LAPACK_CALL(T, getrs, "N", &n, &columns, lu, &ld, pivots, b, &ld, &info, 1);
  return info;
}

template <class T>
int getri(int n, T* lu, const int* pivots) {
  int info = 0, size = -1;
  const int ld = leading(n);
  T answer{};
  MOONLET_LAPACK_CALL(T, getri, &n, lu, &ld, pivots, &answer, &size, &info);
  Scratch<T> work(size = asked(answer));
  MOONLET_LAPACK_CALL(T, getri, &n, lu, &ld, pivots, work.data(), &size, &info);
  return info;
}

// b (n, columns) becomes the solution for the triangular a (n, n).
template <class T>
void trsm(bool upper, bool unit, int n, int columns, const T* a, T* b) {
  const int ld = leading(n);
  const T one(1);
  MOONLET_LAPACK_CALL(T, trsm, "L", upper ? "U" : "L", "N", unit ? "U" : "N", &n, &columns, &one, a,
                      &ld, b, &ld, 1, 1, 1, 1);
}

template <class T>
int potrf(bool upper, int n, T* a) {
  int info = 0;
  const int ld = leading(n);
  MOONLET_LAPACK_CALL(T, potrf, upper ? "U" : "L", &n, a, &ld, &info, 1);
  return info;
}

template <class T>
int geqrf(int m, int n, T* a, T* tau) {
  if constexpr (!is_complex_v<T>)
    if (small::fits(m, n) && small::has_finite_squares(m * n, a))
      return small::geqrf(m, n, a, tau), 0;
  int info = 0, size = -1;
  const int ld = leading(m);
  T answer{};
  MOONLET_LAPACK_CALL(T, geqrf, &m, &n, a, &ld, tau, &answer, &size, &info);
  Scratch<T> work(size = asked(answer));
  MOONLET_LAPACK_CALL(T, geqrf, &m, &n, a, &ld, tau, work.data(), &size, &info);
  return info;
}

// The first n columns of the product of k reflections.
template <class T>
int orgqr(int m, int n, int k, T* a, const T* tau) {
  if constexpr (!is_complex_v<T>)
    if (small::fits(m, n)) return small::orgqr(m, n, k, a, tau), 0;
  const int ld = leading(m);
  const auto call = [&](T* work, int size) {
    int info = 0;
    MOONLET_LAPACK_CALL_REAL(T, orgqr, &m, &n, &k, a, &ld, tau, work, &size, &info);
    MOONLET_LAPACK_CALL_COMPLEX(T, ungqr, &m, &n, &k, a, &ld, tau, work, &size, &info);
    return info;
  };
  static thread_local Workspace workspace;
  return workspace.lend<T>({m, n, k}, call);
}

// Singular values of a small matrix, without vectors.
template <class R>
int small_singular_values(int m, int n, R* a, R* s) {
  R turned[small::kMost * small::kMost], e[small::kMost], work[4 * small::kMost];
  if (m < n) {
    for (int c = 0; c < n; ++c)
      for (int i = 0; i < m; ++i) turned[i * n + c] = a[c * m + i];
    small::gebrd(n, m, turned, s, e);
  } else {
    small::gebrd(m, n, a, s, e);
  }
  const int k = std::min(m, n);
  int info = 0;
  MOONLET_LAPACK_CALL_REAL(R, lasq1, &k, s, e, work, &info);
  return info;
}

// Singular values, and vectors as `job` says: N(one), S(ome), A(ll); vh has vh_rows rows.
template <class T>
int gesdd(char job, int m, int n, T* a, real_t<T>* s, T* u, T* vh, int vh_rows) {
  if constexpr (!is_complex_v<T>)
    if (job == 'N' && small::fits(m, n) && small::has_finite_squares(m * n, a))
      return small_singular_values(m, n, a, s);
  const int64_t k = std::min(m, n);
  const int lda = leading(m), ldvh = leading(vh_rows);
  Scratch<int> numbers(8 * k + 1);
  Scratch<real_t<T>> reals(is_complex(dtype_of<T>) ? 6 * k * k + 7 * k + 1 : 1);
  const auto call = [&](T* work, int size) {
    int info = 0;
    MOONLET_LAPACK_CALL_REAL(T, gesdd, &job, &m, &n, a, &lda, s, u, &lda, vh, &ldvh, work, &size,
                             numbers.data(), &info, 1);
    MOONLET_LAPACK_CALL_COMPLEX(T, gesdd, &job, &m, &n, a, &lda, s, u, &lda, vh, &ldvh, work, &size,
                                reals.data(), numbers.data(), &info, 1);
    return info;
  };
  static thread_local Workspace workspace;
  return workspace.lend<T>({job, m, n}, call);
}

// Eigenvalues of a small symmetric matrix, and with `vectors` its eigenvectors in place of it.
template <class R>
int small_syevd(bool vectors, bool upper, int n, R* a, R* values) {
  R e[small::kMost], tau[small::kMost], q[small::kMost * small::kMost], work[2 * small::kMost];
  for (int c = 0; c < n; ++c) {
    for (int i = 0; i < c; ++i) {
      R &above = a[c * n + i], &below = a[i * n + c];
      (upper ? below : above) = upper ? above : below;
    }
  }
  small::sytrd(n, a, values, e, tau);
  int info = 0;
  if (vectors) {
    small::orgtr(n, a, tau, q);
    MOONLET_LAPACK_CALL_REAL(R, steqr, "V", &n, values, e, q, &n, work, &info, 1);
    std::copy_n(q, n * n, a);
  } else {
    MOONLET_LAPACK_CALL_REAL(R, sterf, &n, values, e, &info);
  }
  return info;
}

// Eigenvalues of a Hermitian matrix, and its eigenvectors in place of it.
template <class T>
int syevd(bool vectors, bool upper, int n, T* a, real_t<T>* values) {
  if constexpr (!is_complex_v<T>)
    if (small::fits(n, n) && small::has_finite_squares(n * n, a))
      return small_syevd(vectors, upper, n, a, values);
  const int ld = leading(n);
  const char* job = vectors ? "V" : "N";
  const char* triangle = upper ? "U" : "L";
  const auto call = [&](T* work, int size, real_t<T>* reals, int reals_size, int* numbers,
                        int numbers_size) {
    int info = 0;
    MOONLET_LAPACK_CALL_REAL(T, syevd, job, triangle, &n, a, &ld, values, work, &size, numbers,
                             &numbers_size, &info, 1, 1);
    MOONLET_LAPACK_CALL_COMPLEX(T, heevd, job, triangle, &n, a, &ld, values, work, &size, reals,
                                &reals_size, numbers, &numbers_size, &info, 1, 1);
    return info;
  };
  T answer{};
  real_t<T> real_answer{};
  int number_answer = 1;
  call(&answer, -1, &real_answer, -1, &number_answer, -1);
  const int size = asked(answer), reals_size = asked(real_answer);
  Scratch<T> work(size);
  Scratch<real_t<T>> reals(reals_size);
  Scratch<int> numbers(std::max(1, number_answer));
  return call(work.data(), size, reals.data(), reals_size, numbers.data(),
              std::max(1, number_answer));
}

// The eigenvalues and vectors that real routines give: a pair of conjugates has the real and the
// imaginary part of its vector in two columns.
template <class R>
void join_pairs(int n, const R* re, const R* im, const R* columns, std::complex<R>* values,
                std::complex<R>* right) {
  for (int64_t j = 0; j < n; ++j) values[j] = {re[j], im[j]};
  if (right == nullptr) return;
  for (int64_t j = 0; j < n; ++j) {
    const bool pair = im[j] != 0 && j + 1 < n;
    for (int64_t i = 0; i < n; ++i) {
      right[j * n + i] = {columns[j * n + i], pair ? columns[(j + 1) * n + i] : R(0)};
      if (pair) right[(j + 1) * n + i] = std::conj(right[j * n + i]);
    }
    if (pair) ++j;
  }
}

template <class R>
int real_geev(int n, R* a, std::complex<R>* values, std::complex<R>* right) {
  const int ld = leading(n);
  const char* job = right ? "V" : "N";
  Scratch<R> re(n + 1), im(n + 1), columns(right ? int64_t{n} * n + 1 : 1);
  R none{};
  const auto call = [&](R* work, int size) {
    int info = 0;
    MOONLET_LAPACK_CALL_REAL(R, geev, "N", job, &n, a, &ld, re.data(), im.data(), &none, &ld,
                             columns.data(), &ld, work, &size, &info, 1, 1);
    return info;
  };
  static thread_local Workspace workspace;
  const int info = workspace.lend<R>({*job, n, 0}, call);
  if (info == 0) join_pairs(n, re.data(), im.data(), columns.data(), values, right);
  return info;
}

// Eigenvalues, and eigenvectors as columns where `right` is not null.
template <class T>
int geev(int n, T* a, complex_t<T>* values, complex_t<T>* right) {
  if constexpr (std::is_same_v<T, real_t<T>>) {
    return real_geev(n, a, values, right);
  } else {
    const int ld = leading(n);
    const char* job = right ? "V" : "N";
    Scratch<real_t<T>> reals(2 * int64_t{n} + 1);
    T none{};
    const auto call = [&](T* work, int size) {
      int info = 0;
      MOONLET_LAPACK_CALL_COMPLEX(T, geev, "N", job, &n, a, &ld, values, &none, &ld,
                                  right ? right : &none, &ld, work, &size, reals.data(), &info, 1,
                                  1);
      return info;
    };
    static thread_local Workspace workspace;
    return workspace.lend<T>({*job, n, 0}, call);
  }
}

// L D L^T, or with `hermitian` L D L^H, of the lower triangle.
template <class T>
int sytrf(bool hermitian, int n, T* a, int* pivots) {
  const int ld = leading(n);
  // The whole matrix is one block, for which sytrf calls this, too.
  constexpr int kBlock = thresholds::linalg::kSytrfBlock;
  if (n <= kBlock && !(hermitian && is_complex(dtype_of<T>))) {
    int info = 0;
    MOONLET_LAPACK_CALL(T, sytf2, "L", &n, a, &ld, pivots, &info, 1);
    return info;
  }
  const auto call = [&](T* work, int size) {
    int info = 0;
    if (hermitian && is_complex(dtype_of<T>))
      MOONLET_LAPACK_CALL_COMPLEX(T, hetrf, "L", &n, a, &ld, pivots, work, &size, &info, 1);
    else
      MOONLET_LAPACK_CALL(T, sytrf, "L", &n, a, &ld, pivots, work, &size, &info, 1);
    return info;
  };
  static thread_local Workspace workspace;
  return workspace.lend<T>({hermitian, n, 0}, call);
}

template <class T>
int sytrs(bool hermitian, int n, int columns, const T* a, const int* pivots, T* b) {
  int info = 0;
  const int ld = leading(n);
  if (hermitian && is_complex(dtype_of<T>))
    MOONLET_LAPACK_CALL_COMPLEX(T, hetrs, "L", &n, &columns, a, &ld, pivots, b, &ld, &info, 1);
  else
    MOONLET_LAPACK_CALL(T, sytrs, "L", &n, &columns, a, &ld, pivots, b, &ld, &info, 1);
  return info;
}

// Least squares by QR with pivoting; b has max(m, n) rows.
template <class T>
int gelsy(int m, int n, int columns, T* a, T* b, real_t<T> rcond, int* rank) {
  const int lda = leading(m), ldb = leading(std::max(m, n));
  Scratch<int> order(n + 1);
  std::fill_n(order.data(), n, 0);
  Scratch<real_t<T>> reals(2 * int64_t{n} + 1);
  const auto call = [&](T* work, int size) {
    int info = 0;
    MOONLET_LAPACK_CALL_REAL(T, gelsy, &m, &n, &columns, a, &lda, b, &ldb, order.data(), &rcond,
                             rank, work, &size, &info);
    MOONLET_LAPACK_CALL_COMPLEX(T, gelsy, &m, &n, &columns, a, &lda, b, &ldb, order.data(), &rcond,
                                rank, work, &size, reals.data(), &info);
    return info;
  };
  T answer{};
  call(&answer, -1);
  const int size = asked(answer);
  Scratch<T> work(size);
  return call(work.data(), size);
}

// Least squares by singular values, which are written to s.
template <class T>
int gelsd(int m, int n, int columns, T* a, T* b, real_t<T>* s, real_t<T> rcond, int* rank) {
  const int lda = leading(m), ldb = leading(std::max(m, n));
  const auto call = [&](T* work, int size, [[maybe_unused]] real_t<T>* reals, int* numbers) {
    int info = 0;
    MOONLET_LAPACK_CALL_REAL(T, gelsd, &m, &n, &columns, a, &lda, b, &ldb, s, &rcond, rank, work,
                             &size, numbers, &info);
    MOONLET_LAPACK_CALL_COMPLEX(T, gelsd, &m, &n, &columns, a, &lda, b, &ldb, s, &rcond, rank, work,
                                &size, reals, numbers, &info);
    return info;
  };
  T answer{};
  real_t<T> real_answer{};
  int number_answer = 1;
  call(&answer, -1, &real_answer, &number_answer);
  const int size = asked(answer);
  Scratch<T> work(size);
  Scratch<real_t<T>> reals(asked(real_answer));
  Scratch<int> numbers(std::max(1, number_answer));
  return call(work.data(), size, reals.data(), numbers.data());
}

#undef MOONLET_LAPACK_CALL
#undef MOONLET_LAPACK_CALL_REAL
#undef MOONLET_LAPACK_CALL_COMPLEX

#else

[[noreturn]] inline void missing() {
  fail("linalg: this build has no LAPACK: it was made without OpenBLAS (-Dblas)");
}
#define MOONLET_LAPACK_MISSING(NAME) \
  template <class... Args>           \
  int NAME(Args&&...) {              \
    missing();                       \
  }
MOONLET_LAPACK_MISSING(getrf)
MOONLET_LAPACK_MISSING(getrs)
MOONLET_LAPACK_MISSING(getri)
MOONLET_LAPACK_MISSING(trsm)
MOONLET_LAPACK_MISSING(potrf)
MOONLET_LAPACK_MISSING(geqrf)
MOONLET_LAPACK_MISSING(orgqr)
MOONLET_LAPACK_MISSING(gesdd)
MOONLET_LAPACK_MISSING(syevd)
MOONLET_LAPACK_MISSING(geev)
MOONLET_LAPACK_MISSING(sytrf)
MOONLET_LAPACK_MISSING(sytrs)
MOONLET_LAPACK_MISSING(gelsy)
MOONLET_LAPACK_MISSING(gelsd)
#undef MOONLET_LAPACK_MISSING

#endif

}  // namespace moonlet::cpu::lapack

// cuda/emulated/lapack_calls.h: LAPACK's routines on the host, for all types of elements by one
// name.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "cuComplex.h"

namespace moonlet::emulated::lapack {

template <class T>
struct RealOf {
  using type = T;
};
template <>
struct RealOf<cuComplex> {
  using type = float;
};
template <>
struct RealOf<cuDoubleComplex> {
  using type = double;
};
template <class T>
using real_t = typename RealOf<T>::type;

inline int asked(float x) { return std::max(1, static_cast<int>(x)); }
inline int asked(double x) { return std::max(1, static_cast<int>(x)); }
inline int asked(cuComplex x) { return asked(x.x); }
inline int asked(cuDoubleComplex x) { return asked(x.x); }

// The Fortran symbols; the lengths of character arguments follow the others.
#define MOONLET_LAPACK(P, T)                                                                  \
  extern "C" {                                                                                \
  void P##getrf_(const int*, const int*, T*, const int*, int*, int*);                         \
  void P##getrs_(const char*, const int*, const int*, const T*, const int*, const int*, T*,   \
                 const int*, int*, std::size_t);                                              \
  void P##potrf_(const char*, const int*, T*, const int*, int*, std::size_t);                 \
  void P##geqrf_(const int*, const int*, T*, const int*, T*, T*, const int*, int*);           \
  }                                                                                           \
  inline int getrf(int m, int n, T* a, int lda, int* pivots) {                                \
    int info = 0;                                                                             \
    P##getrf_(&m, &n, a, &lda, pivots, &info);                                                \
    return info;                                                                              \
  }                                                                                           \
  inline int getrs(char op, int n, int columns, const T* a, int lda, const int* pivots, T* b, \
                   int ldb) {                                                                 \
    int info = 0;                                                                             \
    P##getrs_(&op, &n, &columns, a, &lda, pivots, b, &ldb, &info, 1);                         \
    return info;                                                                              \
  }                                                                                           \
  inline int potrf(char uplo, int n, T* a, int lda) {                                         \
    int info = 0;                                                                             \
    P##potrf_(&uplo, &n, a, &lda, &info, 1);                                                  \
    return info;                                                                              \
  }                                                                                           \
  inline int geqrf(int m, int n, T* a, int lda, T* tau) {                                     \
    int info = 0, size = -1;                                                                  \
    T answer{};                                                                               \
    P##geqrf_(&m, &n, a, &lda, tau, &answer, &size, &info);                                   \
    std::vector<T> work(static_cast<std::size_t>(size = asked(answer)));                      \
    P##geqrf_(&m, &n, a, &lda, tau, work.data(), &size, &info);                               \
    return info;                                                                              \
  }
MOONLET_LAPACK(s, float)
MOONLET_LAPACK(d, double)
MOONLET_LAPACK(c, cuComplex)
MOONLET_LAPACK(z, cuDoubleComplex)
#undef MOONLET_LAPACK

#define MOONLET_LAPACK(P, NAME, T)                                                             \
  extern "C" void P##NAME##_(const int*, const int*, const int*, T*, const int*, const T*, T*, \
                             const int*, int*);                                                \
  inline int orgqr(int m, int n, int k, T* a, int lda, const T* tau) {                         \
    int info = 0, size = -1;                                                                   \
    T answer{};                                                                                \
    P##NAME##_(&m, &n, &k, a, &lda, tau, &answer, &size, &info);                               \
    std::vector<T> work(static_cast<std::size_t>(size = asked(answer)));                       \
    P##NAME##_(&m, &n, &k, a, &lda, tau, work.data(), &size, &info);                           \
    return info;                                                                               \
  }
MOONLET_LAPACK(s, orgqr, float)
MOONLET_LAPACK(d, orgqr, double)
MOONLET_LAPACK(c, ungqr, cuComplex)
MOONLET_LAPACK(z, ungqr, cuDoubleComplex)
#undef MOONLET_LAPACK

// Real and complex routines differ in their workspaces.
#define MOONLET_LAPACK(P, SY, T, R, COMPLEX)                                                      \
  extern "C" {                                                                                    \
  void P##SY##ev_(const char*, const char*, const int*, T*, const int*, R*, T*, const int*,       \
                  COMPLEX(R*, ) int*, std::size_t, std::size_t);                                  \
  void P##gesvd_(const char*, const char*, const int*, const int*, T*, const int*, R*, T*,        \
                 const int*, T*, const int*, T*, const int*, COMPLEX(R*, ) int*, std::size_t,     \
                 std::size_t);                                                                    \
  }                                                                                               \
  inline int syev(char job, char uplo, int n, T* a, int lda, R* values) {                         \
    int info = 0, size = -1;                                                                      \
    T answer{};                                                                                   \
    [[maybe_unused]] std::vector<R> reals(static_cast<std::size_t>(3 * n + 1));                   \
    P##SY##ev_(&job, &uplo, &n, a, &lda, values, &answer, &size, COMPLEX(reals.data(), ) & info,  \
               1, 1);                                                                             \
    std::vector<T> work(static_cast<std::size_t>(size = asked(answer)));                          \
    P##SY##ev_(&job, &uplo, &n, a, &lda, values, work.data(), &size,                              \
               COMPLEX(reals.data(), ) & info, 1, 1);                                             \
    return info;                                                                                  \
  }                                                                                               \
  inline int gesvd(char job, int m, int n, T* a, int lda, R* s, T* u, int ldu, T* vh, int ldvh) { \
    int info = 0, size = -1;                                                                      \
    T answer{};                                                                                   \
    [[maybe_unused]] std::vector<R> reals(static_cast<std::size_t>(5 * std::min(m, n) + 1));      \
    P##gesvd_(&job, &job, &m, &n, a, &lda, s, u, &ldu, vh, &ldvh, &answer, &size,                 \
              COMPLEX(reals.data(), ) & info, 1, 1);                                              \
    std::vector<T> work(static_cast<std::size_t>(size = asked(answer)));                          \
    P##gesvd_(&job, &job, &m, &n, a, &lda, s, u, &ldu, vh, &ldvh, work.data(), &size,             \
              COMPLEX(reals.data(), ) & info, 1, 1);                                              \
    return info;                                                                                  \
  }
#define MOONLET_NONE(...)
#define MOONLET_ALL(...) __VA_ARGS__
MOONLET_LAPACK(s, sy, float, float, MOONLET_NONE)
MOONLET_LAPACK(d, sy, double, double, MOONLET_NONE)
MOONLET_LAPACK(c, he, cuComplex, float, MOONLET_ALL)
MOONLET_LAPACK(z, he, cuDoubleComplex, double, MOONLET_ALL)
#undef MOONLET_NONE
#undef MOONLET_ALL
#undef MOONLET_LAPACK

}  // namespace moonlet::emulated::lapack

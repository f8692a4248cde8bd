// tensor/cpu/linalg/small_matrix.h: factorizations of small real matrices by plain loops, for which
// a call of LAPACK takes longer than the arithmetic; what the functions return is what LAPACK's
// would. Matrices lie without gaps: row by row, but column by column for QR.
#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "tensor/cpu/common/thresholds.h"

namespace moonlet::cpu::small {

inline constexpr int kMost = thresholds::linalg::kSmallMatrix;

inline bool fits(int64_t m, int64_t n) { return m <= kMost && n <= kMost; }

// y += factor * x
template <class T>
void add_scaled(int n, T factor, const T* __restrict x, T* __restrict y) {
  for (int i = 0; i < n; ++i) y[i] += factor * x[i];
}

// P L U by Gaussian elimination with the largest of each column as the pivot.
template <class T>
int getrf(int m, int n, T* a, int* pivots) {
  int info = 0;
  for (int j = 0; j < std::min(m, n); ++j) {
    T* const row = a + j * n;
    int at = j;
    for (int i = j + 1; i < m; ++i) at = std::abs(a[i * n + j]) > std::abs(a[at * n + j]) ? i : at;
    pivots[j] = at + 1;
    if (a[at * n + j] == T(0)) {
      if (info == 0) info = j + 1;
      continue;
    }
    if (at != j) std::swap_ranges(row, row + n, a + at * n);
    for (int i = j + 1; i < m; ++i) {
      a[i * n + j] /= row[j];
      add_scaled(n - j - 1, -a[i * n + j], row + j + 1, a + i * n + j + 1);
    }
  }
  return info;
}

// b (n, columns) becomes the solution for the triangular a (n, n).
template <class T>
void trsm(bool upper, bool unitriangular, int n, int columns, const T* a, T* b) {
  for (int k = 0; k < n; ++k) {
    const int j = upper ? n - 1 - k : k;
    T* const row = b + j * columns;
    if (!unitriangular)
      for (int c = 0; c < columns; ++c) row[c] /= a[j * n + j];
    for (int i = upper ? 0 : j + 1; i < (upper ? j : n); ++i)
      add_scaled(columns, -a[i * n + j], row, b + i * columns);
  }
}

// b (n, columns) becomes the solution with what getrf gives.
template <class T>
void getrs(int n, int columns, const T* lu, const int* pivots, T* b) {
  for (int j = 0; j < n; ++j) {
    T* const row = b + j * columns;
    if (pivots[j] != j + 1) std::swap_ranges(row, row + columns, b + (pivots[j] - 1) * columns);
  }
  trsm(false, true, n, columns, lu, b);
  trsm(true, false, n, columns, lu, b);
}

// The inverse from what getrf gives, in place of it.
template <class T>
void getri(int n, T* lu, const int* pivots) {
  T inverse[kMost * kMost] = {};
  for (int i = 0; i < n; ++i) inverse[i * n + i] = T(1);
  getrs(n, n, lu, pivots, inverse);
  std::copy_n(inverse, n * n, lu);
}

// L L^T of the lower triangle, or with `upper` U^T U of the upper one, in place of it.
template <class T>
int potrf(bool upper, int n, T* a) {
  T factors[kMost];  // a column of L, a row of U
  for (int j = 0; j < n; ++j) {
    T& pivot = a[j * n + j];
    if (!(pivot > T(0))) return j + 1;
    pivot = std::sqrt(pivot);
    for (int i = j + 1; i < n; ++i) factors[i] = (upper ? a[j * n + i] : a[i * n + j]) /= pivot;
    for (int i = j + 1; i < n; ++i) {
      const int first = upper ? i : j + 1, last = upper ? n : i + 1;
      add_scaled(last - first, -factors[i], factors + first, a + i * n + first);
    }
  }
  return 0;
}

// Whether the sums of the elements' squares are finite.
template <class T>
bool has_finite_squares(int count, const T* a) {
  constexpr T kFar = std::is_same_v<T, float> ? T(0x1p50) : T(0x1p450);
  return std::all_of(a, a + count, [](T v) { return std::abs(v) < kFar; });
}

// The Euclidean norm, also of numbers whose squares vanish.
template <class T>
T norm(int n, const T* x) {
  constexpr T kNear = std::is_same_v<T, float> ? T(0x1p-50) : T(0x1p-450);
  T squares(0), largest(0);
  for (int i = 0; i < n; ++i) squares += x[i] * x[i];
  if (squares > kNear) return std::sqrt(squares);
  for (int i = 0; i < n; ++i) largest = std::max(largest, std::abs(x[i]));
  if (largest == T(0)) return T(0);
  squares = T(0);
  for (int i = 0; i < n; ++i) squares += (x[i] / largest) * (x[i] / largest);
  return largest * std::sqrt(squares);
}

// x - (v^T x) tau v for v = (1, x2, ...), whose tail is given.
template <class T>
void reflect(int n, T tau, const T* tail, T* x) {
  T sum = x[0];
  for (int i = 1; i < n; ++i) sum += tail[i - 1] * x[i];
  sum *= tau;
  x[0] -= sum;
  add_scaled(n - 1, -sum, tail, x + 1);
}

// Makes x (n) the tail of the v = (1, x2, ...) whose reflection takes x to (x1', 0, ...), with x1'
// in its first place; returns tau.
template <class T>
T make_reflection(int n, T* x) {
  if (std::all_of(x + 1, x + n, [](T v) { return v == T(0); })) return T(0);
  // Numbers near the smallest ones have few digits, which their quotients would have, too.
  constexpr T kUp = std::is_same_v<T, float> ? T(0x1p64) : T(0x1p512);
  const bool raised = norm(n, x) < T(1) / kUp;
  for (int i = 0; raised && i < n; ++i) x[i] *= kUp;
  const T beta = -std::copysign(norm(n, x), x[0]), far = x[0] - beta;
  for (int i = 1; i < n; ++i) x[i] /= far;
  x[0] = raised ? beta / kUp : beta;
  return -far / beta;
}

// R, and below it the reflections that make Q, of a matrix with finite squares.
template <class T>
void geqrf(int m, int n, T* a, T* tau) {
  for (int j = 0; j < std::min(m, n); ++j) {
    T* const x = a + j * m + j;
    tau[j] = make_reflection(m - j, x);
    if (tau[j] == T(0)) continue;
    for (int c = j + 1; c < n; ++c) reflect(m - j, tau[j], x + 1, a + c * m + j);
  }
}

// The first n columns of the product of k reflections.
template <class T>
void orgqr(int m, int n, int k, T* a, const T* tau) {
  for (int j = n - 1; j >= 0; --j) {
    T* const column = a + j * m;
    if (j >= k) std::fill_n(column, m, T(0));
    if (j < k)
      for (int c = j + 1; c < n; ++c) reflect(m - j, tau[j], column + j + 1, a + c * m + j);
    // The reflection of the unit vector.
    const T factor = j < k ? tau[j] : T(0);
    std::fill_n(column, j, T(0));
    for (int i = j + 1; i < m; ++i) column[i] *= -factor;
    column[j] = T(1) - factor;
  }
}

// The upper bidiagonal matrix with a's singular values, for m at least n and finite squares: its
// diagonal d (n) and what is above it, e (n - 1). a is written over.
template <class T>
void gebrd(int m, int n, T* a, T* d, T* e) {
  T row[kMost], sums[kMost];
  for (int j = 0; j < n; ++j) {
    T* const x = a + j * m + j;
    const T tau = make_reflection(m - j, x);
    d[j] = x[0];
    for (int c = j + 1; c < n && tau != T(0); ++c) reflect(m - j, tau, x + 1, a + c * m + j);
    const int rest = n - j - 1, below = m - j - 1;
    if (rest == 0) continue;
    // The same along the row, for all rows below it at a time.
    for (int c = 0; c < rest; ++c) row[c] = a[(j + 1 + c) * m + j];
    const T factor = make_reflection(rest, row);
    e[j] = row[0];
    row[0] = T(1);
    std::fill_n(sums, below, T(0));
    T* const first = a + (j + 1) * m + j + 1;
    for (int c = 0; c < rest; ++c) add_scaled(below, row[c], first + c * m, sums);
    for (int c = 0; c < rest; ++c) add_scaled(below, -factor * row[c], sums, first + c * m);
  }
}

// The tridiagonal matrix with the eigenvalues of the symmetric a, of which both triangles are there
// and squares are finite: its diagonal d (n) and what is beside it, e (n - 1). Below that a has the
// reflections, with the factors tau (n - 1).
template <class T>
void sytrd(int n, T* a, T* d, T* e, T* tau) {
  T product[kMost];
  for (int j = 0; j < n; ++j) {
    d[j] = a[j * n + j];
    const int rest = n - j - 1;
    if (rest == 0) break;
    T* const v = a + j * n + j + 1;
    tau[j] = make_reflection(rest, v);
    e[j] = std::exchange(v[0], T(1));
    // H S H = S - v w^T - w v^T for w = tau (S v - (tau v^T S v / 2) v).
    T* const square = a + (j + 1) * n + j + 1;
    std::fill_n(product, rest, T(0));
    for (int c = 0; c < rest; ++c) add_scaled(rest, tau[j] * v[c], square + c * n, product);
    T sum(0);
    for (int i = 0; i < rest; ++i) sum += product[i] * v[i];
    add_scaled(rest, -tau[j] * sum / 2, v, product);
    for (int c = 0; c < rest; ++c) {
      add_scaled(rest, -v[c], product, square + c * n);
      add_scaled(rest, -product[c], v, square + c * n);
    }
  }
}

// q (n, n), the orthogonal matrix of the reflections that sytrd leaves in a.
template <class T>
void orgtr(int n, const T* a, const T* tau, T* q) {
  T inner[kMost * kMost];
  const int rest = n - 1;
  for (int j = 0; j < rest; ++j) std::copy_n(a + j * n + 1, rest, inner + j * rest);
  orgqr(rest, rest, rest, inner, tau);
  std::fill_n(q, n * n, T(0));
  q[0] = T(1);
  for (int j = 0; j < rest; ++j) std::copy_n(inner + j * rest, rest, q + (j + 1) * n + 1);
}

}  // namespace moonlet::cpu::small

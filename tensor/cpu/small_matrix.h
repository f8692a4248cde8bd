// tensor/cpu/small_matrix.h: factorizations of small real matrices by plain loops, for which a call
// of LAPACK takes longer than the arithmetic; what the functions return is what LAPACK's would.
// Matrices lie without gaps: row by row, but column by column for QR.
#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

namespace moonlet::cpu::small {

// The most rows and columns.
inline constexpr int kMost = 16;

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

// R, and below it the reflections that make Q, of a matrix with finite squares.
template <class T>
void geqrf(int m, int n, T* a, T* tau) {
  for (int j = 0; j < std::min(m, n); ++j) {
    T* const x = a + j * m + j;
    tau[j] = T(0);
    if (std::all_of(x + 1, a + (j + 1) * m, [](T v) { return v == T(0); })) continue;
    const T beta = -std::copysign(norm(m - j, x), x[0]), far = x[0] - beta;
    tau[j] = -far / beta;
    for (int i = 1; i < m - j; ++i) x[i] /= far;
    x[0] = beta;
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

}  // namespace moonlet::cpu::small

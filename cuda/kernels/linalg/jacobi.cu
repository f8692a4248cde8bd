// cuda/kernels/linalg/jacobi.cu: singular values by one-sided Jacobi rotations (Hestenes 1958): a
// block turns the columns of a matrix, two by two, until all are orthogonal. Their norms are the
// values, their directions U, and the turns together V. No sum depends on the batch or the device.
#include "cuda/kernels/linalg/jacobi.h"

#include <limits>

#include "cuda/kernels/common/team.cuh"
#include "cuda/kernels/linalg/decomposition_kernels.cuh"

namespace moonlet::cuda::jacobi {

namespace {

constexpr int kSweeps = 30;  // as many as LAPACK's gesvj; 6 to 10 are usual
constexpr int kWarps = kBlock / kWarp;

template <class T>
__device__ T squared(T x) {
  return x * x;
}
template <class T>
__device__ T squared(Complex<T> x) {
  return x.re * x.re + x.im * x.im;
}
// Without squares, which lose digits of what is small.
template <class T>
__device__ T magnitude(T x) {
  return fabs(x);
}
template <class T>
__device__ T magnitude(Complex<T> x) {
  return hypot(x.re, x.im);
}
template <class T>
__device__ T largest_part(T x) {
  return fabs(x);
}
template <class T>
__device__ T largest_part(Complex<T> x) {
  return fmax(fabs(x.re), fabs(x.im));
}

// What a pair of columns x, y is turned by: |x|^2, |y|^2 and the product of conj(x) and y.
template <class T>
struct Products {
  part_t<T> xx, yy;
  T xy;
};
template <class T>
__device__ Products<T> operator+(const Products<T>& a, const Products<T>& b) {
  return {a.xx + b.xx, a.yy + b.yy, a.xy + b.xy};
}

// Below its root a column of a matrix whose largest element is about 1 counts as 0: squares would
// lose digits. It is far below the rounding of the largest value.
template <class R>
__device__ constexpr R least_square() {
  return std::numeric_limits<R>::min() / std::numeric_limits<R>::epsilon();
}

// x' = c x - s conj(p) y, y' = s x + c conj(p) y, with |p| = 1: p makes the product of both real.
template <class T>
struct Rotation {
  part_t<T> c, s;
  T phase;
};
template <class T>
__device__ void turn(const Rotation<T>& by, int64_t n, T* x, T* y) {
  for (int64_t i = threadIdx.x % kWarp; i < n; i += kWarp) {
    const T first = x[i], second = by.phase * y[i];
    x[i] = T(by.c) * first - T(by.s) * second;
    y[i] = T(by.s) * first + T(by.c) * second;
  }
}

// A warp makes columns x and y of length m orthogonal; false where they were. v are the same
// columns of V, or null.
template <class T>
__device__ bool rotate_pair(int64_t m, int64_t n, T* x, T* y, T* vx, T* vy) {
  using R = part_t<T>;
  Products<T> sums{R(0), R(0), T(R(0))};
  for (int64_t i = threadIdx.x % kWarp; i < m; i += kWarp)
    sums = sums + Products<T>{squared(x[i]), squared(y[i]), conjugate(x[i]) * y[i]};
  sums =
      combine_lanes(sums, kWarp, [](const Products<T>& a, const Products<T>& b) { return a + b; });
  sums = from_lane(sums, 0, kWarp);
  const R size = magnitude(sums.xy);
  const R tolerance = sqrt(static_cast<R>(m)) * std::numeric_limits<R>::epsilon();
  if (!(size > fmax(tolerance * sqrt(sums.xx) * sqrt(sums.yy), least_square<R>()))) return false;
  // The smaller of the two angles (Rutishauser 1966).
  const R zeta = (sums.yy - sums.xx) / (R(2) * size);
  const R tangent = copysign(R(1), zeta) / (fabs(zeta) + sqrt(R(1) + zeta * zeta));
  const R cosine = R(1) / sqrt(R(1) + tangent * tangent);
  const Rotation<T> by{cosine, cosine * tangent, conjugate(sums.xy) * T(R(1) / size)};
  turn(by, m, x, y);
  if (vx) turn(by, n, vx, vy);
  return true;
}

// Pair k of a round in which each of an even number of players meets one other; in `players` - 1
// rounds all meet. The last one stays, the others go round.
struct Pair {
  int64_t a, b;
};
__device__ Pair pair_of(int64_t players, int64_t round, int64_t k) {
  const int64_t others = players - 1;
  return {k == 0 ? others : (round + k) % others, (round + others - k) % others};
}

// False where columns still turned in the last sweep.
template <class T>
__device__ bool orthogonalize(int64_t m, int64_t n, T* a, T* v) {
  const int64_t players = n + n % 2;
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    bool turned = false;
    for (int64_t round = 0; round < players - 1; ++round) {
      for (int64_t k = threadIdx.x / kWarp; k < players / 2; k += kWarps) {
        const Pair pair = pair_of(players, round, k);
        if (pair.a >= n || pair.b >= n) continue;  // the one that an odd number leaves over
        turned |= rotate_pair(m, n, a + pair.a * m, a + pair.b * m, v ? v + pair.a * n : nullptr,
                              v ? v + pair.b * n : nullptr);
      }
      __syncthreads();
    }
    if (!__syncthreads_or(turned)) return true;
  }
  return false;
}

// The power of two that the largest part of an element is below.
template <class T>
__device__ int exponent_of(int64_t total, const T* a) {
  using R = part_t<T>;
  R most = R(0);
  for (int64_t i = threadIdx.x; i < total; i += kBlock) most = fmax(most, largest_part(a[i]));
  most = combine_block(most, [](R x, R y) { return fmax(x, y); });
  int exponent = 0;
  frexp(most, &exponent);
  return exponent;
}
template <class R>
__device__ R scaled(R x, int exponent) {
  return ldexp(x, exponent);
}
template <class R>
__device__ Complex<R> scaled(Complex<R> x, int exponent) {
  return {ldexp(x.re, exponent), ldexp(x.im, exponent)};
}

template <class R>
struct Best {
  R rest;
  int64_t row;
};

// Column c of U (columns by rows of `u`) so that it is orthogonal to those before it: the unit
// vector that they leave most of, less what they have of it, twice, as once loses digits.
template <class T>
__device__ void complete_column(int64_t m, int64_t c, T* u) {
  using R = part_t<T>;
  Best<R> best{R(-1), 0};
  for (int64_t row = threadIdx.x; row < m; row += kBlock) {
    R rest = R(1);
    for (int64_t k = 0; k < c; ++k) rest = rest - squared(u[k * m + row]);
    if (rest > best.rest) best = {rest, row};
  }
  best = combine_block(best, [](const Best<R>& a, const Best<R>& b) {
    return b.rest > a.rest || (b.rest == a.rest && b.row < a.row) ? b : a;
  });
  T* const column = u + c * m;
  for (int64_t row = threadIdx.x; row < m; row += kBlock)
    column[row] = T(row == best.row ? R(1) : R(0));
  __syncthreads();
  for (int64_t k = 0; k < 2 * c; ++k) {
    const T* const other = u + (k % c) * m;
    T product = T(R(0));
    for (int64_t row = threadIdx.x; row < m; row += kBlock)
      product = product + conjugate(other[row]) * column[row];
    product = combine_block(product, [](const T& a, const T& b) { return a + b; });
    for (int64_t row = threadIdx.x; row < m; row += kBlock)
      column[row] = column[row] - product * other[row];
  }
  R norm = R(0);
  for (int64_t row = threadIdx.x; row < m; row += kBlock) norm = norm + squared(column[row]);
  norm = sqrt(combine_block(norm, [](R a, R b) { return a + b; }));
  for (int64_t row = threadIdx.x; row < m; row += kBlock)
    column[row] = column[row] * T(R(1) / norm);
  __syncthreads();
}

// One matrix: its columns `a` and, with vectors, a square `turns` for V; then the results in
// descending order of the norms, which lie in shared memory.
template <class T>
struct Matrices {
  int64_t m, n, columns;
  T *a, *turns;
  part_t<T>* s;
  T *u, *v;
  int* info;
};
template <class T>
__device__ void store_sorted(const Matrices<T>& of, const part_t<T>* squares, int exponent,
                             int64_t matrix) {
  using R = part_t<T>;
  const int64_t m = of.m, n = of.n;
  const T *a = of.a + matrix * n * m, *turns = of.turns + matrix * n * n;
  T *u = of.u + matrix * of.columns * m, *v = of.v + matrix * n * n;
  int kept = 0;
  for (int64_t j = threadIdx.x / kWarp; j < n; j += kWarps) {
    int64_t rank = 0;
    for (int64_t i = 0; i < n; ++i)
      rank += squares[i] > squares[j] || (squares[i] == squares[j] && i < j);
    const bool lasts = squares[j] > least_square<R>();
    const R norm = sqrt(squares[j]);
    if (threadIdx.x % kWarp == 0) of.s[matrix * n + rank] = ldexp(norm, exponent);
    if (of.columns == 0) continue;
    kept += lasts && threadIdx.x % kWarp == 0;
    for (int64_t i = threadIdx.x % kWarp; lasts && i < m; i += kWarp)
      u[rank * m + i] = a[j * m + i] * T(R(1) / norm);
    for (int64_t i = threadIdx.x % kWarp; i < n; i += kWarp)
      v[rank * n + i] = conjugate(turns[j * n + i]);
  }
  if (of.columns == 0) return;
  kept = combine_block(kept, [](int x, int y) { return x + y; });
  for (int64_t c = kept; c < of.columns; ++c) complete_column(m, c, u);
}

template <class T>
__global__ void __launch_bounds__(kBlock) svd_kernel(int64_t count, Matrices<T> of) {
  using R = part_t<T>;
  __shared__ R squares[kColumns];
  const int64_t m = of.m, n = of.n;
  for (int64_t matrix = blockIdx.x; matrix < count; matrix += gridDim.x) {
    T* const a = of.a + matrix * n * m;
    T* const turns = of.columns > 0 ? of.turns + matrix * n * n : nullptr;
    const int exponent = exponent_of(n * m, a);
    for (int64_t i = threadIdx.x; i < n * m; i += kBlock) a[i] = scaled(a[i], -exponent);
    for (int64_t i = threadIdx.x; turns && i < n * n; i += kBlock)
      turns[i] = T(i / n == i % n ? R(1) : R(0));
    __syncthreads();
    if (!orthogonalize(m, n, a, turns) && threadIdx.x == 0) of.info[matrix] = 1;
    for (int64_t j = threadIdx.x / kWarp; j < n; j += kWarps) {
      R square = R(0);
      for (int64_t i = threadIdx.x % kWarp; i < m; i += kWarp)
        square = square + squared(a[j * m + i]);
      square = combine_lanes(square, kWarp, [](R x, R y) { return x + y; });
      if (threadIdx.x % kWarp == 0) squares[j] = square;
    }
    __syncthreads();
    store_sorted(of, squares, exponent, matrix);
    __syncthreads();
  }
}

}  // namespace

void svd(const Call& call, const Tensor& a, const Tensor& s, const Tensor& u, const Tensor& v,
         int* info) {
  const int64_t count = s.size(0), n = a.size(-2), m = a.size(-1);
  const int64_t columns = u.numel() > 0 ? u.size(-2) : 0;
  const Tensor turns = call.scratch(columns > 0 ? Dims{count, n, n} : Dims{0}, a.dtype());
  visit_lapack(a.dtype(), [&]<class T>() {
    const Matrices<T> of{m,
                         n,
                         columns,
                         a.elements<T>(),
                         turns.elements<T>(),
                         s.elements<part_t<T>>(),
                         u.elements<T>(),
                         v.elements<T>(),
                         info};
    MOONLET_LAUNCH((svd_kernel<T>), blocks_for(count * kBlock), kBlock, 0, call.stream(), count,
                   of);
  });
  call.done();
}

}  // namespace moonlet::cuda::jacobi

// cuda/kernels/linalg/decomposition_solve.cu: LU and Cholesky factorizations on the device, and
// what is solved with them; triangular matrices.
#include "cuda/kernels/common/faults.cuh"
#include "cuda/kernels/common/team.cuh"
#include "cuda/kernels/linalg/blas_solve.h"
#include "cuda/kernels/linalg/decomposition_kernels.cuh"
#include "tensor/kernels_decomposition.h"

namespace moonlet::cuda {

namespace {

// Zeros in the triangle that is not wanted, of matrices by rows.
template <class T>
__global__ void clear_kernel(int64_t total, int64_t n, bool upper, T* a) {
  for (MOONLET_EACH(e, total)) {
    const int64_t col = e % n, row = e / n % n;
    if (upper ? col < row : col > row) a[e] = T(0);
  }
}

template <class T>
__global__ void identity_kernel(int64_t total, int64_t n, T* a) {
  for (MOONLET_EACH(e, total)) a[e] = e % n == e / n % n ? T(1) : T(0);
}

// NaN in place of what was solved with a singular matrix.
template <class T>
__global__ void undefine_kernel(int64_t total, int64_t each, const int* info, T* x) {
  for (MOONLET_EACH(e, total))
    if (info[e / each] > 0) x[e] = T(std::numeric_limits<part_t<T>>::quiet_NaN());
}

// Where rows come to lie by swaps, a matrix for each thread.
__global__ void swap_kernel(int64_t count, int64_t n, int64_t swaps, const int* pivots,
                            Reporter reporter, int64_t* rows) {
  for (MOONLET_EACH(l, count)) {
    int64_t* row = rows + l * n;
    for (int64_t i = 0; i < n; ++i) row[i] = i;
    for (int64_t i = 0; i < swaps; ++i) {
      const int64_t other = pivots[l * swaps + i];
      if (other < 1 || other > n) {
        report(reporter, other, n);
        continue;
      }
      const int64_t kept = row[i];
      row[i] = row[other - 1];
      row[other - 1] = kept;
    }
  }
}
__global__ void permutation_kernel(int64_t total, int64_t n, const int64_t* rows, float* y) {
  for (MOONLET_EACH(e, total)) {
    const int64_t col = e % n, row = e / n % n;
    y[e] = rows[e / n / n * n + col] == row ? 1.0f : 0.0f;
  }
}

__device__ inline float magnitude(float x) { return fabsf(x); }
__device__ inline double magnitude(double x) { return fabs(x); }
template <class T>
__device__ T magnitude(Complex<T> x) {
  return vabs(x).re;
}

// A determinant, as one number and as its sign and the logarithm of its size.
template <class T>
struct Determinant {
  T value, sign;
  part_t<T> log;
};

// From LU by columns; a warp for each matrix. Null for what is not wanted.
template <class T>
__global__ void determinant_kernel(int64_t count, int64_t n, const T* lu, const int* pivots,
                                   T* value, T* sign, part_t<T>* log) {
  using R = part_t<T>;
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const int64_t step = int64_t{gridDim.x} * (kBlock / kWarp);
  for (int64_t l = (int64_t{blockIdx.x} * kBlock + threadIdx.x) / kWarp; l < count; l += step) {
    Determinant<T> out{T(1), T(1), R(0)};
    for (int64_t i = lane; i < n; i += kWarp) {
      const T u = lu[(l * n + i) * n + i];
      const R size = magnitude(u), turn = pivots[l * n + i] == i + 1 ? R(1) : R(-1);
      out.value = out.value * u * T(turn);
      out.sign = out.sign * (size == R(0) ? T(0) : u / T(size)) * T(turn);
      out.log += ::log(size);
    }
    out = combine_lanes(out, kWarp, [](const Determinant<T>& a, const Determinant<T>& b) {
      return Determinant<T>{a.value * b.value, a.sign * b.sign, a.log + b.log};
    });
    if (lane != 0) continue;
    if (value != nullptr) value[l] = out.value;
    if (sign != nullptr) sign[l] = out.sign;
    if (log != nullptr) log[l] = out.log;
  }
}

// P L U of matrices, with the pivots as each library wants them.
struct Factors {
  DeviceColumns lu;
  Tensor pivots;  // int32
  Tensor wide;    // int64, where cuSOLVER made them
  Tensor info;
};

// cuBLAS takes batches of small square matrices, cuSOLVER the others one by one.
Factors factorize(const Call& call, Solver& solver, const Tensor& A) {
  constexpr int64_t kSmall = 128;
  Factors out{DeviceColumns::of(call, A), {}, {}, new_info(call, A)};
  const int64_t m = A.size(-2), n = A.size(-1), k = std::min(m, n), count = out.lu.count();
  out.pivots = call.scratch({count, k}, DType::Int32);
  if (out.pivots.numel() == 0) return out;
  if (m == n && n <= kSmall && count > 1) {
    blas_getrf(call, out.lu.dtype(), n, count, out.lu.data(), out.pivots.elements<int>(),
               out.info.elements<int>());
    return out;
  }
  out.wide = call.scratch({count, k}, DType::Int64);
  solver.getrf(call, out.lu.dtype(), m, n, count, out.lu.data(), out.wide.elements<int64_t>(),
               out.info.elements<int>());
  copy(out.pivots, out.wide);
  return out;
}

// x becomes the solution, NaN for singular matrices.
void solve_with(const Call& call, Solver& solver, const Factors& f, const DeviceColumns& x) {
  const int64_t n = x.rows(), columns = x.cols(), total = x.held().numel();
  if (total == 0) return;
  if (f.wide.defined())
    solver.getrs(call, x.dtype(), n, columns, x.count(), f.lu.data(), f.wide.elements<int64_t>(),
                 x.data());
  else
    blas_getrs(call, x.dtype(), n, columns, x.count(), f.lu.data(), f.pivots.elements<int>(),
               x.data());
  visit_lapack(x.dtype(), [&]<class T>() {
    MOONLET_LAUNCH((undefine_kernel<T>), blocks_for(total), kBlock, 0, call.stream(), total,
                   n * columns, static_cast<const int*>(f.info.elements<int>()), x.elements<T>());
  });
  call.done();
}

// Of which the results are contiguous, in the dtype that is computed in, or not defined.
void determinants(const Call& call, Solver& solver, const Tensor& A, const Tensor& value,
                  const Tensor& sign, const Tensor& log) {
  const Factors f = factorize(call, solver, A);
  const int64_t count = f.lu.count();
  visit_lapack(f.lu.dtype(), [&]<class T>() {
    MOONLET_LAUNCH((determinant_kernel<T>), blocks_for(count * kWarp), kBlock, 0, call.stream(),
                   count, A.size(-1), static_cast<const T*>(f.lu.elements<T>()),
                   static_cast<const int*>(f.pivots.elements<int>()),
                   value.defined() ? value.elements<T>() : nullptr,
                   sign.defined() ? sign.elements<T>() : nullptr,
                   log.defined() ? log.elements<part_t<T>>() : nullptr);
  });
  call.done();
}

}  // namespace

void linalg_lu_factor_ex(const Tensor& A, bool pivot, bool check_errors, Tensor& LU, Tensor& pivots,
                         Tensor& info) {
  const Call call(A, "linalg.lu_factor_ex");
  Solver* const solver = solver_for(call);
  if (solver == nullptr) return host::linalg_lu_factor_ex(A, pivot, check_errors, LU, pivots, info);
  const Factors f = factorize(call, *solver, A);
  if (check_errors) read_info("linalg.lu_factor", A, f.info, singular);
  f.lu.store(LU);
  copy(pivots, views::view(f.pivots, pivots.sizes()));
  store_info(info, f.info);
}

void pivot_matrix(const Tensor& pivots, int64_t n, DType, Tensor& y) {
  const Call call(pivots, "pivot_matrix");
  visit<dtypes::floating | dtypes::complex>(y.dtype(), []<class T>() {});  // or it throws
  if (y.numel() == 0) return;
  const int64_t count = batch_count(y);
  const Tensor swaps = contiguous(pivots), rows = call.scratch({count, n}, DType::Int64);
  const char* const wrong =
      lasting(text("lu_unpack: a pivot that is no row; rows from 1 to ", n, " are expected"));
  MOONLET_LAUNCH(swap_kernel, blocks_for(count), kBlock, 0, call.stream(), count, n, swaps.size(-1),
                 static_cast<const int*>(swaps.elements<int>()),
                 reporter(call.device().index, wrong, Fault::Condition), rows.elements<int64_t>());
  const Tensor whole = call.scratch(y.sizes(), DType::Float32);
  MOONLET_LAUNCH(permutation_kernel, blocks_for(whole.numel()), kBlock, 0, call.stream(),
                 whole.numel(), n, static_cast<const int64_t*>(rows.elements<int64_t>()),
                 whole.elements<float>());
  call.done();
  copy(y, whole);
}

void det(const Tensor& A, Tensor& y) {
  const Call call(A, "det");
  Solver* const solver = solver_for(call);
  if (solver == nullptr) return host::det(A, y);
  if (y.numel() == 0) return;
  const Tensor value = call.scratch(y.sizes(), lapack_dtype(A));
  determinants(call, *solver, A, value, {}, {});
  copy(y, value);
}

void slogdet(const Tensor& A, Tensor& sign, Tensor& logabsdet) {
  const Call call(A, "slogdet");
  Solver* const solver = solver_for(call);
  if (solver == nullptr) return host::slogdet(A, sign, logabsdet);
  if (sign.numel() == 0) return;
  const Tensor phase = call.scratch(sign.sizes(), lapack_dtype(A)),
               log = call.scratch(sign.sizes(), real_of(lapack_dtype(A)));
  determinants(call, *solver, A, {}, phase, log);
  copy(sign, phase);
  copy(logabsdet, log);
}

void linalg_inv_ex(const Tensor& A, bool check_errors, Tensor& inverse, Tensor& info) {
  const Call call(A, "linalg.inv_ex");
  Solver* const solver = solver_for(call);
  if (solver == nullptr) return host::linalg_inv_ex(A, check_errors, inverse, info);
  const Factors f = factorize(call, *solver, A);
  if (check_errors) read_info("inverse", A, f.info, singular);
  const DeviceColumns x(call, A, A.size(-2), A.size(-1));
  const int64_t total = x.held().numel();
  if (total > 0) {
    visit_lapack(x.dtype(), [&]<class T>() {
      MOONLET_LAUNCH((identity_kernel<T>), blocks_for(total), kBlock, 0, call.stream(), total,
                     x.rows(), x.elements<T>());
    });
    call.done();
    solve_with(call, *solver, f, x);
    x.store(inverse);
  }
  store_info(info, f.info);
}

void native_solve(const Tensor& A, const Tensor& B, bool check_errors, Tensor& X, Tensor& info) {
  const Call call(A, "linalg.solve");
  Solver* const solver = solver_for(call);
  if (solver == nullptr) return host::native_solve(A, B, check_errors, X, info);
  const Factors f = factorize(call, *solver, A);
  if (check_errors) read_info("linalg.solve", A, f.info, singular);
  const DeviceColumns x = DeviceColumns::of(call, B);
  solve_with(call, *solver, f, x);
  if (X.numel() > 0) x.store(X);
  store_info(info, f.info);
}

// Read column by column, matrices that lie by rows are transposed: of X^T A^T = B^T all is there.
void native_solve_triangular(const Tensor& A, const Tensor& B, bool upper, bool unitriangular,
                             Tensor& y) {
  const Call call(A, "linalg.solve_triangular");
  if (y.numel() == 0) return;
  const Tensor a = converted(A, lapack_dtype(A)), x = rows_copy(call, B);
  blas_trsm(call, a.dtype(), !upper, unitriangular, B.size(-1), A.size(-1), batch_count(A), a.raw(),
            x.raw());
  copy(y, x);
}

// As above, the factor of the transposed matrix is the transposed factor, complex ones too.
void linalg_cholesky_ex(const Tensor& A, bool upper, bool check_errors, Tensor& L, Tensor& info) {
  const Call call(A, "linalg.cholesky_ex");
  Solver* const solver = solver_for(call);
  if (solver == nullptr) return host::linalg_cholesky_ex(A, upper, check_errors, L, info);
  const Tensor a = rows_copy(call, A), words = new_info(call, A);
  const int64_t n = A.size(-1), total = a.numel();
  if (total > 0)
    solver->potrf(call, a.dtype(), !upper, n, batch_count(A), a.raw(), words.elements<int>());
  if (check_errors) read_info("cholesky", A, words, not_positive);
  if (total > 0) {
    visit_lapack(a.dtype(), [&]<class T>() {
      MOONLET_LAUNCH((clear_kernel<T>), blocks_for(total), kBlock, 0, call.stream(), total, n,
                     upper, a.elements<T>());
    });
    call.done();
    copy(L, a);
  }
  store_info(info, words);
}

}  // namespace moonlet::cuda

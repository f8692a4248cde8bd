// cuda/kernels/linalg/decomposition_spectral.cu: QR, singular values and eigenvalues of Hermitian
// matrices on the device, and what is computed from them: the pseudoinverse, the root of a matrix.
#include "cuda/kernels/gemm.h"
#include "cuda/kernels/linalg/decomposition_kernels.cuh"
#include "cuda/kernels/linalg/jacobi.h"
#include "tensor/kernels_decomposition.h"

namespace moonlet::cuda {

namespace {

__device__ inline bool is_finite(float x) { return isfinite(x); }
__device__ inline bool is_finite(double x) { return isfinite(x); }
template <class T>
__device__ bool is_finite(Complex<T> x) {
  return isfinite(x.re) && isfinite(x.im);
}

// Zeros for what is infinite or NaN, with which iterations would not end well; tells of it.
template <class T>
__global__ void clean_kernel(int64_t total, T* a, int* found) {
  for (MOONLET_EACH(e, total)) {
    if (is_finite(a[e])) continue;
    a[e] = T(0);
    *found = 1;  // whoever writes last
  }
}

// The upper triangle of the first `kept` rows of matrices by columns.
template <class T>
__global__ void upper_kernel(int64_t total, int64_t rows, int64_t cols, int64_t kept, const T* a,
                             T* r) {
  for (MOONLET_EACH(e, total)) {
    const int64_t row = e % kept, column = e / kept;  // of all matrices' columns
    r[e] = row <= column % cols ? a[column * rows + row] : T(0);
  }
}

// Factors by which columns are multiplied: the inverses of singular values above a tolerance.
template <class R>
struct InverseAbove {
  double atol, rtol;
  const R* s;
  int64_t k;
  __device__ R operator()(int64_t l, int64_t c) const {
    const R* values = s + l * k;
    const double least = fmax(atol, rtol * static_cast<double>(values[0]));
    return static_cast<double>(values[c]) > least ? R(1) / values[c] : R(0);
  }
};
// The roots of eigenvalues; of those that rounding made negative, 0.
template <class R>
struct Root {
  const R* values;
  int64_t n;
  __device__ R operator()(int64_t l, int64_t c) const {
    const R value = values[l * n + c];
    return value > R(0) ? sqrt(value) : R(0);
  }
};

// x (..., rows, cols) by rows, its columns multiplied.
template <class T, class Factor>
__global__ void scale_columns_kernel(int64_t total, int64_t rows, int64_t cols, bool conjugated,
                                     Factor factor, const T* x, T* y) {
  for (MOONLET_EACH(e, total)) {
    const T v = conjugated ? conjugate(x[e]) : x[e];
    y[e] = v * T(factor(e / cols / rows, e % cols));
  }
}
template <class T>
__global__ void conjugate_kernel(int64_t total, const T* x, T* y) {
  for (MOONLET_EACH(e, total)) y[e] = conjugate(x[e]);
}

// What the host reads when an iteration has ended: a word on each matrix, and whether one was not
// finite.
class Words {
 public:
  Words(const Call& call, const Tensor& A)
      : call_(call), A_(A), held_(call.scratch({batch_count(A) + 1}, DType::Int32)) {
    fill(held_, 0);
  }
  int* info() { return held_.elements<int>(); }
  void clean(const Tensor& a) {
    visit_lapack(a.dtype(), [&]<class T>() {
      MOONLET_LAUNCH((clean_kernel<T>), blocks_for(a.numel()), kBlock, 0, call_.stream(), a.numel(),
                     a.elements<T>(), info() + batch_count(A_));
    });
    call_.done();
  }
  void read() {
    Tensor read = empty_plain(held_.sizes(), {DType::Int32, {}}, call_.op());
    transfer(read, held_);
    const int* words = read.elements<int>();
    check(words[batch_count(A_)] == 0, call_.op(), ": the matrix holds infinities or NaN");
    check_info(call_.op(), A_, words, not_converged);
  }

 private:
  const Call& call_;
  const Tensor& A_;
  Tensor held_;
};

// The product of a (count, n, k) and of b (count, m, k) transposed, into a tensor of `sizes`.
Tensor product(const Call& call, const Tensor& a, const Tensor& b, const Dims& sizes) {
  Tensor out = call.scratch(sizes, a.dtype());
  const int64_t count = batch_count(out), n = out.size(-2), m = out.size(-1), k = a.size(-1);
  const auto matrix = [](const Tensor& t, int64_t rows, int64_t cols) {
    return Matrix{t.raw(), rows, cols, cols, 1, rows * cols};
  };
  gemm(call, a.dtype(), count, 1, matrix(a, n, k), transposed(matrix(b, m, k)), 0,
       matrix(out, n, m));
  return out;
}

// The singular values of all matrices at once: m >= n, `a` lies by columns. U, of at least
// `columns`, and V come as vectors by rows, those of V conjugated. False where it cannot be.
struct Batched {
  Tensor u, v;
};
bool batched_values(const Call& call, Solver* solver, const Tensor& a, int64_t m, int64_t n,
                    int64_t columns, const Tensor& s, Words& words, Batched& out) {
  const int64_t count = batch_count(a);
  const bool vectors = columns > 0;
  if (solver == nullptr || !Solver::rotates(m, n, count)) {
    if (!jacobi::takes(m, n, columns, count)) return false;
    out.u = call.scratch(vectors ? Dims{count, columns, m} : Dims{0}, a.dtype());
    out.v = call.scratch(vectors ? Dims{count, n, n} : Dims{0}, a.dtype());
    jacobi::svd(call, views::view(a, {count, n, m}), views::view(s, {count, n}), out.u, out.v,
                words.info());
    words.read();
    return true;
  }
  out.u = call.scratch({count, m, m}, a.dtype());
  out.v = call.scratch({count, n, n}, a.dtype());
  solver->gesvdj(call, a.dtype(), vectors, m, n, count, a.raw(), s.raw(), out.u.raw(), out.v.raw(),
                 words.info());
  words.read();
  if (!is_complex(a.dtype()) || !vectors) return true;
  visit_lapack(a.dtype(), [&]<class T>() {
    MOONLET_LAUNCH((conjugate_kernel<T>), blocks_for(out.v.numel()), kBlock, 0, call.stream(),
                   out.v.numel(), static_cast<const T*>(out.v.elements<T>()), out.v.elements<T>());
  });
  call.done();
  return true;
}

// How many vectors are wanted of the longer sides of A's matrices.
int64_t columns_of(const Tensor& A, char job) {
  if (job == 'N') return 0;
  return job == 'S' ? std::min(A.size(-2), A.size(-1)) : std::max(A.size(-2), A.size(-1));
}

// Whether the device computes the singular values of A's matrices.
bool on_device(const Tensor& A, char job, const Solver* solver) {
  if (A.numel() == 0) return false;
  const int64_t m = std::max(A.size(-2), A.size(-1)), n = std::min(A.size(-2), A.size(-1));
  return solver != nullptr || jacobi::takes(m, n, columns_of(A, job), batch_count(A));
}

// The first of the matrices' vectors, which lie by rows, as rows of y or, `by_columns`, its
// columns.
void store_vectors(const Tensor& vectors, bool by_columns, Tensor& y) {
  const int dim = y.dim();
  Dims sizes = y.sizes();
  sizes[dim - 2] = vectors.size(1);
  sizes[dim - 1] = vectors.size(2);
  const Tensor all = views::view(vectors, sizes);
  const Tensor first = views::slice(all, dim - 2, 0, y.size(by_columns ? -1 : -2), 1);
  copy(y, by_columns ? views::transpose(first, dim - 2, dim - 1) : first);
}

// Of matrices with at least one row and column.
void singular_values(const Call& call, Solver* solver, const Tensor& A, char job, Tensor& U,
                     const Tensor& s, Tensor& Vh) {
  const int64_t m = A.size(-2), n = A.size(-1);
  Words words(call, A);
  const bool vectors = job != 'N';
  const int64_t columns = columns_of(A, job);
  Batched batched;
  if (m >= n) {
    const DeviceColumns a = DeviceColumns::of(call, A);
    words.clean(a.held());
    if (batched_values(call, solver, a.held(), m, n, columns, s, words, batched)) {
      if (!vectors) return;
      store_vectors(batched.u, true, U);
      return store_vectors(batched.v, false, Vh);
    }
    const DeviceColumns u(call, A, m, vectors ? U.size(-1) : 0), vh(call, A, vectors ? n : 0, n);
    solver->gesvd(call, a.dtype(), job, m, n, a.count(), a.data(), s.raw(), u.data(), vh.data(),
                  words.info());
    words.read();
    if (!vectors) return;
    u.store(U);
    return vh.store(Vh);
  }
  // The transposed matrix has the same values, and what lies by columns is, by rows, transposed:
  // its two results are Vh and U.
  const Tensor a = rows_copy(call, A);
  words.clean(a);
  if (batched_values(call, solver, a, n, m, columns, s, words, batched)) {
    if (!vectors) return;
    store_vectors(batched.u, false, Vh);
    return store_vectors(batched.v, true, U);
  }
  const Tensor u = call.scratch(vectors ? U.sizes() : Dims{0}, a.dtype()),
               vh = call.scratch(vectors ? Vh.sizes() : Dims{0}, a.dtype());
  solver->gesvd(call, a.dtype(), job, n, m, batch_count(A), a.raw(), s.raw(), vh.raw(), u.raw(),
                words.info());
  words.read();
  if (!vectors) return;
  copy(U, u);
  copy(Vh, vh);
}

}  // namespace

void linalg_qr(const Tensor& A, std::string_view mode, Tensor& Q, Tensor& R) {
  const Call call(A, "linalg.qr");
  Solver* const solver = solver_for(call);
  const int64_t m = A.size(-2), n = A.size(-1), k = std::min(m, n);
  if (solver == nullptr || A.numel() == 0) return host::linalg_qr(A, mode, Q, R);
  const DeviceColumns a = DeviceColumns::of(call, A);
  const Tensor tau = call.scratch({a.count(), k}, a.dtype());
  solver->geqrf(call, a.dtype(), m, n, a.count(), a.data(), tau.raw());
  const DeviceColumns r(call, A, R.size(-2), n);
  const int64_t total = r.held().numel();
  visit_lapack(a.dtype(), [&]<class T>() {
    MOONLET_LAUNCH((upper_kernel<T>), blocks_for(total), kBlock, 0, call.stream(), total, m, n,
                   r.rows(), static_cast<const T*>(a.elements<T>()), r.elements<T>());
  });
  call.done();
  if (mode != "r") {
    const DeviceColumns q(call, A, m, Q.size(-1));
    const int dim = A.dim() - 2;
    const int64_t kept = std::min(n, q.cols());
    Tensor first = views::slice(q.held(), dim, 0, kept, 1);
    copy(first, views::slice(a.held(), dim, 0, kept, 1));
    // What lies behind is not read, but numbers for all that.
    if (kept < q.cols()) {
      Tensor rest = views::slice(q.held(), dim, kept, q.cols(), 1);
      fill(rest, 0);
    }
    solver->orgqr(call, q.dtype(), m, q.cols(), k, q.count(), q.data(), tau.raw());
    q.store(Q);
  }
  r.store(R);
}

void geqrf(const Tensor& A, Tensor& a, Tensor& tau) {
  const Call call(A, "geqrf");
  Solver* const solver = solver_for(call);
  if (solver == nullptr || A.numel() == 0) return host::geqrf(A, a, tau);
  const DeviceColumns work = DeviceColumns::of(call, A);
  const Tensor factors = call.scratch(tau.sizes(), work.dtype());
  solver->geqrf(call, work.dtype(), work.rows(), work.cols(), work.count(), work.data(),
                factors.raw());
  work.store(a);
  copy(tau, factors);
}

void native_svd(const Tensor& A, bool full_matrices, bool vectors, Tensor& U, Tensor& S,
                Tensor& Vh) {
  const Call call(A, "linalg.svd");
  Solver* const solver = solver_for(call);
  const char job = !vectors ? 'N' : full_matrices ? 'A' : 'S';
  if (!on_device(A, job, solver)) return host::native_svd(A, full_matrices, vectors, U, S, Vh);
  const Tensor s = call.scratch(S.sizes(), real_of(lapack_dtype(A)));
  singular_values(call, solver, A, job, U, s, Vh);
  copy(S, s);
}

void native_eigh(const Tensor& A, std::string_view UPLO, bool vectors, Tensor& eigenvalues,
                 Tensor& eigenvectors) {
  const Call call(A, "linalg.eigh");
  Solver* const solver = solver_for(call);
  if (solver == nullptr || A.numel() == 0)
    return host::native_eigh(A, UPLO, vectors, eigenvalues, eigenvectors);
  const DeviceColumns a = DeviceColumns::of(call, A);
  const Tensor values = call.scratch(eigenvalues.sizes(), real_of(a.dtype()));
  Words words(call, A);
  words.clean(a.held());
  solver->syevd(call, a.dtype(), vectors, UPLO == "U" || UPLO == "u", a.rows(), a.count(), a.data(),
                values.raw(), words.info());
  words.read();
  copy(eigenvalues, values);
  if (vectors) a.store(eigenvectors);
}

// conj(Vh)^T times conj(U)^T, whose rows are multiplied by the inverse values.
void native_pinv(const Tensor& A, double atol, double rtol, Tensor& y) {
  const Call call(A, "linalg.pinv");
  Solver* const solver = solver_for(call);
  if (!on_device(A, 'S', solver)) return host::native_pinv(A, atol, rtol, y);
  const int64_t m = A.size(-2), n = A.size(-1), k = std::min(m, n);
  const DType dtype = lapack_dtype(A);
  Dims u_sizes = A.sizes(), vh_sizes = A.sizes(), s_sizes = A.sizes();
  u_sizes.back() = k;
  vh_sizes[A.dim() - 2] = k;
  s_sizes.erase(A.dim() - 1);
  s_sizes.back() = k;
  Tensor u = call.scratch(u_sizes, dtype), vh = call.scratch(vh_sizes, dtype);
  const Tensor s = call.scratch(s_sizes, real_of(dtype));
  singular_values(call, solver, A, 'S', u, s, vh);
  Tensor turned = call.scratch({batch_count(A), n, k}, dtype);
  copy(turned, views::view(views::transpose(vh, A.dim() - 2, A.dim() - 1), turned.sizes()));
  visit_lapack(dtype, [&]<class T>() {
    using R = part_t<T>;
    MOONLET_LAUNCH((scale_columns_kernel<T, InverseAbove<R>>), blocks_for(u.numel()), kBlock, 0,
                   call.stream(), u.numel(), m, k, true,
                   InverseAbove<R>{atol, rtol, s.elements<R>(), k},
                   static_cast<const T*>(u.elements<T>()), u.elements<T>());
    MOONLET_LAUNCH((conjugate_kernel<T>), blocks_for(turned.numel()), kBlock, 0, call.stream(),
                   turned.numel(), static_cast<const T*>(turned.elements<T>()),
                   turned.elements<T>());
  });
  call.done();
  copy(y, product(call, turned, u, y.sizes()));
}

// V diag(sqrt(values)) V^H.
void linalg_matrix_sqrth(const Tensor& A, Tensor& y) {
  const Call call(A, "linalg.matrix_sqrth");
  Solver* const solver = solver_for(call);
  if (solver == nullptr || A.numel() == 0) return host::linalg_matrix_sqrth(A, y);
  const DeviceColumns a = DeviceColumns::of(call, A);
  const int64_t n = a.rows();
  const Tensor values = call.scratch({a.count(), n}, real_of(a.dtype()));
  Words words(call, A);
  words.clean(a.held());
  solver->syevd(call, a.dtype(), true, false, n, a.count(), a.data(), values.raw(), words.info());
  words.read();
  const Tensor vectors = call.scratch(A.sizes(), a.dtype()),
               scaled = call.scratch(A.sizes(), a.dtype());
  Tensor by_rows = vectors;
  a.store(by_rows);
  visit_lapack(a.dtype(), [&]<class T>() {
    using R = part_t<T>;
    MOONLET_LAUNCH((scale_columns_kernel<T, Root<R>>), blocks_for(A.numel()), kBlock, 0,
                   call.stream(), A.numel(), n, n, false, Root<R>{values.elements<R>(), n},
                   static_cast<const T*>(vectors.elements<T>()), scaled.elements<T>());
    MOONLET_LAUNCH((conjugate_kernel<T>), blocks_for(A.numel()), kBlock, 0, call.stream(),
                   A.numel(), static_cast<const T*>(vectors.elements<T>()), vectors.elements<T>());
  });
  call.done();
  copy(y, product(call, scaled, vectors, y.sizes()));
}

}  // namespace moonlet::cuda

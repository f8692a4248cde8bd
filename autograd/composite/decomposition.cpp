// autograd/composite/decomposition.cpp: determinants, solvers and factorizations as scripts call
// them, made of the ops that call LAPACK: batches broadcast, vectors are taken as columns.
#include <algorithm>

#include "autograd/formulas.h"
#include "autograd/formulas/common.h"
#include "autograd/forward_mode.h"
#include "autograd/host_value.h"
#include "autograd/tape.h"
#include "autograd/uses_composite_decomposition.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet {

using formulas::conjugate;
using formulas::widened;

namespace {

Tensor transposed(const Tensor& x) { return transpose(x, x.dim() - 2, x.dim() - 1); }

Dims batch_of(const Tensor& x) { return Dims(x.sizes().data(), x.dim() - 2); }

Dims with(Dims batch, std::initializer_list<int64_t> sizes) {
  for (int64_t v : sizes) batch.push_back(v);
  return batch;
}

void check_matrices(const char* op, const char* argument, const Tensor& x) {
  check(x.dim() >= 2, op, ": ", argument, " has shape ", x.sizes(),
        ", matrices (..., m, n) are expected");
}

void check_square(const char* op, const Tensor& A) {
  check_matrices(op, "A", A);
  check(A.size(-1) == A.size(-2), op, ": A has shape ", A.sizes(),
        ", square matrices (..., n, n) are expected");
}

void check_same_dtype(const char* op, const Tensor& A, const Tensor& B) {
  check(A.dtype() == B.dtype(), op, ": dtypes differ: ", A.dtype(), " and ", B.dtype());
}

// Both with the batch dimensions that they broadcast to.
std::pair<Tensor, Tensor> same_batch(const char* op, const Tensor& A, const Tensor& B) {
  check_matrices(op, "A", A);
  check_matrices(op, "B", B);
  check_same_dtype(op, A, B);
  const Dims batch = broadcast(batch_of(A), batch_of(B), op);
  const auto stretched = [&](const Tensor& x) {
    return batch_of(x) == batch ? x : expand(x, with(batch, {x.size(-2), x.size(-1)}));
  };
  return {stretched(A), stretched(B)};
}

// Whether B holds one vector of `rows` elements for each matrix of A.
bool holds_vectors(const Tensor& A, const Tensor& B, int64_t rows) {
  return B.dim() == 1 || (B.dim() == A.dim() - 1 && B.sizes() == with(batch_of(A), {rows}));
}

// What singular values count as 0 by default: epsilon times the larger size.
double default_rtol(const Tensor& A, bool given_atol) {
  return given_atol ? 0 : epsilon(A.dtype()) * double(std::max(A.size(-1), A.size(-2)));
}

// The Hermitian matrix of A's lower triangle.
Tensor hermitian_of(const Tensor& A) {
  const Tensor below = tril(A, -1);
  return add(tril(A), adjoint(below));
}

}  // namespace

// LU.

std::tuple<Tensor, Tensor> linalg_lu_factor_composite(const Tensor& A, bool pivot) {
  const auto [LU, pivots, info] = linalg_lu_factor_ex(A, pivot, true);
  return {LU, pivots};
}

std::tuple<Tensor, Tensor, Tensor> linalg_lu_composite(const Tensor& A, bool pivot) {
  const auto [LU, pivots, info] = linalg_lu_factor_ex(A, pivot, false);
  return lu_unpack(LU, pivots);
}

std::tuple<Tensor, Tensor, Tensor> lu_unpack_composite(const Tensor& LU, const Tensor& pivots,
                                                       bool unpack_data, bool unpack_pivots) {
  check_matrices("lu_unpack", "LU", LU);
  const int64_t m = LU.size(-2), n = LU.size(-1), k = std::min(m, n);
  check(pivots.sizes() == with(batch_of(LU), {k}), "lu_unpack: pivots have shape ", pivots.sizes(),
        ", ", with(batch_of(LU), {k}), " is expected");
  const Tensor none = empty({0}, options_of(LU));
  Tensor P = none, L = none, U = none;
  if (unpack_pivots) P = pivot_matrix(pivots, m, LU.dtype());
  if (unpack_data) {
    L = add(tril(narrow(LU, -1, 0, k), -1), eye(m, k, options_of(LU)));
    U = triu(narrow(LU, -2, 0, k));
  }
  return {P, L, U};
}

namespace {

// The solution of A X = B, or of A^H X = B, with A = P L U.
Tensor lu_solve_left(const Tensor& LU, const Tensor& P, const Tensor& B, bool adjoint_of) {
  if (!adjoint_of) {
    const Tensor inner = linalg_solve_triangular(LU, matmul(transposed(P), B), false, true, true);
    return linalg_solve_triangular(LU, inner, true, true, false);
  }
  const Tensor LUh = adjoint(LU);
  const Tensor inner = linalg_solve_triangular(LUh, B, false, true, false);
  return matmul(P, linalg_solve_triangular(LUh, inner, true, true, true));
}

}  // namespace

Tensor linalg_lu_solve_composite(const Tensor& LU, const Tensor& pivots, const Tensor& B, bool left,
                                 bool adjoint_of) {
  check_square("linalg.lu_solve", LU);
  check_matrices("linalg.lu_solve", "B", B);
  check_same_dtype("linalg.lu_solve", LU, B);
  check(pivots.sizes() == with(batch_of(LU), {LU.size(-1)}), "linalg.lu_solve: pivots have shape ",
        pivots.sizes(), ", ", with(batch_of(LU), {LU.size(-1)}), " is expected");
  const Tensor P = pivot_matrix(pivots, LU.size(-1), LU.dtype());
  if (left) return lu_solve_left(LU, P, B, adjoint_of);
  // X A = B is A^H X^H = B^H.
  return adjoint(lu_solve_left(LU, P, adjoint(B), !adjoint_of));
}

Tensor logdet_composite(const Tensor& A) {
  const auto [sign, logabsdet] = slogdet(A);
  return add(log(sign), logabsdet);
}

// Solving.

Tensor inverse_composite(const Tensor& A) { return std::get<0>(linalg_inv_ex(A, true)); }

std::tuple<Tensor, Tensor> linalg_solve_ex_composite(const Tensor& A, const Tensor& B, bool left,
                                                     bool check_errors) {
  check_square("linalg.solve", A);
  const bool vectors = holds_vectors(A, B, A.size(-1));
  check(left || !vectors, "linalg.solve: B of shape ", B.sizes(),
        " holds vectors, for which left = true is expected");
  Tensor columns = vectors ? unsqueeze(B, B.dim()) : left ? B : transposed(B);
  const auto [a, b] = same_batch("linalg.solve", left ? A : transposed(A), columns);
  const auto [X, info] = native_solve(a, b, check_errors);
  if (vectors) return {squeeze(X, Dims{X.dim() - 1}), info};
  return {left ? X : transposed(X), info};
}

Tensor linalg_solve_composite(const Tensor& A, const Tensor& B, bool left) {
  return std::get<0>(linalg_solve_ex(A, B, left, true));
}

Tensor linalg_solve_triangular_composite(const Tensor& A, const Tensor& B, bool upper, bool left,
                                         bool unitriangular) {
  check_square("linalg.solve_triangular", A);
  check_matrices("linalg.solve_triangular", "B", B);
  const auto [a, b] =
      same_batch("linalg.solve_triangular", left ? A : transposed(A), left ? B : transposed(B));
  const Tensor X = native_solve_triangular(a, b, left == upper, unitriangular);
  return left ? X : transposed(X);
}

Tensor linalg_pinv_composite(const Tensor& A, std::optional<double> atol,
                             std::optional<double> rtol, bool hermitian) {
  check_matrices("linalg.pinv", "A", A);
  if (hermitian) check_square("linalg.pinv", A);
  return native_pinv(hermitian ? hermitian_of(A) : A, atol.value_or(0),
                     rtol.value_or(default_rtol(A, atol.has_value())));
}

namespace {

struct Tolerances {
  Tensor atol, rtol;  // of the batch's shape
};

// Both tolerances for each matrix of a batch, with the defaults of `linalg.pinv`.
Tolerances tolerances_of(const char* op, const Tensor& A, const Tensor& atol, const Tensor& rtol) {
  const Options options{real_of(A.dtype()), A.device()};
  const auto given = [&](const Tensor& t, double otherwise) {
    if (!t.defined()) return full(batch_of(A), otherwise, options);
    check(!is_complex(t.dtype()), op, ": a tolerance has dtype ", t.dtype(),
          ", a real one expected");
    return expand(to(t, options.dtype), batch_of(A));
  };
  return {given(atol, 0), given(rtol, default_rtol(A, atol.defined()))};
}

}  // namespace

// Singular values up to the greater tolerance count as 0.
Tensor native_pinv_by_composite(const Tensor& A, const Tensor& atol, const Tensor& rtol) {
  const NoGrad no_grad;
  const auto [U, S, Vh] = linalg_svd(A, false);
  if (S.size(-1) == 0) return zeros(with(batch_of(A), {A.size(-1), A.size(-2)}), options_of(A));
  const Tensor least = maximum(atol, mul(rtol, amax(S, {S.dim() - 1})));
  const Tensor counts = gt(S, unsqueeze(least, -1));
  const Tensor inverse = where(counts, reciprocal(where(counts, S, 1.0)), 0.0);
  return matmul(mul(adjoint(Vh), unsqueeze(inverse, -2)), adjoint(U));
}

Tensor linalg_pinv_by_composite(const Tensor& A, const Tensor& given_atol, const Tensor& given_rtol,
                                bool hermitian) {
  check_matrices("linalg.pinv", "A", A);
  if (hermitian) check_square("linalg.pinv", A);
  if (!given_atol.defined() && !given_rtol.defined()) return linalg_pinv(A, {}, {}, hermitian);
  const auto [atol, rtol] = tolerances_of("linalg.pinv", A, given_atol, given_rtol);
  return native_pinv_by(hermitian ? hermitian_of(A) : A, atol, rtol);
}

Tensor pinverse_composite(const Tensor& A, double rcond) { return linalg_pinv(A, {}, rcond); }

namespace {

// The sums of squares of A X - B, where the driver and the ranks give them.
Tensor residuals_of(const Tensor& A, const Tensor& B, const Tensor& X, const Tensor& rank,
                    std::string_view driver) {
  const int64_t m = A.size(-2), n = A.size(-1);
  const Tensor none = empty({0}, {real_of(A.dtype()), A.device()});
  if (m <= n || driver == "gelsy") return none;
  if (driver != "gels" && !host_value<bool>(all(eq(all_samples(rank), n)))) return none;
  return sum(square(abs(sub(matmul(A, X), B))), Dims{A.dim() - 2});
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor, Tensor> linalg_lstsq_composite(const Tensor& A, const Tensor& B,
                                                                  std::optional<double> rcond,
                                                                  std::string_view driver) {
  check_matrices("linalg.lstsq", "A", A);
  const bool vectors = holds_vectors(A, B, A.size(-2));
  const auto [a, b] = same_batch("linalg.lstsq", A, vectors ? unsqueeze(B, B.dim()) : B);
  const auto [X, rank, values] = native_lstsq(a, b, rcond.value_or(default_rtol(A, false)), driver);
  const Tensor residuals = residuals_of(a, b, X, rank, driver);
  return {vectors ? squeeze(X, Dims{X.dim() - 1}) : X, residuals, rank, values};
}

// Cholesky and LDL.

Tensor cholesky_composite(const Tensor& A, bool upper) {
  return std::get<0>(linalg_cholesky_ex(A, upper, true));
}

Tensor cholesky_solve_composite(const Tensor& B, const Tensor& L, bool upper) {
  const Tensor inner = linalg_solve_triangular(upper ? adjoint(L) : L, B, false, true, false);
  return linalg_solve_triangular(upper ? L : adjoint(L), inner, true, true, false);
}

Tensor cholesky_inverse_composite(const Tensor& L, bool upper) {
  check_square("cholesky_inverse", L);
  return cholesky_solve(eye(L.size(-1), {}, options_of(L)), L, upper);
}

std::tuple<Tensor, Tensor> linalg_ldl_factor_composite(const Tensor& A, bool hermitian) {
  const auto [LD, pivots, info] = linalg_ldl_factor_ex(A, hermitian, true);
  return {LD, pivots};
}

// QR.

std::tuple<Tensor, Tensor> qr_composite(const Tensor& A, bool some) {
  return linalg_qr(A, some ? "reduced" : "complete");
}

namespace {

void check_reflections(const char* op, const Tensor& A, const Tensor& tau) {
  check_matrices(op, "A", A);
  check_same_dtype(op, A, tau);
  const int64_t most = std::min(A.size(-1), A.size(-2));
  check(A.size(-2) >= A.size(-1), op, ": A has shape ", A.sizes(),
        ", at least as many rows as columns are expected");
  check(tau.dim() == A.dim() - 1 && Dims(tau.sizes().data(), tau.dim() - 1) == batch_of(A) &&
            tau.size(-1) <= most,
        op, ": tau has shape ", tau.sizes(), ", ", with(batch_of(A), {most}),
        " or fewer is expected");
}

// The reflections that are multiplied at once: more take more multiplications, fewer more calls.
constexpr int64_t kReflections = 64;

// Q x, or with `adjoint_of` Q^H x, for the product Q of the reflections I - tau v v^H, whose v are
// 1 on the diagonal of V and the columns of A below it: Q = I - V (I + D U)^-1 D V^H with tau on
// the diagonal of D and U = V^H V above its diagonal (Schreiber and Van Loan, "A storage-efficient
// WY representation for products of Householder transformations", 1989).
Tensor reflected(const Tensor& A, const Tensor& tau, const Tensor& x, bool adjoint_of) {
  const Tensor V = add(tril(A, -1), eye(A.size(-2), A.size(-1), options_of(A)));
  const Tensor scale = unsqueeze(tau, -1), U = triu(matmul(adjoint(V), V), 1);
  const Tensor factor = mul(scale, U), along = matmul(adjoint(V), x);
  // Of the triangular factors the diagonal counts as ones.
  const Tensor inner = adjoint_of
                           ? mul(conjugate(scale),
                                 linalg_solve_triangular(adjoint(factor), along, false, true, true))
                           : linalg_solve_triangular(factor, mul(scale, along), true, true, true);
  return sub(x, matmul(V, inner));
}

// The same for the reflections from `first` on, as many as are multiplied at once; x has the rows
// from there on, which are all that they change.
Tensor some_reflected(const Tensor& A, const Tensor& tau, int64_t first, const Tensor& x,
                      bool adjoint_of) {
  const int64_t count = std::min(kReflections, tau.size(-1) - first);
  const Tensor rows = narrow(A, -2, first, A.size(-2) - first);
  return reflected(narrow(rows, -1, first, count), narrow(tau, -1, first, count), x, adjoint_of);
}

// The start of the last group of reflections.
int64_t last_group(const Tensor& tau) {
  return std::max<int64_t>(0, tau.size(-1) - 1) / kReflections * kReflections;
}

// The identity (rows, cols), for each matrix of a batch.
Tensor identities(const Tensor& A, int64_t rows, int64_t cols) {
  return expand(eye(rows, cols, options_of(A)), with(batch_of(A), {rows, cols}));
}

// The first columns of Q.
Tensor first_columns(const Tensor& A, const Tensor& tau) {
  const int64_t m = A.size(-2), n = A.size(-1);
  int64_t first = last_group(tau);
  Tensor out = identities(A, m - first, n - first);
  if (tau.size(-1) == 0) return clone(out);
  out = some_reflected(A, tau, first, out, false);
  while (first > 0) {
    // The columns before these begin as those of the identity.
    first -= kReflections;
    const Tensor below = constant_pad(out, {0, 0, kReflections, 0});
    out = cat({identities(A, m - first, kReflections), below}, -1);
    out = some_reflected(A, tau, first, out, false);
  }
  return out;
}

// Q x, or with `adjoint_of` Q^H x.
Tensor all_reflected(const Tensor& A, const Tensor& tau, const Tensor& x, bool adjoint_of) {
  if (tau.size(-1) == 0) return clone(x);
  Tensor out = x;
  const int64_t last = last_group(tau);
  for (int64_t done = 0; done <= last; done += kReflections) {
    const int64_t first = adjoint_of ? done : last - done;
    const Tensor changed =
        some_reflected(A, tau, first, narrow(out, -2, first, out.size(-2) - first), adjoint_of);
    out = first == 0 ? changed : cat({narrow(out, -2, 0, first), changed}, -2);
  }
  return out;
}

}  // namespace

Tensor orgqr_composite(const Tensor& A, const Tensor& tau) {
  check_reflections("orgqr", A, tau);
  if (is_reduced_floating(A.dtype())) return to(orgqr(widened(A), widened(tau)), A.dtype());
  return first_columns(A, tau);
}

Tensor ormqr_composite(const Tensor& A, const Tensor& tau, const Tensor& other, bool left,
                       bool transpose_it) {
  check_reflections("ormqr", A, tau);
  check_matrices("ormqr", "other", other);
  check_same_dtype("ormqr", A, other);
  if (is_reduced_floating(A.dtype()))
    return to(ormqr(widened(A), widened(tau), widened(other), left, transpose_it), A.dtype());
  check(other.size(left ? -2 : -1) == A.size(-2), "ormqr: other has shape ", other.sizes(),
        ", size ", A.size(-2), " is expected in its ", left ? "rows" : "columns");
  // other Q is the conjugate transpose of Q^H other^H.
  if (!left) return adjoint(all_reflected(A, tau, adjoint(other), !transpose_it));
  return all_reflected(A, tau, other, transpose_it);
}

// Singular values and eigenvalues.

namespace {
void refuse_driver(const char* op, std::string_view driver) {
  check(driver.empty(), op, ": driver \"", driver,
        "\" is one of cuSOLVER's, which is not used; leave it out");
}
}  // namespace

std::tuple<Tensor, Tensor, Tensor> linalg_svd_composite(const Tensor& A, bool full_matrices,
                                                        std::string_view driver) {
  refuse_driver("linalg.svd", driver);
  return native_svd(A, full_matrices, true);
}

// Values alone cost less than with their vectors, which their gradient wants.
Tensor linalg_svdvals_composite(const Tensor& A, std::string_view driver) {
  refuse_driver("linalg.svdvals", driver);
  return std::get<1>(native_svd(A, false, is_differentiated(A)));
}

std::tuple<Tensor, Tensor, Tensor> svd_composite(const Tensor& A, bool some, bool compute_uv) {
  if (compute_uv) {
    const auto [U, S, Vh] = native_svd(A, !some, true);
    return {U, S, adjoint(Vh)};
  }
  const Tensor S = linalg_svdvals(A);
  const int64_t m = A.size(-2), n = A.size(-1);
  return {zeros(with(batch_of(A), {m, m}), options_of(A)), S,
          zeros(with(batch_of(A), {n, n}), options_of(A))};
}

std::tuple<Tensor, Tensor> linalg_polar_composite(const Tensor& A) {
  check_matrices("linalg.polar", "A", A);
  check(A.size(-2) >= A.size(-1), "linalg.polar: A has shape ", A.sizes(),
        ", at least as many rows as columns are expected");
  const auto [U, S, Vh] = linalg_svd(A, false);
  return {matmul(U, Vh), matmul(adjoint(Vh), mul(unsqueeze(S, -1), Vh))};
}

namespace {

// Orthonormal columns that span about the range of A's q largest singular vectors.
Tensor range_basis(const Tensor& A, int64_t q, int64_t niter, Generator* generator) {
  const Tensor start =
      to(randn({A.size(-1), q}, generator, {real_of(A.dtype()), A.device()}), A.dtype());
  Tensor Q = std::get<0>(linalg_qr(matmul(A, start)));
  for (int64_t i = 0; i < niter; ++i) {
    stop_if_requested();
    Q = std::get<0>(linalg_qr(matmul(adjoint(A), Q)));
    Q = std::get<0>(linalg_qr(matmul(A, Q)));
  }
  return Q;
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> svd_lowrank_composite(const Tensor& A, int64_t q, int64_t niter,
                                                         const Tensor& M, Generator* generator) {
  check_matrices("svd_lowrank", "A", A);
  check(q >= 0 && q <= std::min(A.size(-1), A.size(-2)), "svd_lowrank: q is ", q,
        ", a number up to the smaller size of ", A.sizes(), " is expected");
  check(niter >= 0 && niter <= 1000, "svd_lowrank: niter is ", niter,
        ", a number from 0 to 1000 is expected");
  const Tensor whole = M.defined() ? sub(A, expand(M, A.sizes())) : A;
  const bool wide = A.size(-2) < A.size(-1);
  const Tensor tall = wide ? adjoint(whole) : whole;
  const Tensor Q = range_basis(tall, q, niter, generator);
  const auto [inner, S, Vh] = linalg_svd(matmul(adjoint(Q), tall), false);
  const Tensor U = matmul(Q, inner), V = adjoint(Vh);
  return wide ? std::tuple(V, S, U) : std::tuple(U, S, V);
}

std::tuple<Tensor, Tensor, Tensor> pca_lowrank_composite(const Tensor& A, std::optional<int64_t> q,
                                                         bool center, int64_t niter,
                                                         Generator* generator) {
  check_matrices("pca_lowrank", "A", A);
  const int64_t count = q.value_or(std::min<int64_t>(6, std::min(A.size(-1), A.size(-2))));
  return svd_lowrank(center ? sub(A, mean(A, {-2}, true)) : A, count, niter, {}, generator);
}

std::tuple<Tensor, Tensor> linalg_eigh_composite(const Tensor& A, std::string_view UPLO) {
  return native_eigh(A, UPLO, true);
}

Tensor linalg_eigvalsh_composite(const Tensor& A, std::string_view UPLO) {
  return std::get<0>(native_eigh(A, UPLO, is_differentiated(A)));
}

std::tuple<Tensor, Tensor> linalg_eig_composite(const Tensor& A) { return native_eig(A, true); }

Tensor linalg_eigvals_composite(const Tensor& A) {
  return std::get<0>(native_eig(A, is_differentiated(A)));
}

namespace {
// How many magnitudes of singular values or eigenvalues are above both tolerances, (batch, 1).
template <class Tolerance>
Tensor count_above(const Tensor& A, bool hermitian, const Tolerance& atol, const Tolerance& rtol) {
  const Tensor values = hermitian ? abs(linalg_eigvalsh(A)) : linalg_svdvals(A);
  if (A.numel() == 0) return zeros(batch_of(A), {DType::Int64, A.device()});
  return sum(gt(values, maximum(mul(amax(values, {-1}, true), rtol), atol)), {-1});
}
}  // namespace

Tensor linalg_matrix_rank_composite(const Tensor& A, std::optional<double> atol,
                                    std::optional<double> rtol, bool hermitian) {
  check_matrices("linalg.matrix_rank", "A", A);
  return count_above<double>(A, hermitian, atol.value_or(0),
                             rtol.value_or(default_rtol(A, atol.has_value())));
}

Tensor linalg_matrix_rank_by_composite(const Tensor& A, const Tensor& given_atol,
                                       const Tensor& given_rtol, bool hermitian) {
  check_matrices("linalg.matrix_rank", "A", A);
  const auto [atol, rtol] = tolerances_of("linalg.matrix_rank", A, given_atol, given_rtol);
  return count_above(A, hermitian, unsqueeze(atol, -1), unsqueeze(rtol, -1));
}

// Inverses by tensordot.

Tensor linalg_tensorinv_composite(const Tensor& A, int64_t ind) {
  check(ind > 0 && ind <= A.dim(), "linalg.tensorinv: ind ", ind, " for a tensor of shape ",
        A.sizes());
  const int first = static_cast<int>(ind);
  Dims head(A.sizes().data(), first), tail(A.sizes().data() + first, A.dim() - first);
  int64_t rows = 1, cols = 1;
  for (int64_t v : head) rows *= v;
  for (int64_t v : tail) cols *= v;
  check(rows == cols, "linalg.tensorinv: the sizes ", head, " and ", tail,
        " have different products");
  for (int64_t v : head) tail.push_back(v);
  return reshape(inverse(reshape(A, {rows, cols})), tail);
}

Tensor linalg_tensorsolve_composite(const Tensor& A, const Tensor& B,
                                    const std::vector<int64_t>& dims) {
  Tensor a = A;
  if (!dims.empty()) {
    Dims from, last;
    for (int64_t d : dims) {
      check(d != 0, "linalg.tensorsolve: dim 0: dims count from 1, or from -1 at the end");
      from.push_back(d > 0 ? d - 1 : d);
    }
    for (int i = 0; i < from.size(); ++i) last.push_back(A.dim() - from.size() + i);
    a = movedim(A, from, last);
  }
  check(B.dim() <= a.dim(), "linalg.tensorsolve: A of shape ", A.sizes(), " and B of shape ",
        B.sizes());
  const Dims sizes(a.sizes().data() + B.dim(), a.dim() - B.dim());
  int64_t cols = 1;
  for (int64_t v : sizes) cols *= v;
  check(cols == B.numel() && a.numel() == cols * cols, "linalg.tensorsolve: A of shape ", A.sizes(),
        " is no square matrix from ", sizes, " to B's ", B.sizes());
  return reshape(linalg_solve(reshape(a, {cols, cols}), reshape(B, {cols})), sizes);
}

Tensor linalg_vander_composite(const Tensor& x, std::optional<int64_t> N) {
  check(x.dim() >= 1, "linalg.vander: x has shape (), at least one dimension is expected");
  const int64_t count = N.value_or(x.size(-1));
  check(count > 0 || (!N && count == 0), "linalg.vander: N is ", count, ", at least 1 is expected");
  const DType dtype = is_integral(x.dtype()) ? DType::Int64 : x.dtype();
  const Tensor base = unsqueeze(to(x, dtype), -1);
  if (count == 0) return ones(with(x.sizes(), {0}), {dtype, x.device()});
  empty(with(x.sizes(), {count}), {dtype, x.device()});  // fails at once where there is no room
  // The first powers times x to their number are as many more.
  Tensor powers = ones(with(x.sizes(), {1}), {dtype, x.device()}), next = base;
  for (int64_t have = 1; have < count; have *= 2) {
    if (have > 1) next = square(next);
    const Tensor first = narrow(powers, -1, 0, std::min(have, count - have));
    powers = cat({powers, mul(first, next)}, -1);
  }
  return powers;
}

}  // namespace moonlet

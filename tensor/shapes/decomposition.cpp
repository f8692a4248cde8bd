// tensor/shapes/decomposition.cpp: argument checks and result shapes of factorizations and solvers.
#include <algorithm>
#include <limits>

#include "tensor/shapes_decomposition.h"

namespace moonlet::shapes {

namespace {

// LAPACK counts with 32 bits, also the elements of its workspaces: some squares of these sizes.
constexpr int64_t kMaxSide = 16384;
constexpr int64_t kMaxLength = int64_t{1} << 24;

void check_matrices(const char* op, const Tensor& A) {
  check(A.dim() >= 2, op, ": A has shape ", A.sizes(), ", matrices (..., m, n) are expected");
  const int64_t rows = A.size(-2), cols = A.size(-1);
  check(std::min(rows, cols) <= kMaxSide && std::max(rows, cols) <= kMaxLength, op,
        ": matrices of ", rows, " x ", cols,
        " are too large for LAPACK; the smaller size is at most ", kMaxSide);
}

void check_square(const char* op, const Tensor& A) {
  check_matrices(op, A);
  check(A.size(-1) == A.size(-2), op, ": A has shape ", A.sizes(),
        ", square matrices (..., n, n) are expected");
}

Dims batch_of(const Tensor& A) { return Dims(A.sizes().data(), A.dim() - 2); }

Dims with(Dims batch, std::initializer_list<int64_t> sizes) {
  for (int64_t v : sizes) batch.push_back(v);
  return batch;
}

int64_t smaller(const Tensor& A) { return std::min(A.size(-1), A.size(-2)); }
DType complex_dtype(const Tensor& A) {
  return is_complex(A.dtype()) ? A.dtype() : complex_of(A.dtype());
}
Result status(const Tensor& A) { return {batch_of(A), {DType::Int32, A.device()}}; }
Result nothing(const Tensor& A) { return {{0}, options_of(A)}; }

// B (..., n, k) with A's batch.
void check_right_sides(const char* op, const Tensor& A, const Tensor& B, int64_t rows) {
  check(B.dim() == A.dim() && batch_of(A) == batch_of(B) && B.size(-2) == rows, op,
        ": B has shape ", B.sizes(), ", ", with(batch_of(A), {rows}),
        " and a number of columns are expected");
  check(B.size(-1) <= kMaxLength, op, ": B has ", B.size(-1), " columns, at most ", kMaxLength,
        " are possible");
}

}  // namespace

std::array<Result, 3> linalg_lu_factor_ex(const Tensor& A, bool pivot, bool) {
  check_matrices("linalg.lu_factor_ex", A);
  check(pivot, "linalg.lu_factor_ex: pivot = false: LU without pivoting is not implemented");
  return {like(A), {with(batch_of(A), {smaller(A)}), {DType::Int32, A.device()}}, status(A)};
}

Result pivot_matrix(const Tensor& pivots, int64_t n, DType dtype) {
  check(pivots.dtype() == DType::Int32, "lu_unpack: pivots have dtype ", pivots.dtype(),
        ", int32 is expected");
  check(pivots.dim() >= 1 && pivots.size(-1) <= n, "lu_unpack: pivots have shape ", pivots.sizes(),
        ", at most ", n, " for each matrix are expected");
  Dims sizes = pivots.sizes();
  sizes.back() = n;
  return {with(sizes, {n}), {dtype, pivots.device()}};
}

Result det(const Tensor& A) {
  check_square("det", A);
  return {batch_of(A), options_of(A)};
}

Result det_grad_A(const Tensor& grad, const Tensor& A) {
  check_square("det_grad_A", A);
  check_shape("det_grad_A", "grad", grad.sizes(), batch_of(A));
  return like(A);
}

std::array<Result, 2> slogdet(const Tensor& A) {
  check_square("slogdet", A);
  return {{{batch_of(A), options_of(A)}, {batch_of(A), {real_of(A.dtype()), A.device()}}}};
}

std::array<Result, 2> linalg_inv_ex(const Tensor& A, bool) {
  check_square("linalg.inv_ex", A);
  return {like(A), status(A)};
}

std::array<Result, 2> native_solve(const Tensor& A, const Tensor& B, bool) {
  check_square("linalg.solve", A);
  check_right_sides("linalg.solve", A, B, A.size(-1));
  return {like(B), status(A)};
}

Result native_solve_triangular(const Tensor& A, const Tensor& B, bool, bool) {
  check_square("linalg.solve_triangular", A);
  check_right_sides("linalg.solve_triangular", A, B, A.size(-1));
  return like(B);
}

Result native_pinv(const Tensor& A, double atol, double rtol) {
  check_matrices("linalg.pinv", A);
  check(atol >= 0 && rtol >= 0, "linalg.pinv: atol ", atol, " and rtol ", rtol,
        ", numbers from 0 on are expected");
  return {with(batch_of(A), {A.size(-1), A.size(-2)}), options_of(A)};
}

std::array<Result, 3> native_lstsq(const Tensor& A, const Tensor& B, double,
                                   std::string_view driver) {
  check_matrices("linalg.lstsq", A);
  check_right_sides("linalg.lstsq", A, B, A.size(-2));
  const bool values = driver == "gelsd" || driver == "gelss";
  check(values || driver == "gelsy" || driver == "gels", "linalg.lstsq: driver \"", driver,
        "\"; gels, gelsy, gelsd or gelss is expected");
  const Options real{real_of(A.dtype()), A.device()};
  return {{{with(batch_of(A), {A.size(-1), B.size(-1)}), options_of(A)},
           {driver == "gels" ? Dims{0} : batch_of(A), {DType::Int64, A.device()}},
           {values ? with(batch_of(A), {smaller(A)}) : Dims{0}, real}}};
}

std::array<Result, 2> linalg_cholesky_ex(const Tensor& A, bool, bool) {
  check_square("linalg.cholesky_ex", A);
  return {like(A), status(A)};
}

std::array<Result, 3> linalg_ldl_factor_ex(const Tensor& A, bool, bool) {
  check_square("linalg.ldl_factor_ex", A);
  return {like(A), {with(batch_of(A), {A.size(-1)}), {DType::Int32, A.device()}}, status(A)};
}

Result linalg_ldl_solve(const Tensor& LD, const Tensor& pivots, const Tensor& B, bool) {
  check_square("linalg.ldl_solve", LD);
  check_right_sides("linalg.ldl_solve", LD, B, LD.size(-1));
  check(B.dtype() == LD.dtype(), "linalg.ldl_solve: B has dtype ", B.dtype(), ", that of LD, ",
        LD.dtype(), ", is expected");
  check(pivots.dtype() == DType::Int32, "linalg.ldl_solve: pivots have dtype ", pivots.dtype(),
        ", int32 is expected");
  check_shape("linalg.ldl_solve", "pivots", pivots.sizes(), with(batch_of(LD), {LD.size(-1)}));
  return like(B);
}

std::array<Result, 2> linalg_qr(const Tensor& A, std::string_view mode) {
  check_matrices("linalg.qr", A);
  check(mode == "reduced" || mode == "complete" || mode == "r", "linalg.qr: mode \"", mode,
        "\"; reduced, complete or r is expected");
  const int64_t rows = A.size(-2), k = mode == "complete" ? rows : smaller(A);
  check(k <= kMaxSide, "linalg.qr: a complete Q of ", rows, " x ", rows,
        " is too large for LAPACK");
  const Result R{with(batch_of(A), {k, A.size(-1)}), options_of(A)};
  if (mode == "r") return {nothing(A), R};
  return {{{with(batch_of(A), {rows, k}), options_of(A)}, R}};
}

std::array<Result, 2> geqrf(const Tensor& A) {
  check_matrices("geqrf", A);
  return {like(A), {with(batch_of(A), {smaller(A)}), options_of(A)}};
}

std::array<Result, 3> native_svd(const Tensor& A, bool full_matrices, bool vectors) {
  check_matrices("linalg.svd", A);
  const int64_t m = A.size(-2), n = A.size(-1), k = smaller(A);
  check(!vectors || !full_matrices || std::max(m, n) <= kMaxSide, "linalg.svd: full matrices of ",
        std::max(m, n), " x ", std::max(m, n), " are too large for LAPACK");
  const Result S{with(batch_of(A), {k}), {real_of(A.dtype()), A.device()}};
  if (!vectors) return {nothing(A), S, nothing(A)};
  return {{{with(batch_of(A), {m, full_matrices ? m : k}), options_of(A)},
           S,
           {with(batch_of(A), {full_matrices ? n : k, n}), options_of(A)}}};
}

std::array<Result, 2> native_eigh(const Tensor& A, std::string_view UPLO, bool vectors) {
  check_square("linalg.eigh", A);
  check(UPLO == "L" || UPLO == "U" || UPLO == "l" || UPLO == "u", "linalg.eigh: UPLO \"", UPLO,
        "\"; L or U is expected");
  return {{{with(batch_of(A), {A.size(-1)}), {real_of(A.dtype()), A.device()}},
           vectors ? like(A) : nothing(A)}};
}

std::array<Result, 2> native_eig(const Tensor& A, bool vectors) {
  check_square("linalg.eig", A);
  const Options options{complex_dtype(A), A.device()};
  return {{{with(batch_of(A), {A.size(-1)}), options}, {vectors ? A.sizes() : Dims{0}, options}}};
}

Result linalg_matrix_sqrth(const Tensor& A) {
  check_square("linalg.matrix_sqrth", A);
  return like(A);
}

Result matrix_exp(const Tensor& A) {
  check_square("matrix_exp", A);
  return like(A);
}

}  // namespace moonlet::shapes

// autograd/formulas/decomposition.cpp: the derivatives of factorizations and solvers. H is the
// conjugate transpose.
#include "autograd/formulas.h"

#include "autograd/formulas/common.h"
#include "autograd/host_value.h"
#include "autograd/uses_formulas_decomposition.h"

namespace moonlet::formulas {

namespace {

Tensor identity(int64_t n, const Tensor& like) { return eye(n, {}, {like.dtype(), like.device()}); }

// The matrix times the diagonal matrix of `values` from the right, and from the left.
Tensor scale_columns(const Tensor& x, const Tensor& values) {
  return mul(x, unsqueeze(values, -2));
}
Tensor scale_rows(const Tensor& values, const Tensor& x) { return mul(unsqueeze(values, -1), x); }

// The matrices with `values` on their diagonals.
Tensor diagonal_matrix(const Tensor& values) {
  return mul(unsqueeze(values, -1), identity(values.size(-1), values));
}

Tensor diagonal_of(const Tensor& x) { return diagonal(x, 0, -2, -1); }

// The matrices with their diagonals times `on` and the rest times `beside`.
Tensor weighted(const Tensor& x, double on, double beside) {
  const Tensor I = identity(x.size(-1), x);
  return mul(x, add(mul(I, on - beside), beside));
}

// 1 / (values[j] - values[i]) at (i, j), with 0 on the diagonal.
Tensor inverse_differences(const Tensor& values) {
  const Tensor I = identity(values.size(-1), values);
  const Tensor gaps = add(sub(unsqueeze(values, -2), unsqueeze(values, -1)), I);
  return mul(reciprocal(gaps), sub(ones_like(I), I));
}

// Whether there is a gradient of a result; vectors that were not asked for have no elements.
bool is_given(const Tensor& g) { return g.defined() && g.numel() > 0; }

Tensor skew(const Tensor& x) { return sub(x, adjoint(x)); }

Tensor solve_upper(const Tensor& U, const Tensor& B, bool left) {
  return linalg_solve_triangular(U, B, true, left, false);
}

}  // namespace

// With L1, U1 the square parts of the two factors. Of more columns than rows, U = (U1 U2):
//   gA2 = P L^-H gU2,  gA1 = P L^-H [tril(L^H gL - gU2 U2^H, -1) + triu(gU1 U1^H)] U1^-H
// of more rows than columns, L = (L1; L2):
//   P^T gA2 = gL2 U^-H,  P^T gA1 = L1^-H [tril(L1^H gL1, -1) + triu(gU U^H - L2^H gL2)] U^-H
Tensor lu_factor_grad_A(const Tensor& g, const Tensor& LU, const Tensor& pivots) {
  const int64_t m = LU.size(-2), n = LU.size(-1), k = std::min(m, n);
  const Tensor square = narrow(narrow(LU, -2, 0, k), -1, 0, k);
  const Tensor g_square = narrow(narrow(g, -2, 0, k), -1, 0, k);
  const Tensor L1 = add(tril(square, -1), identity(k, LU)), U1 = triu(square);
  Tensor below = matmul(adjoint(L1), tril(g_square, -1));
  Tensor above = matmul(triu(g_square), adjoint(U1));
  if (n > m) {
    const Tensor U2 = narrow(LU, -1, k, n - k), g_U2 = narrow(g, -1, k, n - k);
    below = sub(below, matmul(g_U2, adjoint(U2)));
  }
  if (m > n) {
    const Tensor L2 = narrow(LU, -2, k, m - k), g_L2 = narrow(g, -2, k, m - k);
    above = sub(above, matmul(adjoint(L2), g_L2));
  }
  const Tensor inner = solve_upper(adjoint(L1), add(tril(below, -1), triu(above)), true);
  Tensor out = linalg_solve_triangular(adjoint(U1), inner, false, false, false);
  if (n > m) out = cat({out, solve_upper(adjoint(L1), narrow(g, -1, k, n - k), true)}, -1);
  if (m > n) {
    const Tensor rest =
        linalg_solve_triangular(adjoint(U1), narrow(g, -2, k, m - k), false, false, false);
    out = cat({out, rest}, -2);
  }
  return matmul(pivot_matrix(pivots, m, LU.dtype()), out);
}

Tensor det_grad_A_grad_grad(const Tensor& g, const Tensor& A) {
  Dims batch(A.sizes().data(), A.dim() - 2);
  const Tensor cofactors = det_grad_A(ones(batch, options_of(A)), A);
  return sum(mul(g, conjugate(cofactors)), {-2, -1});
}

namespace {

// Of A = U diag(S) V^H the second derivative of the determinant of diag(S) is that of a product:
// with p_ij the product of the values but i and j, and B = U^H W V, W is taken to the matrix that
// has sum_j p_ij B_jj on its diagonal and -p_ij B_ji beside it. No factor has to be other than 0.
Tensor det_second_derivative(const Tensor& W, const Tensor& A) {
  const auto [U, S, Vh] = native_svd(A, false, true);
  const Tensor I = identity(S.size(-1), S), beside = sub(ones_like(I), I);
  const Tensor others = where(eq(I, 1.0), 1.0, unsqueeze(S, -2));
  const Tensor p = mul(product_of_others(others, others.dim() - 1), beside);
  const Tensor B = matmul(adjoint(U), matmul(W, adjoint(Vh)));
  const Tensor on = matmul(to(p, B.dtype()), unsqueeze(diagonal_of(B), -1));
  const Tensor M = sub(mul(on, I), mul(p, transpose(B, -2, -1)));
  const Tensor phase = unsqueeze(unsqueeze(mul(det(U), det(Vh)), -1), -1);
  return mul(conjugate(phase), matmul(U, matmul(conjugate(M), Vh)));
}

}  // namespace

// y = c B with B = A^-H and c = grad conj(det A): (<g, y> - y g^H) B, where A has an inverse that
// is known to about half of the digits.
Tensor det_grad_A_grad_A(const Tensor& g, const Tensor& grad, const Tensor& A, const Tensor& y) {
  if (A.numel() == 0) return zeros_like(A);
  const Tensor B = adjoint(std::get<0>(linalg_inv_ex(A)));
  const double limit = size_of(real_of(A.dtype())) > 4 ? 1e7 : 1e3;
  const auto is_regular = [&] {
    return has_values(A) && A.device().is_cpu() &&
           host_value<bool>(all(lt(mul(norm(A, 2, {-2, -1}), norm(B, 2, {-2, -1})), limit)));
  };
  if (!is_regular())
    return det_second_derivative(mul(g, conjugate(unsqueeze(unsqueeze(grad, -1), -1))), A);
  const Tensor product = sum(mul(conjugate(g), y), {-2, -1});
  const Tensor whole = mul(unsqueeze(unsqueeze(product, -1), -1), B);
  return sub(whole, matmul(y, matmul(adjoint(g), B)));
}

Tensor slogdet_grad_A(const Tensor& g_sign, const Tensor& g_logabsdet, const Tensor& A,
                      const Tensor& sign) {
  const Tensor B = adjoint(std::get<0>(linalg_inv_ex(A)));
  Tensor factor = g_logabsdet;
  if (is_complex(A.dtype())) {
    // The phase turns with the imaginary part of tr(A^-1 dA).
    const Tensor turn = neg(imag(mul(conj(g_sign), sign)));
    factor = view_as_complex(stack({g_logabsdet, turn}, -1));
  }
  return mul(unsqueeze(unsqueeze(factor, -1), -1), B);
}

Tensor inv_grad_A(const Tensor& g, const Tensor& inverse) {
  const Tensor B = adjoint(inverse);
  return neg(matmul(B, matmul(g, B)));
}

std::tuple<Tensor, Tensor> native_solve_grads(const Tensor& g, const Tensor& A, const Tensor& X) {
  const Tensor g_B = std::get<0>(native_solve(adjoint(A), g, false));
  return {neg(matmul(g_B, adjoint(X))), g_B};
}

std::tuple<Tensor, Tensor> native_solve_triangular_grads(const Tensor& g, const Tensor& A,
                                                         const Tensor& X, bool upper,
                                                         bool unitriangular) {
  const Tensor g_B = native_solve_triangular(adjoint(A), g, !upper, unitriangular);
  const Tensor whole = neg(matmul(g_B, adjoint(X)));
  const int64_t offset = unitriangular ? 1 : 0;
  return {upper ? triu(whole, offset) : tril(whole, -offset), g_B};
}

Tensor pinv_grad_A(const Tensor& g, const Tensor& A, const Tensor& P) {
  const Tensor Ph = adjoint(P), gh = adjoint(g);
  const Tensor direct = neg(matmul(Ph, matmul(g, Ph)));
  const Tensor left = matmul(gh, matmul(P, Ph)), right = matmul(matmul(Ph, P), gh);
  const Tensor of_rows = sub(left, matmul(A, matmul(P, left)));
  const Tensor of_columns = sub(right, matmul(matmul(right, P), A));
  return add(direct, add(of_rows, of_columns));
}

// X = P B with the pseudoinverse P of A.
std::tuple<Tensor, Tensor> native_lstsq_grads(const Tensor& g, const Tensor& A, const Tensor& B,
                                              const Tensor&, double rcond) {
  const Tensor P = native_pinv(A, 0, rcond);
  return {pinv_grad_A(matmul(g, adjoint(B)), A, P), matmul(adjoint(P), g)};
}

// L^-H F L^-1 with the Hermitian F that has the lower triangle of L^H gL (Murray, "Differentiation
// of the Cholesky decomposition", 2016), halved, since A's two triangles share it.
Tensor cholesky_grad_A(const Tensor& g, const Tensor& given, bool upper) {
  const Tensor L = upper ? adjoint(given) : given, g_L = upper ? adjoint(g) : g;
  const Tensor Lh = adjoint(L), half = weighted(tril(matmul(Lh, g_L)), 0.25, 0.5);
  const Tensor F = add(half, adjoint(half));
  return linalg_solve_triangular(L, solve_upper(Lh, F, true), false, false, false);
}

namespace {

// Square or tall: gA = (gQ + Q F) R^-H, F = X + X^H with half its (real) diagonal, where X is the
// upper triangle of gR R^H - Q^H gQ.
Tensor tall_qr_grad(const Tensor& g_Q, const Tensor& g_R, const Tensor& Q, const Tensor& R) {
  Tensor inner;
  if (g_R.defined()) inner = matmul(g_R, adjoint(R));
  if (g_Q.defined()) {
    const Tensor product = matmul(adjoint(Q), g_Q);
    inner = inner.defined() ? sub(inner, product) : neg(product);
  }
  const Tensor half = weighted(triu(inner), 0.5, 1);
  const Tensor product = matmul(Q, add(half, adjoint(half)));
  const Tensor whole = g_Q.defined() ? add(g_Q, product) : product;
  return linalg_solve_triangular(adjoint(R), whole, false, false, false);
}

}  // namespace

// Of more columns than rows A = (X Y), R = (R1 Q^H Y): a square factorization of X, and Y gR2^H
// more in Q's gradient.
Tensor qr_grad_A(const Tensor& g_Q, const Tensor& g_R, const Tensor& Q, const Tensor& R,
                 std::string_view mode) {
  check(mode != "r", "linalg.qr: mode \"r\" has no gradient; use \"reduced\"");
  const int64_t m = Q.size(-2), n = R.size(-1);
  check(Q.size(-1) <= n,
        "linalg.qr: mode \"complete\" has no gradient with more rows than columns; ",
        "use \"reduced\"");
  if (m >= n) return tall_qr_grad(g_Q, g_R, Q, R);
  const Tensor R1 = narrow(R, -1, 0, m);
  if (!g_R.defined()) {
    const Tensor g_X = tall_qr_grad(g_Q, {}, Q, R1);
    return constant_pad(g_X, {0, n - m});
  }
  const Tensor Y = matmul(Q, narrow(R, -1, m, n - m)), g_R2 = narrow(g_R, -1, m, n - m);
  const Tensor through_Y = matmul(Y, adjoint(g_R2));
  const Tensor g_X =
      tall_qr_grad(g_Q.defined() ? add(g_Q, through_Y) : through_Y, narrow(g_R, -1, 0, m), Q, R1);
  return cat({g_X, matmul(Q, g_R2)}, -1);
}

namespace {

// The part of the gradient that lies in the space of the vectors: U times this times Vh.
Tensor svd_inner(const Tensor& g_U, const Tensor& g_S, const Tensor& g_V, const Tensor& U,
                 const Tensor& S, const Tensor& V) {
  const Tensor factors = inverse_differences(square(S));
  Tensor inner;
  const auto collect = [&](const Tensor& part) {
    inner = inner.defined() ? add(inner, part) : part;
  };
  if (g_S.defined()) collect(diagonal_matrix(g_S));
  if (g_U.defined()) {
    const Tensor product = skew(matmul(adjoint(U), g_U));
    collect(scale_columns(mul(product, factors), S));
    // The phases of a complex pair of vectors: what a gradient that does not depend on them shares
    // out between the two.
    if (is_complex(U.dtype())) collect(diagonal_matrix(div(diagonal_of(product), mul(S, 2))));
  }
  if (g_V.defined()) collect(scale_rows(S, mul(skew(matmul(adjoint(V), g_V)), factors)));
  return to(inner, U.dtype());
}

}  // namespace

Tensor svd_grad_A(const Tensor& g_U, const Tensor& g_S, const Tensor& g_Vh, const Tensor& A,
                  const Tensor& given_U, const Tensor& S, const Tensor& given_Vh) {
  if (!is_given(g_U) && !is_given(g_S) && !is_given(g_Vh)) return zeros_like(A);
  Tensor full_U = given_U, full_Vh = given_Vh;
  if (full_U.numel() == 0 && A.numel() > 0) {
    std::tie(full_U, std::ignore, full_Vh) = native_svd(A, false, true);
  }
  if (A.numel() == 0) return zeros_like(A);
  const int64_t k = S.size(-1);
  const Tensor U = narrow(full_U, -1, 0, k), V = adjoint(narrow(full_Vh, -2, 0, k));
  const Tensor g_first = is_given(g_U) ? narrow(g_U, -1, 0, k) : Tensor();
  const Tensor g_V = is_given(g_Vh) ? adjoint(narrow(g_Vh, -2, 0, k)) : Tensor();
  const Tensor Vh = adjoint(V);
  if (!g_first.defined() && !g_V.defined()) return matmul(scale_columns(U, g_S), Vh);
  Tensor out = matmul(U, matmul(svd_inner(g_first, g_S, g_V, U, S, V), Vh));
  if (g_first.defined() && A.size(-2) > k) {
    const Tensor part = scale_columns(g_first, reciprocal(S));
    out = add(out, matmul(sub(part, matmul(U, matmul(adjoint(U), part))), Vh));
  }
  if (g_V.defined() && A.size(-1) > k) {
    const Tensor part = scale_rows(reciprocal(S), adjoint(g_V));
    out = add(out, matmul(U, sub(part, matmul(matmul(part, V), Vh))));
  }
  return out;
}

// V (diag(gL) + (V^H gV) / E) V^H with E_ij = L_j - L_i beside the diagonal.
Tensor eigh_grad_A(const Tensor& g_values, const Tensor& g_vectors, const Tensor& A,
                   const Tensor& values, const Tensor& vectors, std::string_view UPLO) {
  if (!is_given(g_values) && !is_given(g_vectors)) return zeros_like(A);
  const Tensor V = vectors.numel() > 0 ? vectors : std::get<1>(native_eigh(A, UPLO, true));
  const Tensor Vh = adjoint(V);
  if (!is_given(g_vectors)) return matmul(scale_columns(V, g_values), Vh);
  Tensor inner = mul(matmul(Vh, g_vectors), inverse_differences(values));
  if (g_values.defined()) inner = add(inner, diagonal_matrix(g_values));
  return matmul(V, matmul(inner, Vh));
}

// V^-H (diag(gL) + (V^H gV - V^H V diag(Re(V^H gV))) / conj(E)) V^H: the vectors have norm 1.
Tensor eig_grad_A(const Tensor& g_values, const Tensor& g_vectors, const Tensor& A,
                  const Tensor& values, const Tensor& vectors) {
  if (!is_given(g_values) && !is_given(g_vectors)) return zeros_like(A);
  const Tensor V = vectors.numel() > 0 ? vectors : std::get<1>(native_eig(A, true));
  const Tensor Vh = adjoint(V);
  Tensor right;
  if (is_given(g_vectors)) {
    const Tensor product = matmul(Vh, g_vectors);
    const Tensor turned = matmul(Vh, scale_columns(V, real(diagonal_of(product))));
    Tensor inner = mul(sub(product, turned), conj(inverse_differences(values)));
    if (g_values.defined()) inner = add(inner, diagonal_matrix(g_values));
    right = matmul(inner, Vh);
  } else {
    right = scale_rows(g_values, Vh);
  }
  const Tensor out = linalg_solve(Vh, right);
  return is_complex(A.dtype()) ? out : real(out);
}

// What solves y gA + gA y = g: division by the sums of y's eigenvalues, in its eigenvectors.
Tensor matrix_sqrth_grad_A(const Tensor& g, const Tensor& y) {
  const auto [values, V] = linalg_eigh(y);
  const Tensor Vh = adjoint(V), sums = add(unsqueeze(values, -2), unsqueeze(values, -1));
  return matmul(V, matmul(div(matmul(Vh, matmul(g, V)), sums), Vh));
}

// The upper right part of exp((A^H g; 0 A^H)) (Najfeld and Havel, "Derivatives of the matrix
// exponential and their computation", 1995).
Tensor matrix_exp_grad_A(const Tensor& g, const Tensor& A) {
  const int64_t n = A.size(-1);
  if (A.numel() == 0) return zeros_like(A);
  const Tensor Ah = adjoint(A);
  const Tensor whole = cat({cat({Ah, g}, -1), cat({zeros_like(A), Ah}, -1)}, -2);
  return narrow(narrow(matrix_exp(whole), -2, 0, n), -1, n, n);
}

}  // namespace moonlet::formulas

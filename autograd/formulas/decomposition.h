// autograd/formulas/decomposition.h: the derivatives of factorizations and solvers. A name of a
// result, as L, is that result; g is its gradient.
#pragma once

#include <string_view>
#include <tuple>

#include "tensor/core/tensor.h"

namespace moonlet::formulas {

Tensor lu_factor_grad_A(const Tensor& g, const Tensor& LU, const Tensor& pivots);
Tensor det_grad_A_grad_grad(const Tensor& g, const Tensor& A);
// y = det_grad_A(grad, A).
Tensor det_grad_A_grad_A(const Tensor& g, const Tensor& grad, const Tensor& A, const Tensor& y);
Tensor slogdet_grad_A(const Tensor& g_sign, const Tensor& g_logabsdet, const Tensor& A,
                      const Tensor& sign);
Tensor inv_grad_A(const Tensor& g, const Tensor& inverse);
std::tuple<Tensor, Tensor> native_solve_grads(const Tensor& g, const Tensor& A, const Tensor& X);
std::tuple<Tensor, Tensor> native_solve_triangular_grads(const Tensor& g, const Tensor& A,
                                                         const Tensor& X, bool upper,
                                                         bool unitriangular);
// P is the pseudoinverse of A (Golub and Pereyra, 1973).
Tensor pinv_grad_A(const Tensor& g, const Tensor& A, const Tensor& P);
std::tuple<Tensor, Tensor> native_lstsq_grads(const Tensor& g, const Tensor& A, const Tensor& B,
                                              const Tensor& X, double rcond);
// L is upper triangular with `upper`.
Tensor cholesky_grad_A(const Tensor& g, const Tensor& L, bool upper);

// Gradients of the results that none came for are undefined here.
Tensor qr_grad_A(const Tensor& g_Q, const Tensor& g_R, const Tensor& Q, const Tensor& R,
                 std::string_view mode);
Tensor svd_grad_A(const Tensor& g_U, const Tensor& g_S, const Tensor& g_Vh, const Tensor& A,
                  const Tensor& U, const Tensor& S, const Tensor& Vh);
Tensor eigh_grad_A(const Tensor& g_values, const Tensor& g_vectors, const Tensor& A,
                   const Tensor& values, const Tensor& vectors, std::string_view UPLO);
Tensor eig_grad_A(const Tensor& g_values, const Tensor& g_vectors, const Tensor& A,
                  const Tensor& values, const Tensor& vectors);
// y is the square root.
Tensor matrix_sqrth_grad_A(const Tensor& g, const Tensor& y);
Tensor matrix_exp_grad_A(const Tensor& g, const Tensor& A);

}  // namespace moonlet::formulas

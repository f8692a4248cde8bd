// cuda/kernels/linalg/decomposition.cu: factorizations on the host, whose ops are called with
// copies of the arguments: those that no library of the device has, and all others where there is
// no cuSOLVER.
#include "cuda/kernels/linalg/decomposition.h"

#include "cuda/runtime/device.h"
#include "tensor/kernels_decomposition.h"
#include "tensor/raw_decomposition.h"

namespace moonlet::cuda {

namespace {

Tensor on_host(const Tensor& x) {
  Tensor out = empty_plain(x.sizes(), {x.dtype(), {}}, "linalg");
  if (x.numel() > 0) transfer(out, contiguous(x));
  return out;
}

void store(Tensor& y, const Tensor& host) {
  if (y.numel() == 0) return;
  with_contiguous(y, [&](Tensor& whole) { transfer(whole, host); });
}

// Each result over the tensor of its position.
template <class... Hosts, class... Results>
void store(const std::tuple<Hosts...>& hosts, Results&... results) {
  std::apply([&](const Hosts&... host) { (store(results, host), ...); }, hosts);
}

}  // namespace

namespace host {

void linalg_lu_factor_ex(const Tensor& A, bool pivot, bool check_errors, Tensor& LU, Tensor& pivots,
                         Tensor& info) {
  const Call call(A, "linalg.lu_factor_ex");
  store(raw::linalg_lu_factor_ex(on_host(A), pivot, check_errors), LU, pivots, info);
}

void det(const Tensor& A, Tensor& y) {
  const Call call(A, "det");
  store(y, raw::det(on_host(A)));
}

void slogdet(const Tensor& A, Tensor& sign, Tensor& logabsdet) {
  const Call call(A, "slogdet");
  store(raw::slogdet(on_host(A)), sign, logabsdet);
}

void linalg_inv_ex(const Tensor& A, bool check_errors, Tensor& inverse, Tensor& info) {
  const Call call(A, "linalg.inv_ex");
  store(raw::linalg_inv_ex(on_host(A), check_errors), inverse, info);
}

void native_solve(const Tensor& A, const Tensor& B, bool check_errors, Tensor& X, Tensor& info) {
  const Call call(A, "linalg.solve");
  store(raw::native_solve(on_host(A), on_host(B), check_errors), X, info);
}

void linalg_cholesky_ex(const Tensor& A, bool upper, bool check_errors, Tensor& L, Tensor& info) {
  const Call call(A, "linalg.cholesky_ex");
  store(raw::linalg_cholesky_ex(on_host(A), upper, check_errors), L, info);
}

void linalg_qr(const Tensor& A, std::string_view mode, Tensor& Q, Tensor& R) {
  const Call call(A, "linalg.qr");
  store(raw::linalg_qr(on_host(A), mode), Q, R);
}

void geqrf(const Tensor& A, Tensor& a, Tensor& tau) {
  const Call call(A, "geqrf");
  store(raw::geqrf(on_host(A)), a, tau);
}

void native_svd(const Tensor& A, bool full_matrices, bool vectors, Tensor& U, Tensor& S,
                Tensor& Vh) {
  const Call call(A, "linalg.svd");
  store(raw::native_svd(on_host(A), full_matrices, vectors), U, S, Vh);
}

void native_eigh(const Tensor& A, std::string_view UPLO, bool vectors, Tensor& eigenvalues,
                 Tensor& eigenvectors) {
  const Call call(A, "linalg.eigh");
  store(raw::native_eigh(on_host(A), UPLO, vectors), eigenvalues, eigenvectors);
}

void native_pinv(const Tensor& A, double atol, double rtol, Tensor& y) {
  const Call call(A, "linalg.pinv");
  store(y, raw::native_pinv(on_host(A), atol, rtol));
}

void linalg_matrix_sqrth(const Tensor& A, Tensor& y) {
  const Call call(A, "linalg.matrix_sqrth");
  store(y, raw::linalg_matrix_sqrth(on_host(A)));
}

}  // namespace host

void det_grad_A(const Tensor& grad, const Tensor& A, Tensor& y) {
  const Call call(grad, "det_grad_A");
  store(y, raw::det_grad_A(on_host(grad), on_host(A)));
}

void native_lstsq(const Tensor& A, const Tensor& B, double rcond, std::string_view driver,
                  Tensor& X, Tensor& rank, Tensor& singular_values) {
  const Call call(A, "linalg.lstsq");
  store(raw::native_lstsq(on_host(A), on_host(B), rcond, driver), X, rank, singular_values);
}

void linalg_ldl_factor_ex(const Tensor& A, bool hermitian, bool check_errors, Tensor& LD,
                          Tensor& pivots, Tensor& info) {
  const Call call(A, "linalg.ldl_factor_ex");
  store(raw::linalg_ldl_factor_ex(on_host(A), hermitian, check_errors), LD, pivots, info);
}

void linalg_ldl_solve(const Tensor& LD, const Tensor& pivots, const Tensor& B, bool hermitian,
                      Tensor& y) {
  const Call call(LD, "linalg.ldl_solve");
  store(y, raw::linalg_ldl_solve(on_host(LD), on_host(pivots), on_host(B), hermitian));
}

void native_eig(const Tensor& A, bool vectors, Tensor& eigenvalues, Tensor& eigenvectors) {
  const Call call(A, "linalg.eig");
  store(raw::native_eig(on_host(A), vectors), eigenvalues, eigenvectors);
}

void matrix_exp(const Tensor& A, Tensor& y) {
  const Call call(A, "matrix_exp");
  store(y, raw::matrix_exp(on_host(A)));
}

}  // namespace moonlet::cuda

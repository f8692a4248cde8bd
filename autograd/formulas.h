// autograd/formulas.h: the derivatives that are too long for one expression in an op's row, by
// family; autograd/formulas/FAMILY.cpp defines them. All are made of public ops, so they can be
// differentiated again. Dims are 0-based.
#pragma once

#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "autograd/formulas/common.h"
#include "autograd/recording.h"
#include "tensor/core/operand.h"
#include "tensor/core/scalar.h"
#include "tensor/core/tensor.h"

namespace moonlet::formulas {

// --- activation ----------------------------------------------------------------------------------

// The derivatives of silu_grad_x(grad, x) and its like by x.
Tensor silu_grad_x_grad_x(const Tensor& g, const Tensor& grad, const Tensor& x);
Tensor gelu_erf_grad_x_grad_x(const Tensor& g, const Tensor& grad, const Tensor& x);
Tensor gelu_tanh_grad_x_grad_x(const Tensor& g, const Tensor& grad, const Tensor& x);
Tensor mish_grad_x_grad_x(const Tensor& g, const Tensor& grad, const Tensor& x);
Tensor softplus_grad_x_grad_x(const Tensor& g, const Tensor& grad, const Tensor& x,
                              const Scalar& beta, const Scalar& threshold);

// --- arithmetic ----------------------------------------------------------------------------------

// d/dx x^p = p x^(p - 1), and 0 where p is 0.
Tensor pow_grad_x(const Tensor& g, const Operand& x, const Operand& exponent);
// d/dp x^p = x^p log x, and 0 where x is 0 and p is not negative.
Tensor pow_grad_exponent(const Tensor& g, const Operand& x, const Operand& exponent,
                         const Tensor& y);
// What lerp leaves of its first end.
Tensor lerp_grad_x(const Tensor& g, const Operand& weight);
// The sign of a real number has no gradient; that of a complex one turns with it.
Tensor sgn_grad_x(const Tensor& g, const Tensor& x);

// --- complex -------------------------------------------------------------------------------------

// The angle of a complex number turns across it; that of a real one has no gradient.
Tensor angle_grad_x(const Tensor& g, const Tensor& x);

// --- decomposition -------------------------------------------------------------------------------

// A name of a result, as L, is that result; g is its gradient.
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

// --- fft -----------------------------------------------------------------------------------------

// Of fft_r2c along dim, for x of that shape.
Tensor fft_r2c_grad_x(const Tensor& g, const Dims& sizes, int64_t dim, double scale);
// Of fft_c2r along dim.
Tensor fft_c2r_grad_x(const Tensor& g, int64_t dim, double scale);

// --- gather --------------------------------------------------------------------------------------

// The gradient of embedding's weight, of shape `sizes`: nothing where it is sparse and the rows
// were taken.
Tensor embedding_grad(const RowsTaker& taker, const Tensor& g, const Tensor& index,
                      const Dims& sizes, int64_t padding_idx, bool scale_grad_by_freq, bool sparse);
Tensor embedding_grad_weight_grad_grad(const Tensor& g, const Tensor& index, int64_t padding_idx);
// g, where `wanted` divided by how often each row's position comes in `index`.
Tensor by_frequency(const Tensor& g, const Tensor& index, int64_t rows, bool wanted);

// Zeros of shape `sizes` with g added at the positions.
Tensor index_select_grad_x(const Tensor& g, int64_t dim, const Tensor& index, const Dims& sizes);

// What scatter and scatter_add took from src, in src's shape: what is behind `index` gave nothing.
Tensor scatter_grad_src(const Tensor& g, int64_t dim, const Tensor& index, const Dims& src_size);
// The gradients of x and src, where y is what scatter_fold made of them.
std::tuple<Tensor, Tensor> scatter_fold_grads(const Tensor& g, const Tensor& x, int64_t dim,
                                              const Tensor& index, const Tensor& src,
                                              std::string_view reduce, const Tensor& y);
// The gradients of x and source, where y is what index_reduce made of them.
std::tuple<Tensor, Tensor> index_reduce_grads(const Tensor& g, const Tensor& x, int64_t dim,
                                              const Tensor& index, const Tensor& source,
                                              std::string_view reduce, bool include_self,
                                              const Tensor& y);

// --- index ---------------------------------------------------------------------------------------

// Zeros of shape `sizes` with g added at the indices.
Tensor index_grad_x(const Tensor& g, const std::vector<Tensor>& indices, const Dims& sizes);
Tensor index_put_grad_x(const Tensor& g, const std::vector<Tensor>& indices, bool accumulate);

// --- linalg --------------------------------------------------------------------------------------

// x's conjugate; x itself when it is real, without a copy.
Tensor conjugate(const Tensor& x);
// linear's weight gradient (out, in) from g (..., out) and x (..., in).
Tensor linear_grad_weight(const Tensor& g, const Tensor& x);
// The gradient of the distances y (..., n, m) of the rows of x1 (..., n, d) from those of x2 with
// respect to x1.
Tensor cdist_grad(const Tensor& g, const Tensor& x1, const Tensor& x2, const Tensor& y, double p);
// The same for the distances of each two rows of x.
Tensor pdist_grad(const Tensor& g, const Tensor& x, const Tensor& y, double p);

// --- loss ----------------------------------------------------------------------------------------

// In these `g` is the gradient of a loss's gradient with respect to x, times that which it
// multiplies; they give the gradients with respect to x and target.

// Of a loss that is a parabola, with the gradient of its gradient `g`, where x and target are
// nearer than `width`, and straight elsewhere.
std::tuple<Tensor, Tensor> huber_backward_grads(const Tensor& g, const Tensor& x,
                                                const Tensor& target, const Scalar& width);
std::tuple<Tensor, Tensor> binary_cross_entropy_grads(const Tensor& g, const Tensor& x,
                                                      const Tensor& target);
std::tuple<Tensor, Tensor> soft_margin_grads(const Tensor& g, const Tensor& x,
                                             const Tensor& target);

// The gradient of kl_div along target: log(target) + 1 - x, or -x where target is 0.
Tensor kl_div_target_grad(const Tensor& x, const Tensor& target);

// The gradient of ctc_loss_grad_log_probs by its `grad`, of which each element belongs to an entry:
// the derivative of the losses along g.
Tensor ctc_loss_along(const Tensor& g, const Tensor& grad, const Tensor& log_probs,
                      const Tensor& targets, const std::vector<int64_t>& input_lengths,
                      const std::vector<int64_t>& target_lengths, const Tensor& result,
                      const Tensor& log_alpha, int64_t blank);

// The gradients of cross_entropy_grad_x with respect to (grad, x).
std::tuple<Tensor, Tensor> cross_entropy_grad_x_grads(const Tensor& g, const Tensor& grad,
                                                      const Tensor& x, const Tensor& target,
                                                      const Tensor& weight, const Tensor& logsumexp,
                                                      const Tensor& total_weight, int64_t reduction,
                                                      int64_t ignore_index, double label_smoothing);

// Throws: the gradient of that op has no derivative.
Tensor no_second_derivative(const char* op);

// --- math ----------------------------------------------------------------------------------------

// The derivatives of atan2_grad_x(grad, x, other) by x and other, times g; 0 where both are 0, as
// the first ones.
std::tuple<Tensor, Tensor> atan2_grad_x_grads(const Tensor& g, const Tensor& x,
                                              const Tensor& other);

// --- nn ------------------------------------------------------------------------------------------

// What attention multiplies the values with: softmax(query key^T * scale + mask), computed in at
// least float32; zeros for a query that may see nothing.
Tensor attention_weights(const Tensor& query, const Tensor& key, const Tensor& mask, bool is_causal,
                         double scale);
// native_attention: these weights times the values, for some queries at a time.
Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                 bool is_causal, double scale);
// The dropout of attention's weights: by masks that the states of random_states give again; none
// without states.
struct AttentionDropout {
  double p = 0;
  Tensor states;
};
// The gradients of attention with respect to (query, key, value), and to a mask that is added, by
// products and softmax; they may be differentiated again.
std::tuple<Tensor, Tensor, Tensor> attention_grads(const Tensor& g, const Tensor& query,
                                                   const Tensor& key, const Tensor& value,
                                                   const Tensor& mask, bool is_causal, double scale,
                                                   const AttentionDropout& dropout = {});
Tensor attention_grad_mask(const Tensor& g, const Tensor& query, const Tensor& key,
                           const Tensor& value, const Tensor& mask, bool is_causal, double scale,
                           const AttentionDropout& dropout = {});
// Those of flash_attention, which gave y and logsumexp, with respect to (query, key, value).
std::tuple<Tensor, Tensor, Tensor> flash_grads(const Tensor& g, const Tensor& query,
                                               const Tensor& key, const Tensor& value,
                                               const Tensor& mask, const Tensor& y,
                                               const Tensor& logsumexp, bool is_causal,
                                               double scale, const AttentionDropout& dropout);

// --- normalization -------------------------------------------------------------------------------

// The gradients of layer_norm_grad_x with respect to (grad, x, weight) and of
// layer_norm_grad_weight with respect to (grad, x). The path through the statistics is part of x's.
std::tuple<Tensor, Tensor, Tensor> layer_norm_grad_x_grads(const Tensor& g, const Tensor& grad,
                                                           const Tensor& x, const Tensor& mean,
                                                           const Tensor& rstd, const Tensor& weight,
                                                           int64_t dims, double eps);
std::tuple<Tensor, Tensor> layer_norm_grad_weight_grads(const Tensor& g, const Tensor& grad,
                                                        const Tensor& x, const Tensor& mean,
                                                        const Tensor& rstd, int64_t dims,
                                                        double eps);
// The same for batch_norm.
std::tuple<Tensor, Tensor, Tensor> batch_norm_grad_x_grads(const Tensor& g, const Tensor& grad,
                                                           const Tensor& x, const Tensor& mean,
                                                           const Tensor& rstd, const Tensor& weight,
                                                           double eps);
std::tuple<Tensor, Tensor> batch_norm_grad_weight_grads(const Tensor& g, const Tensor& grad,
                                                        const Tensor& x, const Tensor& mean,
                                                        const Tensor& rstd, double eps);
// And for group_norm.
std::tuple<Tensor, Tensor, Tensor> group_norm_grad_x_grads(const Tensor& g, const Tensor& grad,
                                                           const Tensor& x, const Tensor& mean,
                                                           const Tensor& rstd, const Tensor& weight,
                                                           int64_t groups, double eps);
std::tuple<Tensor, Tensor> group_norm_grad_weight_grads(const Tensor& g, const Tensor& grad,
                                                        const Tensor& x, const Tensor& mean,
                                                        const Tensor& rstd, int64_t groups,
                                                        double eps);

// And for rms_norm.
std::tuple<Tensor, Tensor, Tensor> rms_norm_grad_x_grads(const Tensor& g, const Tensor& grad,
                                                         const Tensor& x, const Tensor& rstd,
                                                         const Tensor& weight, int64_t dims,
                                                         double eps);
std::tuple<Tensor, Tensor> rms_norm_grad_weight_grads(const Tensor& g, const Tensor& grad,
                                                      const Tensor& x, const Tensor& rstd,
                                                      int64_t dims, double eps);

// The gradients of each with respect to (x, weight, bias), of rms_norm to (x, weight): from one op
// where nothing is recorded and the device has it. That of the weight is undefined when the weight
// is.
std::tuple<Tensor, Tensor, Tensor> layer_norm_backward(const Tensor& grad, const Tensor& x,
                                                       const Tensor& mean, const Tensor& rstd,
                                                       const Tensor& weight, int64_t dims,
                                                       double eps);
std::tuple<Tensor, Tensor> rms_norm_backward(const Tensor& grad, const Tensor& x,
                                             const Tensor& rstd, const Tensor& weight, int64_t dims,
                                             double eps);
std::tuple<Tensor, Tensor, Tensor> batch_norm_backward(const Tensor& grad, const Tensor& x,
                                                       const Tensor& mean, const Tensor& rstd,
                                                       const Tensor& weight, double eps);
std::tuple<Tensor, Tensor, Tensor> group_norm_backward(const Tensor& grad, const Tensor& x,
                                                       const Tensor& mean, const Tensor& rstd,
                                                       const Tensor& weight, int64_t groups,
                                                       double eps);

// --- recurrent -----------------------------------------------------------------------------------

// The gradients of (gates, cell) and of (x_gates, h_gates, hidden).
std::tuple<Tensor, Tensor> lstm_step_backward(const Tensor& grad_h, const Tensor& grad_c,
                                              const Tensor& gates, const Tensor& cell,
                                              const Tensor& c);
std::tuple<Tensor, Tensor, Tensor> gru_step_backward(const Tensor& grad, const Tensor& x_gates,
                                                     const Tensor& h_gates, const Tensor& hidden);

// Those of native_recurrent with respect to (gates, hidden, cell, w_hh, b_hh).
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> recurrent_grads(
    const Tensor& grad_y, const Tensor& grad_h, const Tensor& grad_c, const Tensor& gates,
    const Tensor& hidden, const Tensor& cell, const Tensor& w_hh, const Tensor& b_hh,
    const Tensor& y, const Tensor& cells, const Tensor& sums,
    const std::vector<int64_t>& batch_sizes, int64_t mode, bool reverse);

// Those of recurrent_network with respect to (x, hidden, cell, weights). Where the graph is kept
// the reserve stays as it is.
std::tuple<Tensor, Tensor, Tensor, Tensor> recurrent_network_grads(
    bool keeps_graph, const Tensor& grad_y, const Tensor& grad_h, const Tensor& grad_c,
    const Tensor& x, const Tensor& hidden, const Tensor& cell, const Tensor& weights,
    const Tensor& y, const Tensor& reserve, bool has_biases, int64_t num_layers, bool bidirectional,
    const std::vector<int64_t>& batch_sizes, int64_t mode);

// --- reduce --------------------------------------------------------------------------------------

Tensor mean_grad_x(const Tensor& g, const Dims& sizes, const Dims& dims, bool keepdim);
// From the result y where no element is 0; else each element gets the product of the others.
Tensor prod_grad_x(const Tensor& g, const Tensor& x, const Tensor& y, std::optional<int64_t> dim,
                   bool keepdim);
Tensor var_grad_x(const Tensor& g, const Tensor& x, const Dims& dims, double correction,
                  bool keepdim);
// 0 where the deviation y is 0.
Tensor std_grad_x(const Tensor& g, const Tensor& x, const Tensor& y, const Dims& dims,
                  double correction, bool keepdim);
// 0 where the norm y is 0. y has the dtype that x was converted to, or the real one of that.
Tensor norm_grad_x(const Tensor& g, const Tensor& x, const Tensor& y, double p, const Dims& dims,
                   bool keepdim);
Tensor logsumexp_grad_x(const Tensor& g, const Tensor& x, const Tensor& y, const Dims& dims,
                        bool keepdim);

// --- scan ----------------------------------------------------------------------------------------

// Quadratic in the size of dim when x holds a 0, linear otherwise.
Tensor cumprod_grad_x(const Tensor& g, const Tensor& x, const Tensor& y, int64_t dim);
// From the result y, in logarithms, which do not overflow.
Tensor logcumsumexp_grad_x(const Tensor& g, const Tensor& x, const Tensor& y, int64_t dim);

// --- shape ---------------------------------------------------------------------------------------

// g laid into the part of zeros that the view showed. Where a sum so far is given g is added to
// that part of it, and the result is undefined.
Tensor select_grad_x(Tensor* so_far, const Tensor& g, const Dims& size, int64_t dim, int64_t index);
Tensor slice_grad_x(Tensor* so_far, const Tensor& g, const Dims& size, int64_t dim, int64_t start,
                    int64_t stop, int64_t step);
Tensor diagonal_grad_x(Tensor* so_far, const Tensor& g, const Dims& size, int64_t offset,
                       int64_t dim1, int64_t dim2);
// The numbers with their signs turned: the padding that undoes a padding.
std::vector<int64_t> negated(const std::vector<int64_t>& values);
// `g` with its dimensions put back to where permute(dims) took them from.
Tensor permute_grad_x(const Tensor& g, const Dims& dims);
// The sum, for each element of a tensor of that layout, of g over all positions at which
// as_strided(size, stride, offset) shows it; elements that lie on one another share the sum evenly.
// Offsets count from the start of the storage.
Tensor as_strided_grad_x(const Tensor& g, const Dims& x_size, const Dims& x_stride,
                         int64_t x_offset, const Dims& size, const Dims& stride, int64_t offset);
// The same sum for windows of `size` positions, `step` apart, along `dim`.
Tensor unfold_grad_x(const Tensor& g, const Dims& x_size, int64_t dim, int64_t size, int64_t step);
// The part of g that each of the joined tensors gave.
std::vector<Tensor> cat_grad_tensors(const Tensor& g, const std::vector<Dims>& sizes, int64_t dim);
std::vector<Tensor> block_diag_grad_tensors(const Tensor& g, const std::vector<Dims>& sizes);

// --- softmax -------------------------------------------------------------------------------------

// The gradient of softmax_grad_x with respect to softmax's result.
Tensor softmax_grad_x_grad_result(const Tensor& g, const Tensor& grad, const Tensor& result,
                                  int64_t dim);
// The gradients of log_softmax_grad_x with respect to (grad, result).
std::tuple<Tensor, Tensor> log_softmax_grad_x_grads(const Tensor& g, const Tensor& grad,
                                                    const Tensor& result, int64_t dim);

// --- special -------------------------------------------------------------------------------------

// Throws: there is no formula for the derivative of the op by this argument.
[[noreturn]] Tensor not_differentiable(std::string_view op, std::string_view argument);

// The density of the gamma distribution: other^(x - 1) exp(-other) / gamma(x).
Tensor igamma_grad_other(const Tensor& g, const Tensor& x, const Tensor& other);
// -x zeta(x + 1, other)
Tensor special_zeta_grad_other(const Tensor& g, const Operand& x, const Operand& other);
// log(other), and 0 where x is 0 and the logarithm is minus infinity or none.
Tensor xlogy_grad_x(const Tensor& g, const Operand& x, const Operand& other);
Tensor xlogy_grad_other(const Tensor& g, const Operand& x, const Operand& other);
Tensor special_xlog1py_grad_other(const Tensor& g, const Operand& x, const Operand& other);
Tensor special_xlog1py_grad_x(const Tensor& g, const Operand& x, const Operand& other);
// (cos(pi x) - sinc(x)) / x, and 0 at 0.
Tensor sinc_grad_x(const Tensor& g, const Tensor& x, const Tensor& y);
// i0(x) - i1(x) / x, the same of i0e and i1e less the exponential's part, j0(x) - j1(x) / x; each
// 1/2 at 0.
Tensor special_i1_grad_x(const Tensor& g, const Tensor& x, const Tensor& y);
Tensor special_i1e_grad_x(const Tensor& g, const Tensor& x, const Tensor& y);
Tensor special_bessel_j1_grad_x(const Tensor& g, const Tensor& x, const Tensor& y);

}  // namespace moonlet::formulas

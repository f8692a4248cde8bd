// autograd/composite/decomposition_norm.cpp: norms of vectors and matrices, and condition numbers.
#include <cmath>

#include "autograd/uses_composite_decomposition_norm.h"

namespace moonlet {
namespace {

Tensor magnitudes(const Tensor& x) { return is_complex(x.dtype()) ? abs(x) : x; }

void check_floating(const char* op, const Tensor& x) {
  check(is_differentiable(x.dtype()), op, ": x has dtype ", x.dtype(),
        ", a floating or complex one is expected");
}

Tensor converted(const Tensor& x, std::optional<DType> dtype) { return dtype ? to(x, *dtype) : x; }

// The two dimensions of the matrices as the last ones.
struct Matrices {
  Tensor x;
  Dims dims;
};

Matrices last_two(const char* op, const Tensor& A, const Dims& dim) {
  check(dim.size() == 2, op, ": ", dim.size(), " dims, the two of matrices are expected");
  check(A.dim() >= 2, op, ": A has shape ", A.sizes(), ", matrices (..., m, n) are expected");
  const Dims dims = wrap_dims(dim, A.dim(), op);
  return {movedim(A, dims, {-2, -1}), dims};
}

// The result with dimensions of size 1 where the matrices were.
Tensor kept(const Tensor& y, const Dims& dim, bool keepdim) {
  if (!keepdim) return y;
  return unsqueeze(unsqueeze(y, std::min(dim[0], dim[1])), std::max(dim[0], dim[1]));
}

// The largest sum of magnitudes over `along`, a dimension of the matrix; with `smallest`, that.
Tensor extreme_sum(const Tensor& A, int64_t along, bool smallest) {
  const Tensor sums = sum(abs(A), Dims{along}, true);
  return smallest ? amin(sums, {-2, -1}) : amax(sums, {-2, -1});
}

Tensor number_norm(const Tensor& A, double ord) {
  const double size = std::fabs(ord);
  if (size == 1) return extreme_sum(A, -2, ord < 0);
  if (std::isinf(size)) return extreme_sum(A, -1, ord < 0);
  check(size == 2, "linalg.matrix_norm: ord ", ord,
        "; 1, -1, 2, -2, infinity or -infinity is expected");
  const Tensor values = linalg_svdvals(A);
  return ord > 0 ? amax(values, {-1}) : amin(values, {-1});
}

}  // namespace

Tensor linalg_vector_norm_composite(const Tensor& given, double ord, const Dims& dim, bool keepdim,
                                    std::optional<DType> dtype) {
  check_floating("linalg.vector_norm", given);
  const Tensor x = magnitudes(converted(given, dtype));
  if (ord == -std::numeric_limits<double>::infinity()) return amin(abs(x), dim, keepdim);
  return norm(x, ord, dim, keepdim);
}

Tensor linalg_matrix_norm_composite(const Tensor& A, std::string_view ord, const Dims& dim,
                                    bool keepdim, std::optional<DType> dtype) {
  check_floating("linalg.matrix_norm", A);
  const Matrices all = last_two("linalg.matrix_norm", A, dim);
  check(ord == "fro" || ord == "nuc", "linalg.matrix_norm: ord \"", ord,
        "\"; \"fro\", \"nuc\" or a number is expected");
  if (ord == "fro") return linalg_vector_norm(A, 2, dim, keepdim, dtype);
  return kept(sum(linalg_svdvals(converted(all.x, dtype)), {-1}), all.dims, keepdim);
}

Tensor linalg_matrix_norm_p_composite(const Tensor& A, double ord, const Dims& dim, bool keepdim,
                                      std::optional<DType> dtype) {
  check_floating("linalg.matrix_norm", A);
  const Matrices all = last_two("linalg.matrix_norm", A, dim);
  return kept(number_norm(converted(all.x, dtype), ord), all.dims, keepdim);
}

static Dims given_or_all(const OptionalDims& dim, const Tensor& A) {
  return dim.given() ? static_cast<const Dims&>(dim) : all_dims(A.dim());
}

Tensor linalg_norm_composite(const Tensor& A, std::optional<double> ord, const OptionalDims& given,
                             bool keepdim, std::optional<DType> dtype) {
  const Dims dim = given_or_all(given, A);
  if (!ord) return linalg_vector_norm(A, 2, dim, keepdim, dtype);
  if (dim.size() == 1) return linalg_vector_norm(A, *ord, dim, keepdim, dtype);
  check(dim.size() == 2, "linalg.norm: with ord, one dim or two are expected; A has shape ",
        A.sizes());
  return linalg_matrix_norm_p(A, *ord, dim, keepdim, dtype);
}

Tensor linalg_norm_named_composite(const Tensor& A, std::string_view ord, const OptionalDims& given,
                                   bool keepdim, std::optional<DType> dtype) {
  const Dims dim = given_or_all(given, A);
  check(dim.size() == 2, "linalg.norm: with ord \"", ord, "\", two dims are expected; A has shape ",
        A.sizes());
  return linalg_matrix_norm(A, ord, dim, keepdim, dtype);
}

namespace {

// norm(A) norm(A^-1), infinite where A is singular.
template <class Norm>
Tensor condition(const Tensor& A, Norm&& norm_of) {
  check(A.dim() >= 2 && A.size(-1) == A.size(-2), "linalg.cond: A has shape ", A.sizes(),
        ", square matrices are expected for this p");
  const auto [inverse, info] = linalg_inv_ex(A);
  return masked_fill(mul(norm_of(A), norm_of(inverse)), ne(info, 0),
                     std::numeric_limits<double>::infinity());
}

}  // namespace

Tensor linalg_cond_composite(const Tensor& A, std::optional<double> p) {
  check(A.dim() >= 2, "linalg.cond: A has shape ", A.sizes(),
        ", matrices (..., m, n) are expected");
  if (p && std::fabs(*p) != 2)
    return condition(A, [&](const Tensor& x) { return linalg_matrix_norm_p(x, *p); });
  if (A.numel() == 0)
    return zeros(Dims(A.sizes().data(), A.dim() - 2), {real_of(A.dtype()), A.device()});
  const Tensor values = linalg_svdvals(A);
  const Tensor largest = select(values, -1, 0), smallest = select(values, -1, -1);
  return p && *p < 0 ? div(smallest, largest) : div(largest, smallest);
}

Tensor linalg_cond_named_composite(const Tensor& A, std::string_view p) {
  return condition(A, [&](const Tensor& x) { return linalg_matrix_norm(x, p); });
}

}  // namespace moonlet

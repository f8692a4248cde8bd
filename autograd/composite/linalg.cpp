// autograd/composite/linalg.cpp: products of matrices and vectors made of other ops: matmul, which
// picks the product by the ranks of its arguments, sums of products, chains, powers, distances.
#include <algorithm>
#include <numeric>

#include "autograd/formulas.h"
#include "autograd/formulas/common.h"
#include "autograd/tape.h"
#include "autograd/uses_composite_linalg.h"
#include "tensor/core/dispatch.h"

namespace moonlet {
namespace {

Dims leading(const Dims& sizes) { return Dims(sizes.data(), sizes.size() - 2); }

int64_t product(const Dims& sizes) {
  int64_t out = 1;
  for (int64_t v : sizes) out *= v;
  return out;
}

Dims with_matrix(Dims batch, int64_t rows, int64_t cols) {
  batch.push_back(rows);
  batch.push_back(cols);
  return batch;
}

// x (..., n, k) with its leading dimensions stretched to `batch` and joined: (b, n, k).
Tensor as_batch(const Tensor& x, const Dims& batch) {
  const int64_t rows = x.size(-2), cols = x.size(-1);
  const Tensor wide = leading(x.sizes()) == batch ? x : expand(x, with_matrix(batch, rows, cols));
  return wide.dim() == 3 ? wide : reshape(wide, {product(batch), rows, cols});
}

// Both with at least two dimensions, one with more.
Tensor batched_product(const Tensor& a, const Tensor& b) {
  // One matrix for the whole batch: the batch joins the rows, and there is one large product.
  if (b.dim() == 2) {
    const int64_t rows = product(a.sizes()) / std::max<int64_t>(a.size(-1), 1);
    if (a.size(-1) > 0) {
      Dims out = a.sizes();
      out.back() = b.size(1);
      return reshape(mm(reshape(a, {rows, a.size(-1)}), b), out);
    }
  }
  const Dims batch = broadcast(leading(a.sizes()), leading(b.sizes()), "matmul");
  const Tensor y = bmm(as_batch(a, batch), as_batch(b, batch));
  return batch.size() == 1 ? y : reshape(y, with_matrix(batch, a.size(-2), b.size(-1)));
}

}  // namespace

Tensor matmul_composite(const Tensor& a, const Tensor& b) {
  check(a.dim() >= 1 && b.dim() >= 1, "matmul: shapes ", a.sizes(), " x ", b.sizes(),
        ", at least one dimension each is expected");
  check(a.dtype() == b.dtype(), "matmul: dtypes differ: ", a.dtype(), " and ", b.dtype());
  check(a.size(-1) == (b.dim() == 1 ? b.size(0) : b.size(-2)),
        "matmul: inner sizes differ: ", a.sizes(), " x ", b.sizes());
  if (a.dim() == 1 && b.dim() == 1) return dot(a, b);
  if (a.dim() == 2 && b.dim() == 2) return mm(a, b);
  if (a.dim() == 2 && b.dim() == 1) return mv(a, b);
  if (a.dim() == 1 && b.dim() == 2) return mv(transpose(b, 0, 1), a);
  if (a.dim() == 1) return squeeze(batched_product(unsqueeze(a, 0), b), {b.dim() - 2});
  if (b.dim() == 1) return squeeze(batched_product(a, unsqueeze(b, 1)), {a.dim() - 1});
  return batched_product(a, b);
}

namespace {

// beta * input + alpha * product, of the product's shape, which nobody else has; with beta 0, input
// is not read.
Tensor weighted(const char* op, const Tensor& input, Tensor product, const Scalar& beta,
                const Scalar& alpha) {
  check(can_expand(input.sizes(), product.sizes()), op, ": input has shape ", input.sizes(),
        ", which does not broadcast to the product's ", product.sizes());
  const auto is_one = [](const Scalar& s) { return s.to_complex() == complex128(1); };
  const bool read = beta.to_complex() != complex128(0);
  // Numbers of a higher kind than the tensors' change the dtype.
  const bool kept = is_floating(product.dtype()) && !alpha.is_complex() && !beta.is_complex() &&
                    result_type(product, input) == product.dtype();
  if (kept && input.device() == product.device()) {
    if (!is_one(alpha)) mul_(product, alpha);
    if (read && is_one(beta))
      add_(product, input);
    else if (read)
      add_scaled_(product, input, beta);
    return product;
  }
  const Tensor scaled = is_one(alpha) ? product : mul(product, alpha);
  return read ? add(is_one(beta) ? input : mul(input, beta), scaled) : scaled;
}

}  // namespace

Tensor addmv_composite(const Tensor& input, const Tensor& mat, const Tensor& vec, Scalar beta,
                       Scalar alpha) {
  // Times 0 the factors are not read, not even NaN.
  const bool sound = mat.dim() == 2 && vec.dim() == 1 && mat.size(1) == vec.size(0);
  if (sound && alpha.to_complex() == complex128(0))
    return weighted("addmv", input, mv(narrow(mat, 1, 0, 0), narrow(vec, 0, 0, 0)), beta, alpha);
  return weighted("addmv", input, mv(mat, vec), beta, alpha);
}

Tensor addr_composite(const Tensor& input, const Tensor& vec1, const Tensor& vec2, Scalar beta,
                      Scalar alpha) {
  // One pass, unless derivatives are to be those of an outer product, which take no more memory.
  const bool keeps_dtype = is_floating(input.dtype())
                               ? !beta.is_complex() && !alpha.is_complex()
                               : is_integral(input.dtype()) && beta.kind() == Scalar::Kind::Int &&
                                     alpha.kind() == Scalar::Kind::Int;
  const bool plain =
      keeps_dtype && !(grad_enabled() && (vec1.requires_grad() || vec2.requires_grad()));
  if (plain && vec1.dim() == 1 && vec2.dim() == 1 && beta.to_double() == 1 &&
      input.dtype() == vec1.dtype() && input.dtype() == vec2.dtype() &&
      can_expand(input.sizes(), {vec1.size(0), vec2.size(0)}))
    return addcmul(input, unsqueeze(vec1, 1), vec2, alpha);
  check(vec1.dim() == 1 && vec2.dim() == 1, "addr: vectors are expected, got shapes ", vec1.sizes(),
        " and ", vec2.sizes());
  const Operand operands[] = {Operand(input), Operand(vec1), Operand(vec2)};
  const DType dtype = result_type({&operands[0], &operands[1], &operands[2]});
  return weighted("addr", input, outer(to(vec1, dtype), to(vec2, dtype)), beta, alpha);
}

Tensor addbmm_composite(const Tensor& input, const Tensor& batch1, const Tensor& batch2,
                        Scalar beta, Scalar alpha) {
  check(batch1.dim() == 3 && batch2.dim() == 3 && batch1.size(0) == batch2.size(0) &&
            batch1.size(2) == batch2.size(1),
        "addbmm: batches of shapes ", batch1.sizes(), " and ", batch2.sizes(),
        ", (b, n, k) and (b, k, m) are expected");
  // The sum over the batch is one product whose inner size is that of all.
  const int64_t inner = checked_mul(batch1.size(0), batch1.size(2), "addbmm");
  const Tensor left = reshape(permute(batch1, {1, 0, 2}), {batch1.size(1), inner});
  return addmm(input, left, reshape(batch2, {inner, batch2.size(2)}), beta, alpha);
}

Tensor vdot_composite(const Tensor& a, const Tensor& b) { return dot(formulas::conjugate(a), b); }

Tensor linalg_vecdot_composite(const Tensor& x, const Tensor& y, int64_t dim) {
  const Tensor products = mul(formulas::conjugate(x), y);
  return sum(products, {wrap_dim(dim, products.dim(), "linalg.vecdot")}, false, products.dtype());
}

Tensor inner_composite(const Tensor& a, const Tensor& b) {
  if (a.dim() == 0 || b.dim() == 0) return mul(a, b);
  check(a.size(-1) == b.size(-1), "inner: the last sizes differ: ", a.sizes(), " and ", b.sizes());
  if (a.dim() == 1 && b.dim() == 1) return dot(a, b);
  return tensordot_dims(a, b, {a.dim()}, {b.dim()});
}

namespace {

// 0-based dims from those that scripts give, which lie in a list that is not wrapped for them.
Dims zero_based(const std::vector<int64_t>& dims, int rank) {
  Dims out;
  for (int64_t d : dims) {
    check(d != 0, "tensordot: dim 0: dims count from 1, or from -1 at the end");
    out.push_back(d > 0 ? d - 1 : d);
  }
  return wrap_dims(out, rank, "tensordot");
}

Dims others(const Dims& dims, int rank) {
  Dims out;
  for (int d = 0; d < rank; ++d)
    if (!dims.contains(d)) out.push_back(d);
  return out;
}

Dims joined(Dims a, const Dims& b) {
  for (int64_t v : b) a.push_back(v);
  return a;
}

Dims picked(const Dims& sizes, const Dims& dims) {
  Dims out;
  for (int64_t d : dims) out.push_back(sizes[static_cast<int>(d)]);
  return out;
}

int64_t checked_product(const Dims& sizes) {
  int64_t out = 1;
  for (int64_t v : sizes) out = checked_mul(out, v, "tensordot");
  return out;
}

// x, summed over those of `dims` that are stretched to the other's sizes from 1.
Tensor met(const Tensor& x, const Dims& dims, const Dims& other) {
  Dims stretched;
  for (int i = 0; i < dims.size(); ++i)
    if (other[i] == 1 && x.size(static_cast<int>(dims[i])) != 1) stretched.push_back(dims[i]);
  return stretched.empty() ? x : sum(x, stretched, true, x.dtype());
}

Tensor contracted(const Tensor& given_a, const Tensor& given_b, const Dims& dims_a,
                  const Dims& dims_b) {
  const Tensor a = met(given_a, dims_a, picked(given_b.sizes(), dims_b));
  const Tensor b = met(given_b, dims_b, picked(given_a.sizes(), dims_a));
  const Dims rest_a = others(dims_a, a.dim()), rest_b = others(dims_b, b.dim());
  const Dims inner_a = picked(a.sizes(), dims_a), inner_b = picked(b.sizes(), dims_b);
  check(inner_a == inner_b, "tensordot: the sizes to sum over differ: ", inner_a, " of ", a.sizes(),
        " and ", inner_b, " of ", b.sizes());
  const Dims left = picked(a.sizes(), rest_a), right = picked(b.sizes(), rest_b);
  const int64_t inner = checked_product(inner_a);
  return reshape(mm(reshape(permute(a, joined(rest_a, dims_a)), {checked_product(left), inner}),
                    reshape(permute(b, joined(dims_b, rest_b)), {inner, checked_product(right)})),
                 joined(left, right));
}

}  // namespace

Tensor tensordot_composite(const Tensor& a, const Tensor& b, int64_t dims) {
  check(dims >= 0 && dims <= a.dim() && dims <= b.dim(), "tensordot: dims ", dims,
        " of tensors of shapes ", a.sizes(), " and ", b.sizes());
  Dims last, first;
  for (int i = 0; i < dims; ++i) {
    last.push_back(a.dim() - dims + i);
    first.push_back(i);
  }
  return contracted(a, b, last, first);
}

Tensor tensordot_dims_composite(const Tensor& a, const Tensor& b,
                                const std::vector<int64_t>& dims_a,
                                const std::vector<int64_t>& dims_b) {
  check(dims_a.size() == dims_b.size(), "tensordot: ", dims_a.size(), " dims of a and ",
        dims_b.size(), " of b");
  return contracted(a, b, zero_based(dims_a, a.dim()), zero_based(dims_b, b.dim()));
}

namespace {

// x (..., n, 1) or (..., 1, n) with its last two dimensions as one, in which each element, or all
// of them, come `sizes` times. So what is multiplied with it goes by long rows.
Tensor repeated_along(const Tensor& x, const Dims& sizes) {
  Dims wide = x.sizes();
  wide[x.dim() - 2] = sizes[0];
  wide[x.dim() - 1] = sizes[1];
  Dims flat(wide.begin(), x.dim() - 1);
  flat[x.dim() - 2] = sizes[0] * sizes[1];
  return reshape(expand(x, wide), flat);
}

}  // namespace

Tensor kron_composite(const Tensor& a, const Tensor& b) {
  constexpr int64_t kShortRow = 256, kLarge = 4096;
  const int rank = std::max(a.dim(), b.dim());
  check(2 * rank <= kMaxDims, "kron: tensors of ", rank, " dimensions, at most ", kMaxDims / 2,
        " are possible");
  Dims wide_a, wide_b, sizes;
  for (int d = 0; d < rank; ++d) {
    const int in_a = d - rank + a.dim(), in_b = d - rank + b.dim();
    const int64_t size_a = in_a < 0 ? 1 : a.size(in_a), size_b = in_b < 0 ? 1 : b.size(in_b);
    wide_a = joined(wide_a, {size_a, 1});
    wide_b = joined(wide_b, {1, size_b});
    sizes.push_back(checked_mul(size_a, size_b, "kron"));
  }
  const Tensor x = reshape(a, wide_a), y = reshape(b, wide_b);
  if (rank < 2 || wide_b.back() >= kShortRow || numel_of(sizes, "kron") < kLarge)
    return reshape(mul(x, y), sizes);
  const Dims last{wide_a[2 * rank - 2], wide_b.back()};
  return reshape(mul(repeated_along(x, last), repeated_along(y, last)), sizes);
}

Tensor cross_composite(const Tensor& a, const Tensor& b, std::optional<int64_t> dim) {
  if (dim) return linalg_cross(a, b, *dim);
  for (int d = 0; d < a.dim(); ++d)
    if (a.size(d) == 3) return linalg_cross(a, b, d);
  fail("cross: no dimension of size 3 in ", a.sizes());
}

Tensor trace_composite(const Tensor& x) {
  check(x.dim() == 2, "trace: x has shape ", x.sizes(), ", 2 dimensions are expected");
  return sum(diagonal(x));
}

Tensor linalg_diagonal_composite(const Tensor& A, int64_t offset, int64_t dim1, int64_t dim2) {
  return diagonal(A, offset, dim1, dim2);
}

Tensor matrix_power_composite(const Tensor& A, int64_t n) {
  check(A.dim() >= 2 && A.size(-1) == A.size(-2), "matrix_power: A has shape ", A.sizes(),
        ", square matrices are expected");
  // The identity, recorded as a function of A: its gradient is zero.
  if (n == 0)
    return add(masked_fill(A, ones({}, {DType::Bool, A.device()}), 0.0),
               eye(A.size(-1), {}, options_of(A)));
  Tensor factor = n < 0 ? inverse(A) : A, result;
  for (uint64_t left = n < 0 ? uint64_t{0} - static_cast<uint64_t>(n) : static_cast<uint64_t>(n);
       ;) {
    if (left & 1) result = result.defined() ? matmul(result, factor) : factor;
    left >>= 1;
    if (left == 0) break;
    factor = matmul(factor, factor);
  }
  return result.is_same(A) ? clone(A) : result;
}

namespace {

// The product of matrices first to last, split where `splits` says.
Tensor chain(const std::vector<Tensor>& matrices, const std::vector<std::vector<size_t>>& splits,
             size_t first, size_t last) {
  if (first == last) return matrices[first];
  const size_t at = splits[first][last];
  return mm(chain(matrices, splits, first, at), chain(matrices, splits, at + 1, last));
}

// Where to split each part of the chain for the fewest multiplications: dynamic programming over
// the lengths of parts (Cormen et al., Introduction to Algorithms, 15.2).
std::vector<std::vector<size_t>> best_splits(const std::vector<Tensor>& matrices) {
  const size_t n = matrices.size();
  std::vector<std::vector<double>> cost(n, std::vector<double>(n, 0));
  std::vector<std::vector<size_t>> splits(n, std::vector<size_t>(n, 0));
  for (size_t length = 2; length <= n; ++length) {
    for (size_t first = 0; first + length <= n; ++first) {
      const size_t last = first + length - 1;
      const double ends = double(matrices[first].size(0)) * double(matrices[last].size(1));
      for (size_t at = first; at < last; ++at) {
        const double here =
            cost[first][at] + cost[at + 1][last] + ends * double(matrices[at].size(1));
        if (at > first && here >= cost[first][last]) continue;
        cost[first][last] = here;
        splits[first][last] = at;
      }
    }
  }
  return splits;
}

}  // namespace

Tensor chain_matmul_composite(const std::vector<Tensor>& matrices) {
  constexpr size_t kMost = 1000;  // the search takes the third power of the count
  check(!matrices.empty() && matrices.size() <= kMost, "chain_matmul: ", matrices.size(),
        " matrices, from 1 to ", kMost, " are possible");
  if (matrices.size() == 1) return matrices[0];
  std::vector<Tensor> all = matrices;
  const bool row = all.front().dim() == 1, column = all.back().dim() == 1;
  if (row) all.front() = unsqueeze(all.front(), 0);
  if (column) all.back() = unsqueeze(all.back(), 1);
  for (size_t i = 0; i < all.size(); ++i) {
    check(all[i].dim() == 2, "chain_matmul: matrix ", i + 1, " has shape ", matrices[i].sizes());
    check(i == 0 || all[i - 1].size(1) == all[i].size(0),
          "chain_matmul: inner sizes differ: ", matrices[i == 0 ? 0 : i - 1].sizes(), " x ",
          matrices[i].sizes());
  }
  Tensor result = chain(all, best_splits(all), 0, all.size() - 1);
  if (column) result = squeeze(result, Dims{1});
  return row ? squeeze(result, Dims{0}) : result;
}

namespace {

// sqrt(|a|^2 + |b|^2 - 2 a b) by one product: the rows (-2a, |a|^2, 1) times (b, 1, |b|^2).
Tensor euclidean_by_product(const Tensor& a, const Tensor& b) {
  const Tensor norm_a = sum(square(a), {a.dim() - 1}, true);
  const Tensor norm_b = sum(square(b), {b.dim() - 1}, true);
  const Tensor left = cat({mul(a, -2), norm_a, ones_like(norm_a)}, -1);
  const Tensor right = cat({b, ones_like(norm_b), norm_b}, -1);
  const Tensor squared = matmul(left, transpose(right, -2, -1));
  const Tensor near = le(squared, 0.0);
  // Where the root has no derivative, a constant takes its place.
  return masked_fill(sqrt(masked_fill(squared, near, 1.0)), near, 0.0);
}

// All differences of some rows at once; as many as fit in a few megabytes.
Tensor distances_by_rows(const Tensor& a, const Tensor& b, double p) {
  constexpr int64_t kElements = 1 << 22;
  const int64_t rows = a.size(-2), each = std::max<int64_t>(1, b.numel());
  const int64_t step = std::max<int64_t>(1, kElements / each);
  const Tensor wide = unsqueeze(b, b.dim() - 2);
  std::vector<Tensor> parts;
  for (int64_t from = 0; from < rows || parts.empty(); from += step) {
    const Tensor part = narrow(a, -2, from, std::min(step, rows - from));
    parts.push_back(norm(sub(unsqueeze(part, part.dim() - 1), wide), p, {-1}));
  }
  return parts.size() == 1 ? parts[0] : cat(parts, -2);
}

}  // namespace

Tensor cdist_composite(const Tensor& x1, const Tensor& x2, double p,
                       std::string_view compute_mode) {
  check(x1.dim() >= 2 && x2.dim() >= 2 && x1.size(-1) == x2.size(-1), "cdist: shapes ", x1.sizes(),
        " and ", x2.sizes(), ", (..., n, d) and (..., m, d) are expected");
  check_dtype("cdist", "x1", x1, dtypes::floating);
  check_dtype("cdist", "x2", x2, dtypes::floating);
  if (is_reduced_floating(x1.dtype())) {
    const auto wide = [](const Tensor& x) { return formulas::widened(x); };
    return to(cdist(wide(x1), wide(x2), p, compute_mode), x1.dtype());
  }
  check(p >= 0, "cdist: p is ", p, ", at least 0 is expected");
  const bool always = compute_mode == "use_mm_for_euclid_dist";
  const bool if_many = compute_mode == "use_mm_for_euclid_dist_if_necessary";
  check(always || if_many || compute_mode == "donot_use_mm_for_euclid_dist",
        "cdist: compute_mode \"", compute_mode, "\"; use_mm_for_euclid_dist, ",
        "use_mm_for_euclid_dist_if_necessary or donot_use_mm_for_euclid_dist is expected");
  const Dims batch = broadcast(leading(x1.sizes()), leading(x2.sizes()), "cdist");
  check(x1.dtype() == x2.dtype(), "cdist: dtypes differ: ", x1.dtype(), " and ", x2.dtype());
  const Tensor a = expand(x1, with_matrix(batch, x1.size(-2), x1.size(-1)));
  const Tensor b = expand(x2, with_matrix(batch, x2.size(-2), x2.size(-1)));
  const bool many = x1.size(-2) > 25 || x2.size(-2) > 25;
  if (p == 2 && (always || (if_many && many))) return euclidean_by_product(a, b);
  if (x1.size(-1) == 0) return zeros(with_matrix(batch, x1.size(-2), x2.size(-2)), options_of(x1));
  return x1.device().real().is_cpu() ? native_cdist(a, b, p) : distances_by_rows(a, b, p);
}

}  // namespace moonlet

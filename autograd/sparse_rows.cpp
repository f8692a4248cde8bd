// autograd/sparse_rows.cpp: gradients of rows: made, added up, brought into order.
#include "autograd/sparse_rows.h"

#include "autograd/tape.h"
#include "autograd/uses_sparse_rows.h"
#include "tensor/core/views.h"

namespace moonlet {

// What the dense gradient of `embedding` is made by, so both have the same numbers.
Tensor SparseRows::to_dense() const {
  const NoGrad no_grad;
  return embedding_grad_weight(values, positions, sizes[0]);
}

SparseRows SparseRows::coalesce() const {
  if (coalesced) return *this;
  const NoGrad no_grad;
  const auto [once, inverse, counts] = unique(positions, true, true);
  return {once, embedding_grad_weight(values, inverse, once.numel()), sizes, true};
}

SparseRows SparseRows::clone() const {
  const NoGrad no_grad;
  return {moonlet::clone(positions), moonlet::clone(values), sizes, coalesced};
}

SparseRows rows_at(const Tensor& g, const Tensor& index, const Dims& sizes, int64_t padding_idx) {
  const NoGrad no_grad;
  const int64_t n = index.numel();
  // A copy: the script may change its index.
  const Tensor positions = clone(to(views::view(contiguous(index), {n}), DType::Int64));
  const Tensor values = views::view(contiguous(g), {n, sizes[1]});
  if (padding_idx == 0 || n == 0) return {positions, values, sizes};
  const Tensor kept = flatten(nonzero(ne(positions, padding_idx)));
  if (kept.numel() == n) return {positions, values, sizes};
  return {index_select(positions, 0, kept), index_select(values, 0, kept), sizes};
}

SparseRows joined(const std::vector<SparseRows>& parts) {
  if (parts.size() == 1) return parts[0];
  const NoGrad no_grad;
  std::vector<Tensor> positions, values;
  for (const SparseRows& part : parts) {
    positions.push_back(part.positions);
    values.push_back(part.values);
  }
  return {cat(positions, 0), cat(values, 0), parts[0].sizes};
}

}  // namespace moonlet

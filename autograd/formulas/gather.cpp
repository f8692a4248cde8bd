// autograd/formulas/gather.cpp: the longer derivatives of what picks rows or elements.
#include "autograd/formulas/gather.h"
#include "autograd/uses_formulas_gather.h"

namespace moonlet::formulas {

Tensor embedding_grad_weight_grad_grad(const Tensor& g, const Tensor& index, int64_t padding_idx) {
  Tensor rows = embedding(g, index, padding_idx);
  if (padding_idx == 0) return rows;
  return masked_fill(rows, unsqueeze(eq(index, padding_idx), -1), 0.0);
}

Tensor by_frequency(const Tensor& g, const Tensor& index, int64_t rows, bool wanted) {
  if (!wanted || index.numel() == 0) return g;
  const Tensor flat = reshape(index, {index.numel()});
  const Tensor counts = bincount(flat, Tensor(), rows);
  Dims sizes = index.sizes();
  sizes.push_back(1);
  return div(g, to(reshape(index_select(counts, 0, flat), sizes), g.dtype()));
}

}  // namespace moonlet::formulas

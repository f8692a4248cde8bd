// autograd/composite/linalg.cpp: matmul, which picks the product by the ranks of its arguments.
#include "autograd/uses_composite_linalg.h"

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
        ", at least one dimension each is wanted");
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

}  // namespace moonlet

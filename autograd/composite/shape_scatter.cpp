// autograd/composite/shape_scatter.cpp: copies of a tensor with another laid into one of their
// views.
#include "autograd/uses_composite_shape_scatter.h"

namespace moonlet {

namespace {

// Writes src over `part`, a view of y, and gives y.
Tensor laid_in(const char* op, const Tensor& y, Tensor part, const Tensor& src) {
  check(src.sizes() == part.sizes(), op, ": src has shape ", src.sizes(),
        ", and the position for it ", part.sizes());
  copy_(part, src);
  return y;
}

}  // namespace

Tensor select_scatter_composite(const Tensor& x, const Tensor& src, int64_t dim, int64_t index) {
  const Tensor y = clone(x);
  return laid_in("select_scatter", y, select(y, dim, index), src);
}

Tensor slice_scatter_composite(const Tensor& x, const Tensor& src, int64_t dim, int64_t start,
                               std::optional<int64_t> end, int64_t step) {
  check(x.dim() > 0, "slice_scatter: a tensor of shape () has no dimension to take from");
  const int d = wrap_dim(dim, x.dim(), "slice_scatter");
  const Tensor y = clone(x);
  return laid_in("slice_scatter", y, slice(y, d, start, end.value_or(x.size(d)), step), src);
}

Tensor diagonal_scatter_composite(const Tensor& x, const Tensor& src, int64_t offset, int64_t dim1,
                                  int64_t dim2) {
  const Tensor y = clone(x);
  return laid_in("diagonal_scatter", y, diagonal(y, offset, dim1, dim2), src);
}

Tensor as_strided_scatter_composite(const Tensor& x, const Tensor& src, const Dims& size,
                                    const Dims& stride, std::optional<int64_t> storage_offset) {
  const Tensor y = clone(x, MemoryFormat::Contiguous);
  return laid_in("as_strided_scatter", y, as_strided(y, size, stride, storage_offset.value_or(0)),
                 src);
}

}  // namespace moonlet

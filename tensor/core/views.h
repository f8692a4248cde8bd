// tensor/core/views.h: the view ops: other sizes, strides and offsets on the storage a tensor has.
// They copy nothing, need no device code and leave no trace on the tape (generated code records
// them).
#pragma once

#include <optional>

#include "tensor/core/tensor.h"

namespace moonlet::views {

// Dimensions and positions are 0-based; negative ones count from the end. All throw Error, with
// positions and dimensions counted from 1 in the text.

// `size` with a -1 in it replaced so that the product is `numel`; throws when nothing fits.
Dims infer_sizes(const Dims& size, int64_t numel, const char* op);
// Strides that show the elements of (sizes, strides) in row-major order as `to`, a shape of as many
// elements; nothing when no strides can.
std::optional<Dims> view_strides(const Dims& sizes, const Dims& strides, const Dims& to);

// A range of positions, resolved against a dimension.
struct Range {
  int64_t start = 0;
  int64_t count = 0;
};
// The range [start, stop) of a dimension of `size`, each `step`-th position. A negative start
// counts -1 as the last position, a negative stop -1 as the end of the dimension. An empty range is
// fine; one that leaves the dimension or runs backwards throws.
Range resolve_range(int64_t size, int64_t start, int64_t stop, int64_t step, int dim,
                    const char* op);

// The dimensions of a dense tensor from the outermost in memory to the innermost: so permuted it
// lies in row-major order.
Dims memory_order(const Tensor& dense);

Tensor view(const Tensor& x, const Dims& size);
// What as_strided shows: of x's whole storage, `offset` elements from its start on. The position of
// x in it is for the derivative.
Tensor strided_view(const Tensor& x, const Dims& size, const Dims& stride, int64_t offset,
                    const Dims& x_stride, int64_t x_offset);
Tensor expand(const Tensor& x, const Dims& size);
Tensor permute(const Tensor& x, const Dims& dims);
Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1);
Tensor t(const Tensor& x);
// Drops those of `dims` (all when empty) that have size 1.
Tensor squeeze(const Tensor& x, const Dims& dims);
Tensor unsqueeze(const Tensor& x, int64_t dim);
Tensor select(const Tensor& x, int64_t dim, int64_t index);
// The same at positions of the first dimensions, which are within them.
Tensor select_first(const Tensor& x, const Dims& indices);
Tensor slice(const Tensor& x, int64_t dim, int64_t start, int64_t stop, int64_t step);
Tensor diagonal(const Tensor& x, int64_t offset, int64_t dim1, int64_t dim2);
Tensor unfold(const Tensor& x, int64_t dim, int64_t size, int64_t step);
// The same bytes as elements of another dtype.
Tensor view_as_dtype(const Tensor& x, DType dtype);
Tensor view_as_real(const Tensor& x);
Tensor view_as_complex(const Tensor& x);

}  // namespace moonlet::views

// autograd/composite/index.cpp: choices by a mask, positions of what is not zero, positions in
// sorted sequences.
#include <algorithm>

#include "autograd/host_value.h"
#include "autograd/uses_composite_index.h"

namespace moonlet {

namespace {

// The positions where `mask`, broadcast to `sizes`, is true, of the elements in row order.
Tensor marked(const Tensor& mask, const Dims& sizes, int64_t count) {
  const Tensor found = nonzero(reshape(expand(mask, sizes), Dims{count}));
  return reshape(found, Dims{found.size(0)});
}

}  // namespace

Tensor masked_select_composite(const Tensor& x, const Tensor& mask) {
  const Dims sizes = broadcast(x.sizes(), mask.sizes(), "masked_select");
  const int64_t count = numel_of(sizes, "masked_select");
  return index_select(reshape(expand(x, sizes), Dims{count}), 0, marked(mask, sizes, count));
}

Tensor masked_scatter_composite(const Tensor& x, const Tensor& mask, const Tensor& source) {
  const Dims sizes = broadcast(x.sizes(), mask.sizes(), "masked_scatter");
  const int64_t count = numel_of(sizes, "masked_scatter");
  const Tensor positions = marked(mask, sizes, count);
  const int64_t wanted = positions.numel();
  check(source.numel() >= wanted, "masked_scatter: source has ", source.numel(),
        " elements, and the mask marks ", wanted);
  const Tensor given = slice(reshape(source, Dims{source.numel()}), 0, 0, wanted, 1);
  return reshape(index_copy(reshape(expand(x, sizes), Dims{count}), 0, positions, given), sizes);
}

Tensor nonzero_as_rows_composite(const Tensor& x, bool as_tuple) {
  check(!as_tuple, "nonzero_as_rows: as_tuple is false");
  return nonzero(x);
}

std::vector<Tensor> nonzero_as_tuple_composite(const Tensor& x, bool as_tuple) {
  check(as_tuple, "nonzero_as_tuple: as_tuple is true");
  return unbind(nonzero(x.dim() == 0 ? reshape(x, {1}) : x), 1);
}

Tensor nonzero_static_composite(const Tensor& x, int64_t size, int64_t fill_value) {
  check(size >= 0, "nonzero_static: size ", size, " is negative");
  const Tensor found = nonzero(x);
  const int64_t count = std::min(found.size(0), size);
  const Tensor rest = full({size - count, x.dim()}, fill_value, {DType::Int64, x.device()});
  return cat({slice(found, 0, 0, count, 1), rest}, 0);
}

Tensor searchsorted_number_composite(const Tensor& sorted_sequence, Scalar x, bool out_int32,
                                     bool right, const std::optional<std::string>& side,
                                     const Tensor& sorter) {
  check(sorted_sequence.dim() == 1, "searchsorted: for a number the sequence has 1 dimension, got ",
        sorted_sequence.sizes());
  const DType dtype = x.is_float() ? DType::Float64 : DType::Int64;
  return searchsorted(sorted_sequence, full({}, x, {dtype, sorted_sequence.device()}), out_int32,
                      right, side, sorter);
}

Tensor bucketize_composite(const Tensor& x, const Tensor& boundaries, bool out_int32, bool right) {
  check(boundaries.dim() == 1, "bucketize: boundaries have shape ", boundaries.sizes(),
        "; one dimension expected");
  return searchsorted(boundaries, x, out_int32, right);
}

std::vector<Tensor> unravel_index_composite(const Tensor& indices, const Dims& shape) {
  const int64_t count = numel_of(shape, "unravel_index");
  if (indices.numel() > 0 && has_values(indices)) {
    const int64_t least = host_value<int64_t>(amin(indices)),
                  most = host_value<int64_t>(amax(indices));
    check(least >= 1 && most <= count, "unravel_index: position ", least < 1 ? least : most,
          " is out of range for the ", count, " elements of shape ", shape, ", which count from 1");
  }
  const Dims strides = contiguous_strides(shape);
  const Tensor before = sub(indices, int64_t{1});
  std::vector<Tensor> out;
  for (int d = 0; d < shape.size(); ++d) {
    const int64_t step = std::max<int64_t>(strides[d], 1), size = std::max<int64_t>(shape[d], 1);
    const Tensor from_start = step == 1 ? before : floor_divide(before, step);
    // Along the first dimension all are inside.
    out.push_back(add(d == 0 ? from_start : remainder(from_start, size), int64_t{1}));
  }
  return out;
}

}  // namespace moonlet

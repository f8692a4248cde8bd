// cuda/kernels/gather_scatter.cu: scatter, index_add, index_copy and their like, and the gradient
// of embedding: where each entry goes.
#include "cuda/kernels/common/faults.cuh"
#include "cuda/kernels/common/geometry.cuh"
#include "cuda/kernels/scatter.h"
#include "tensor/core/views.h"
#include "tensor/kernels_copy.h"
#include "tensor/kernels_gather.h"

namespace moonlet::cuda {

namespace {

// `skip` stands for none among the positions, without an error.
__global__ void shift_kernel(int64_t count, Positions from, int64_t* to, int64_t skip) {
  for (MOONLET_EACH(i, count)) to[i] = from.at[i] == skip && skip != 0 ? -1 : from.position(i);
}

// Where in contiguous x each entry of `index` (contiguous, from 1) points along a dimension.
__global__ void target_kernel(Geometry<1> g, int64_t count, int64_t stride, Positions index,
                              int64_t* to) {
  for (MOONLET_EACH(i, count)) {
    const int64_t position = index.position(i);
    to[i] = position < 0 ? -1 : offsets(g, i).at[0] + position * stride;
  }
}

// Positions from 1 to size as positions from 0; `skip`, where it is not 0, becomes -1.
Tensor shifted(const Call& call, const char* op, const Tensor& index, int64_t size, int64_t skip) {
  const Tensor positions = converted(index, DType::Int64);
  Tensor out = call.scratch({positions.numel()}, DType::Int64);
  if (out.numel() == 0) return out;
  MOONLET_LAUNCH(shift_kernel, blocks_for(out.numel()), kBlock, 0, call.stream(), out.numel(),
                 positions_in(op, positions, size), out.elements<int64_t>(), skip);
  call.done();
  return out;
}

void scatter_elements(const char* op, Tensor& x, int64_t dim, const Tensor& index,
                      const Tensor& given, ScatterFold fold) {
  if (index.numel() == 0) return;
  const Call call(x, op);
  const Tensor source = part_of(given, index.sizes(), given.strides(), given.offset());
  const int64_t size = x.dim() == 0 ? 1 : x.size(static_cast<int>(dim));
  const Tensor positions = converted(index, DType::Int64);
  with_contiguous(x, [&](Tensor& whole) {
    Dims strides = whole.strides();
    const int64_t stride = x.dim() == 0 ? 1 : strides[static_cast<int>(dim)];
    if (x.dim() > 0) strides[static_cast<int>(dim)] = 0;
    Tensor targets = call.scratch({index.numel()}, DType::Int64);
    const Dims sizes = x.dim() == 0 ? Dims{} : index.sizes();
    MOONLET_LAUNCH(target_kernel, blocks_for(index.numel()), kBlock, 0, call.stream(),
                   geometry(sizes, x.dim() == 0 ? Dims{} : strides), index.numel(), stride,
                   positions_in(op, positions, size), targets.elements<int64_t>());
    call.done();
    scatter_ordered(call, whole, 1, whole.numel(), 1, targets, converted(source, x.dtype()), fold);
  });
}

}  // namespace

void scatter(Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  scatter_elements("scatter", x, dim, index, source, ScatterFold::Put);
}

void scatter_add(Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  scatter_elements("scatter_add", x, dim, index, source, ScatterFold::Add);
}

void scatter_value(Tensor& x, int64_t dim, const Tensor& index, Scalar value) {
  Tensor one = empty_plain(Dims{}, options_of(x), "scatter");
  fill(one, value);
  scatter_elements("scatter", x, dim, index, views::expand(one, index.sizes()), ScatterFold::Put);
}

void scatter_fold(Tensor& x, int64_t dim, const Tensor& index, const Tensor& source,
                  std::string_view reduce) {
  scatter_elements("scatter_fold", x, dim, index, source, scatter_fold_of(reduce));
}

namespace {

void put_slices(const char* op, Tensor& x, int64_t dim, const Tensor& index, const Tensor& source,
                const ScatterJoin& join) {
  if (index.numel() == 0) return;
  const Call call(x, op);
  const int64_t size = x.dim() == 0 ? 1 : x.size(static_cast<int>(dim));
  const Tensor positions = shifted(call, op, index, size, 0);
  with_contiguous(x, [&](Tensor& whole) {
    const DimSplit s = split_at(x.sizes(), dim);
    scatter_ordered(call, whole, s.outer, s.size, s.inner, positions, converted(source, x.dtype()),
                    join);
  });
}

}  // namespace

void index_add(Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  put_slices("index_add", x, dim, index, source, ScatterFold::Add);
}

void index_add_scaled(Tensor& x, int64_t dim, const Tensor& index, const Tensor& source,
                      Scalar alpha) {
  put_slices("index_add", x, dim, index, source, {ScatterFold::Add, true, alpha});
}

void index_reduce(Tensor& x, int64_t dim, const Tensor& index, const Tensor& source,
                  std::string_view reduce, bool include_self) {
  put_slices("index_reduce", x, dim, index, source, {scatter_fold_of(reduce), include_self});
}

void index_copy(Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  put_slices("index_copy", x, dim, index, source, ScatterFold::Put);
}

void index_fill(Tensor& x, int64_t dim, const Tensor& index, Scalar value) {
  Tensor one = empty_plain(Dims{}, options_of(x), "index_fill");
  fill(one, value);
  Dims sizes = x.sizes();
  if (x.dim() > 0) sizes[static_cast<int>(dim)] = index.numel();
  put_slices("index_fill", x, dim, index, views::expand(one, sizes), ScatterFold::Put);
}

void embedding_grad_weight(const Tensor& grad, const Tensor& index, int64_t rows,
                           int64_t padding_idx, Tensor& y) {
  const Call call(grad, "embedding_grad_weight");
  fill(y, Scalar(0));
  if (index.numel() == 0) return;
  scatter_ordered(call, y, 1, rows, y.size(1),
                  shifted(call, "embedding_grad_weight", index, rows, padding_idx),
                  converted(grad, y.dtype()), ScatterFold::Add);
}

}  // namespace moonlet::cuda

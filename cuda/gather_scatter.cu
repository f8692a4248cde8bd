// cuda/gather_scatter.cu: scatter, index_add, index_copy and their like, and the gradient of
// embedding: the positions are sorted, and one thread does all entries of a place in their order.
#include "cuda/scatter.h"

#include "cuda/faults.cuh"
#include "cuda/geometry.cuh"
#include "cuda/sort.h"
#include "tensor/kernels_copy.h"
#include "tensor/kernels_gather.h"
#include "tensor/views.h"

namespace moonlet::cuda {

namespace {

// Positions sorted, with the entries they came from; -1 comes last, as the largest key.
struct Entries {
  int64_t count;
  const int64_t* places;
  const int64_t* order;
};

template <class C>
__device__ C joined(ScatterFold fold, C a, C b) {
  if (fold == ScatterFold::Put) return b;
  if (fold == ScatterFold::Add || fold == ScatterFold::Mean) return a + b;
  if constexpr (!is_device_complex<C>) {
    if (fold == ScatterFold::Max) return folded<ScatterFold::Max>(a, b);
    if (fold == ScatterFold::Min) return folded<ScatterFold::Min>(a, b);
    return folded<ScatterFold::Multiply>(a, b);
  }
  return a * b;
}

// The mean of so many elements that are to be in x at `to`, where sums of integers wrap.
template <class C>
__device__ C mean_of(Array x, int64_t to, C total, int64_t count) {
  if constexpr (is_device_complex<C>) {
    return total;
  } else {
    if constexpr (std::is_integral_v<C>) {
      x.set<C>(to, total);
      total = x.get<C>(to);
    }
    return averaged(total, count);
  }
}

template <class C>
__global__ void scatter_kernel(int64_t outer, int64_t places, int64_t inner, Entries entries,
                               ScatterFold fold, bool include_self, C scale, Array x,
                               Array source) {
  for (MOONLET_EACH(job, outer * entries.count * inner)) {
    const int64_t i = job % inner, e = job / inner % entries.count;
    const int64_t o = job / inner / entries.count;
    const int64_t place = entries.places[e];
    if (place < 0 || (e > 0 && entries.places[e - 1] == place)) continue;
    const int64_t to = (o * places + place) * inner + i;
    C total = C(0);
    if (include_self && fold != ScatterFold::Put) total = x.get<C>(to);
    int64_t k = e;
    for (; k < entries.count && entries.places[k] == place; ++k) {
      C v = source.get<C>((o * entries.count + entries.order[k]) * inner + i);
      if (fold == ScatterFold::Add) v = v * scale;
      total = k == e && !include_self ? v : joined(fold, total, v);
    }
    if (fold == ScatterFold::Mean) total = mean_of(x, to, total, k - e + (include_self ? 1 : 0));
    x.set<C>(to, total);
  }
}

// `skip` stands for none among the places, without an error.
__global__ void shift_kernel(int64_t count, Positions from, int64_t* to, int64_t skip) {
  for (MOONLET_EACH(i, count)) to[i] = from.at[i] == skip && skip != 0 ? -1 : from.place(i);
}

// Where in contiguous x each entry of `index` (contiguous, from 1) points along a dimension.
__global__ void target_kernel(Geometry<1> g, int64_t count, int64_t stride, Positions index,
                              int64_t* to) {
  for (MOONLET_EACH(i, count)) {
    const int64_t place = index.place(i);
    to[i] = place < 0 ? -1 : offsets(g, i).at[0] + place * stride;
  }
}

// Positions from 1 to size as places from 0; `skip`, where it is not 0, becomes -1.
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

void scatter_ordered(const Call& call, Tensor& x, int64_t outer, int64_t places, int64_t inner,
                     const Tensor& positions, const Tensor& source, const ScatterJoin& join) {
  const int64_t count = positions.numel();
  if (count * outer * inner == 0) return;
  Tensor keys = call.scratch({count}, DType::Int64), order = call.scratch({count}, DType::Int64);
  copy(keys, positions);
  sort_keys(call, 1, count, keys, order);
  const Entries entries{count, keys.elements<int64_t>(), order.elements<int64_t>()};
  visit_device_compute(x.dtype(), [&]<class C>() {
    MOONLET_LAUNCH((scatter_kernel<C>), blocks_for(outer * count * inner), kBlock, 0, call.stream(),
                   outer, places, inner, entries, join.fold, join.include_self,
                   scalar_as<C>(join.scale), array(x), array(source));
  });
  call.done();
}

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
  const Tensor places = shifted(call, op, index, size, 0);
  with_contiguous(x, [&](Tensor& whole) {
    const DimSplit s = split_at(x.sizes(), dim);
    scatter_ordered(call, whole, s.outer, s.size, s.inner, places, converted(source, x.dtype()),
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

// cuda/gather.cu: reading at positions: gather, index_select and embedding.
#include "cuda/device.h"
#include "cuda/faults.cuh"
#include "cuda/geometry.cuh"
#include "tensor/kernels_gather.h"

namespace moonlet::cuda {

namespace {

// y[i] = x[base + place of i * stride]; 0 where there is no such place.
template <class T>
__global__ void gather_kernel(Geometry<1> base, int64_t count, int64_t stride, Positions index,
                              const T* x, T* y) {
  for (MOONLET_EACH(i, count)) {
    const int64_t place = index.place(i);
    y[i] = place < 0 ? T{} : x[offsets(base, i).at[0] + place * stride];
  }
}

// y (outer, n, inner) from x (outer, size, inner).
template <class T>
__global__ void select_kernel(DimSplit s, int64_t n, Positions index, const T* x, T* y) {
  for (MOONLET_EACH(e, s.outer * n * s.inner)) {
    const int64_t inner = e % s.inner, rest = e / s.inner, place = index.place(rest % n);
    y[e] = place < 0 ? T{} : x[(rest / n * s.size + place) * s.inner + inner];
  }
}

void select(const Call& call, const Tensor& x, const DimSplit& s, const Tensor& index, Tensor& y) {
  const Tensor positions = converted(index, DType::Int64);
  if (y.numel() == 0)
    return check_positions(call, positions_in(call.op(), positions, s.size), positions.numel());
  const Tensor source = contiguous(x);
  visit_bytes<Bytes16>(x.dtype(), [&]<class T>() {
    MOONLET_LAUNCH((select_kernel<T>), blocks_for(y.numel()), kBlock, 0, call.stream(), s,
                   positions.numel(), positions_in(call.op(), positions, s.size),
                   static_cast<const T*>(source.elements<T>()), y.elements<T>());
  });
  call.done();
}

}  // namespace

void gather(const Tensor& x, int64_t dim, const Tensor& index, Tensor& y) {
  if (index.numel() == 0) return;
  const Call call(x, "gather");
  const int d = static_cast<int>(dim);
  const Tensor positions = converted(index, DType::Int64);
  const Positions places = positions_in("gather", positions, x.dim() == 0 ? 1 : x.size(d));
  Dims strides = x.strides();
  const int64_t stride = x.dim() == 0 ? 1 : strides[d];
  if (x.dim() > 0) strides[d] = 0;
  const Geometry<1> base = geometry(x.dim() == 0 ? Dims{} : index.sizes(), strides);
  visit_bytes<Bytes16>(x.dtype(), [&]<class T>() {
    MOONLET_LAUNCH((gather_kernel<T>), blocks_for(y.numel()), kBlock, 0, call.stream(), base,
                   y.numel(), stride, places, static_cast<const T*>(x.elements<T>()),
                   y.elements<T>());
  });
  call.done();
}

void index_select(const Tensor& x, int64_t dim, const Tensor& index, Tensor& y) {
  const Call call(x, "index_select");
  select(call, x, split_at(x.sizes(), dim), index, y);
}

void embedding(const Tensor& weight, const Tensor& index, int64_t, bool, bool, Tensor& y) {
  const Call call(weight, "embedding");
  select(call, weight, split_at(weight.sizes(), 0), index, y);
}

}  // namespace moonlet::cuda

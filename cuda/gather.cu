// cuda/gather.cu: reading at positions: gather, index_select and embedding.
#include "cuda/device.h"
#include "cuda/geometry.cuh"
#include "tensor/kernels_gather.h"

namespace moonlet::cuda {

namespace {

// y[i] = x[base + (index[i] - 1) * stride]
template <class T>
__global__ void gather_kernel(Geometry<1> base, int64_t count, int64_t stride, const int64_t* index,
                              const T* x, T* y) {
  for (MOONLET_EACH(i, count)) y[i] = x[offsets(base, i).at[0] + (index[i] - 1) * stride];
}

// y (outer, n, inner) from x (outer, size, inner).
template <class T>
__global__ void select_kernel(DimSplit s, int64_t n, const int64_t* index, const T* x, T* y) {
  for (MOONLET_EACH(e, s.outer * n * s.inner)) {
    const int64_t inner = e % s.inner, rest = e / s.inner;
    y[e] = x[(rest / n * s.size + index[rest % n] - 1) * s.inner + inner];
  }
}

void select(const Call& call, const Tensor& x, const DimSplit& s, const Tensor& positions,
            Tensor& y) {
  if (y.numel() == 0) return;
  const Tensor source = contiguous(x);
  visit_bytes<Bytes16>(x.dtype(), [&]<class T>() {
    MOONLET_LAUNCH((select_kernel<T>), blocks_for(y.numel()), kBlock, 0, call.stream(), s,
                   positions.numel(), static_cast<const int64_t*>(positions.elements<int64_t>()),
                   static_cast<const T*>(source.elements<T>()), y.elements<T>());
  });
  call.done();
}

}  // namespace

void gather(const Tensor& x, int64_t dim, const Tensor& index, Tensor& y) {
  if (index.numel() == 0) return;
  const Call call(x, "gather");
  const int d = static_cast<int>(dim);
  const Tensor positions = checked_positions("gather", index, x.dim() == 0 ? 1 : x.size(d));
  Dims strides = x.strides();
  const int64_t stride = x.dim() == 0 ? 1 : strides[d];
  if (x.dim() > 0) strides[d] = 0;
  const Geometry<1> base = geometry(x.dim() == 0 ? Dims{} : index.sizes(), strides);
  visit_bytes<Bytes16>(x.dtype(), [&]<class T>() {
    MOONLET_LAUNCH((gather_kernel<T>), blocks_for(y.numel()), kBlock, 0, call.stream(), base,
                   y.numel(), stride, static_cast<const int64_t*>(positions.elements<int64_t>()),
                   static_cast<const T*>(x.elements<T>()), y.elements<T>());
  });
  call.done();
}

void index_select(const Tensor& x, int64_t dim, const Tensor& index, Tensor& y) {
  const Call call(x, "index_select");
  const int64_t size = x.dim() == 0 ? 1 : x.size(static_cast<int>(dim));
  select(call, x, split_at(x.sizes(), dim), checked_positions("index_select", index, size), y);
}

void embedding(const Tensor& weight, const Tensor& index, int64_t, bool, bool, Tensor& y) {
  const Call call(weight, "embedding");
  select(call, weight, split_at(weight.sizes(), 0),
         checked_positions("embedding", index, weight.size(0)), y);
}

}  // namespace moonlet::cuda

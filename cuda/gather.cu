// cuda/gather.cu: reading at positions: gather, index_select, embedding, index and nonzero.
#include "cuda/device.h"
#include "cuda/geometry.cuh"
#include "cuda/index_plan.cuh"
#include "cuda/scan.cuh"
#include "tensor/kernels_copy.h"
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

template <class T>
__global__ void index_kernel(IndexGrid g, int64_t count, const T* x, T* y) {
  for (MOONLET_EACH(i, count)) y[i] = x[index_offset(g, i)];
}

// The running count of elements that are not zero.
struct NonzeroCount {
  Array x;
  int64_t* counts;
  __device__ int64_t start() const { return 0; }
  __device__ int64_t load(int64_t i) const { return x.get<bool>(i) ? 1 : 0; }
  __device__ int64_t combine(int64_t a, int64_t b) const { return a + b; }
  __device__ void store(int64_t i, int64_t v) const { counts[i] = v; }
};

struct NonzeroShape {
  int rank;
  int64_t sizes[kMaxDims];
};

__global__ void nonzero_kernel(NonzeroShape shape, int64_t count, const int64_t* counts,
                               int64_t* y) {
  for (MOONLET_EACH(i, count)) {
    if (counts[i] == (i == 0 ? 0 : counts[i - 1])) continue;
    int64_t* row = y + (counts[i] - 1) * shape.rank;
    int64_t rest = i;
    for (int d = shape.rank - 1; d >= 0; --d) {
      row[d] = rest % shape.sizes[d] + 1;
      rest /= shape.sizes[d];
    }
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

void embedding(const Tensor& weight, const Tensor& index, int64_t, Tensor& y) {
  const Call call(weight, "embedding");
  select(call, weight, split_at(weight.sizes(), 0),
         checked_positions("embedding", index, weight.size(0)), y);
}

void index(const Tensor& x, const std::vector<Tensor>& indices, Tensor& y) {
  const Call call(x, "index");
  const IndexedTensor indexed("index", x, indices);
  if (indexed.count == 0) return;
  Tensor rows = y.is_contiguous() ? y : call.scratch(y.sizes(), y.dtype());
  visit_bytes<Bytes16>(x.dtype(), [&]<class T>() {
    MOONLET_LAUNCH((index_kernel<T>), blocks_for(indexed.count), kBlock, 0, call.stream(),
                   indexed.grid, indexed.count, static_cast<const T*>(x.elements<T>()),
                   rows.elements<T>());
  });
  call.done();
  if (!rows.is_same(y)) copy(y, rows);
}

Tensor nonzero(const Tensor& x) {
  const Call call(x, "nonzero");
  const int64_t count = x.numel();
  if (count == 0) return call.scratch({0, x.dim()}, DType::Int64);
  const Tensor source = contiguous(x);
  Tensor counts = call.scratch({count}, DType::Int64);
  scan_by<int64_t>(call, DimSplit{1, count, 1},
                   NonzeroCount{array(source), counts.elements<int64_t>()});
  int64_t found = 0;
  ensure(cudaMemcpyAsync(&found, counts.elements<int64_t>() + count - 1, sizeof found,
                         cudaMemcpyDeviceToHost, call.stream()),
         "nonzero");
  call.wait();
  Tensor y = call.scratch({found, x.dim()}, DType::Int64);
  if (y.numel() == 0) return y;
  NonzeroShape shape;
  shape.rank = x.dim();
  for (int d = 0; d < x.dim(); ++d) shape.sizes[d] = x.size(d);
  MOONLET_LAUNCH(nonzero_kernel, blocks_for(count), kBlock, 0, call.stream(), shape, count,
                 static_cast<const int64_t*>(counts.elements<int64_t>()), y.elements<int64_t>());
  call.done();
  return y;
}

}  // namespace moonlet::cuda

// cuda/index.cu: reading and writing with tensors of positions, and nonzero.
#include "cuda/device.h"
#include "cuda/geometry.cuh"
#include "cuda/index_plan.cuh"
#include "cuda/scan.cuh"
#include "cuda/scatter.h"
#include "tensor/kernels_copy.h"
#include "tensor/kernels_index.h"

namespace moonlet::cuda {

namespace {

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

__global__ void index_target_kernel(IndexGrid g, int64_t count, int64_t* to) {
  for (MOONLET_EACH(i, count)) to[i] = index_offset(g, i);
}

}  // namespace

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

void index_put(Tensor& x, const std::vector<Tensor>& indices, const Tensor& values,
               bool accumulate) {
  const Call call(x, "index_put");
  with_contiguous(x, [&](Tensor& whole) {
    const IndexedTensor indexed("index_put", whole, indices);
    const Dims& result = indexed.plan.result;
    const int64_t count = indexed.count;
    if (count == 0) return;
    Tensor source = call.scratch(result, x.dtype()), targets = call.scratch({count}, DType::Int64);
    copy(source, values);
    MOONLET_LAUNCH(index_target_kernel, blocks_for(count), kBlock, 0, call.stream(), indexed.grid,
                   count, targets.elements<int64_t>());
    call.done();
    scatter_ordered(call, whole, 1, whole.numel(), 1, targets, source, accumulate);
  });
}

}  // namespace moonlet::cuda

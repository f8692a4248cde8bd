// cuda/kernels/gather.cu: reading at positions: gather, index_select and embedding.
#include "cuda/kernels/common/faults.cuh"
#include "cuda/kernels/common/geometry.cuh"
#include "cuda/kernels/common/moves.cuh"
#include "cuda/runtime/device.h"
#include "tensor/kernels_gather.h"

namespace moonlet::cuda {

namespace {

// What a thread has on its way at once.
constexpr int kFlight = 4;

// y[i] = x[base + position of i * stride]; 0 where there is no such position.
template <class T>
__global__ void __launch_bounds__(kBlock)
    gather_kernel(const MOONLET_GRID_CONSTANT Geometry<1> base, int64_t count, int64_t stride,
                  Positions index, const T* x, T* y) {
  const int64_t step = int64_t{gridDim.x} * kBlock;
  for (int64_t i = int64_t{blockIdx.x} * kBlock + threadIdx.x; i < count; i += kFlight * step) {
    int64_t at[kFlight];
    MOONLET_UNROLL
    for (int f = 0; f < kFlight; ++f)
      at[f] = i + f * step < count ? index.position(i + f * step) : -1;
    T held[kFlight];
    MOONLET_UNROLL
    for (int f = 0; f < kFlight; ++f)
      held[f] = at[f] < 0 ? T{} : x[offsets(base, i + f * step).at[0] + at[f] * stride];
    MOONLET_UNROLL
    for (int f = 0; f < kFlight; ++f)
      if (i + f * step < count) y[i + f * step] = held[f];
  }
}

// Packs of slices: x is (outer, size, packs), y (outer, n, packs), and jobs are (outer, n, pack).
template <class I>
struct SliceJobs {
  MoveJobs<I> jobs;
  int64_t count, size, packs;
};

template <class T, class I>
__global__ void __launch_bounds__(kBlock)
    select_kernel(const MOONLET_GRID_CONSTANT SliceJobs<I> s, Positions index, const T* x, T* y) {
  using Count = std::make_unsigned_t<I>;
  const Count step = Count{gridDim.x} * kBlock, count = static_cast<Count>(s.count);
  for (Count i = Count{blockIdx.x} * kBlock + threadIdx.x; i < count; i += kFlight * step) {
    T held[kFlight];
    MOONLET_UNROLL
    for (int f = 0; f < kFlight; ++f) {
      held[f] = T{};
      if (i + f * step >= count) continue;
      const auto job = s.jobs.job(static_cast<I>(i + f * step));
      const int64_t position = index.position(job.position);
      if (position >= 0) held[f] = x[(job.outer * s.size + position) * s.packs + job.pack];
    }
    MOONLET_UNROLL
    for (int f = 0; f < kFlight; ++f)
      if (i + f * step < count) y[i + f * step] = held[f];
  }
}

// Blocks whose threads have kFlight of so many jobs each.
unsigned flights_for(int64_t count) { return blocks_for((count + kFlight - 1) / kFlight); }

void select(const Call& call, const Tensor& x, const DimSplit& s, const Tensor& index, Tensor& y) {
  const Tensor indices = converted(index, DType::Int64);
  const Positions positions = positions_in(call.op(), indices, s.size);
  const int64_t n = indices.numel();
  if (y.numel() == 0) return check_positions(call, positions, n);
  const Tensor source = contiguous(x);
  visit_moves(s.inner, {source.raw(), y.raw()}, size_of(x.dtype()), [&]<class T>(int64_t packs) {
    const int64_t count = s.outer * n * packs;
    visit_counts(count, [&]<class I>() {
      const SliceJobs<I> jobs{MoveJobs<I>(n, packs), count, s.size, packs};
      MOONLET_LAUNCH((select_kernel<T, I>), flights_for(count), kBlock, 0, call.stream(), jobs,
                     positions, reinterpret_cast<const T*>(source.raw()),
                     reinterpret_cast<T*>(y.raw()));
    });
  });
  call.done();
}

}  // namespace

void gather(const Tensor& x, int64_t dim, const Tensor& index, Tensor& y) {
  if (index.numel() == 0) return;
  const Call call(x, "gather");
  const int d = static_cast<int>(dim);
  const Tensor indices = converted(index, DType::Int64);
  const Positions positions = positions_in("gather", indices, x.dim() == 0 ? 1 : x.size(d));
  Dims strides = x.strides();
  const int64_t stride = x.dim() == 0 ? 1 : strides[d];
  if (x.dim() > 0) strides[d] = 0;
  const Geometry<1> base = geometry(x.dim() == 0 ? Dims{} : index.sizes(), strides);
  visit_bytes<Bytes16>(x.dtype(), [&]<class T>() {
    MOONLET_LAUNCH((gather_kernel<T>), flights_for(y.numel()), kBlock, 0, call.stream(), base,
                   y.numel(), stride, positions, static_cast<const T*>(x.elements<T>()),
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

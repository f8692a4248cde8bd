// cuda/copy.cu: copies between layouts, dtypes and devices, fills, and the checks that wait for a
// flag from the device.
#include <cstring>
#include <utility>

#include "cuda/device.h"
#include "cuda/geometry.cuh"
#include "cuda/pointwise.cuh"
#include "tensor/dispatch.h"
#include "tensor/kernels_copy.h"
#include "tensor/shapes/index.h"
#include "tensor/streams.h"

namespace moonlet::cuda {

namespace {

template <class T>
__global__ void move_kernel(Geometry<2> g, int64_t count, T* to, const T* from) {
  for (MOONLET_EACH(i, count)) {
    const Offsets<2> o = offsets(g, i);
    to[o.at[0]] = from[o.at[1]];
  }
}

constexpr int kTile = 32, kTileRows = 8;

// to is (rows, cols) dense; from reads it transposed, column by column. One tile a block.
template <class T>
__global__ void transpose_kernel(int64_t rows, int64_t cols, int64_t from_step, T* to,
                                 const T* from) {
  __shared__ T tile[kTile][kTile + 1];
  const int64_t across = (cols + kTile - 1) / kTile;
  const int64_t tiles = across * ((rows + kTile - 1) / kTile);
  const int x = threadIdx.x % kTile, y = threadIdx.x / kTile;
  for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const int64_t row = t / across * kTile, col = t % across * kTile;
    for (int k = y; k < kTile; k += kTileRows)
      if (row + x < rows && col + k < cols) tile[k][x] = from[(col + k) * from_step + row + x];
    __syncthreads();
    for (int k = y; k < kTile; k += kTileRows)
      if (row + k < rows && col + x < cols) to[(row + k) * cols + col + x] = tile[x][k];
    __syncthreads();
  }
}

// Each element by way of the type that the source's dtype computes in.
template <class C>
__global__ void convert_kernel(Geometry<2> g, int64_t count, Array to, Array from) {
  for (MOONLET_EACH(i, count)) {
    const Offsets<2> o = offsets(g, i);
    to.set<C>(o.at[0], from.get<C>(o.at[1]));
  }
}

template <class T>
__global__ void fill_kernel(Geometry<1> g, int64_t count, T* to, T value) {
  for (MOONLET_EACH(i, count)) to[offsets(g, i).at[0]] = value;
}

// Copies on one device; `source` has x's shape, with strides of 0 where it is broadcast.
void copy_on_device(const Call& call, Tensor& x, const Tensor& source, const Dims& from_strides) {
  const int64_t count = x.numel();
  const Geometry<2> g = geometry(x.sizes(), x.strides(), from_strides);
  if (x.dtype() != source.dtype()) {
    visit_device_compute(source.dtype(), [&]<class C>() {
      MOONLET_LAUNCH((convert_kernel<C>), blocks_for(count), kBlock, 0, call.stream(), g, count,
                     array(x), array(source));
    });
    return call.done();
  }
  const bool dense = g.rank == 0 || (g.rank == 1 && g.strides[0][0] == 1 && g.strides[1][0] == 1);
  if (dense) {
    ensure(cudaMemcpyAsync(x.raw(), source.raw(), count * size_of(x.dtype()),
                           cudaMemcpyDeviceToDevice, call.stream()),
           call.op());
    return;
  }
  const bool transposes = g.rank == 2 && g.strides[0][1] == 1 && g.strides[0][0] == g.sizes[1] &&
                          g.strides[1][0] == 1 && g.sizes[0] >= kTile && g.sizes[1] >= kTile;
  visit_bytes<Bytes16>(x.dtype(), [&]<class T>() {
    if (transposes)
      MOONLET_LAUNCH((transpose_kernel<T>), blocks_for(count / 4), kTile * kTileRows, 0,
                     call.stream(), g.sizes[0], g.sizes[1], g.strides[1][1], x.elements<T>(),
                     static_cast<const T*>(source.elements<T>()));
    else
      MOONLET_LAUNCH((move_kernel<T>), blocks_for(count), kBlock, 0, call.stream(), g, count,
                     x.elements<T>(), static_cast<const T*>(source.elements<T>()));
  });
  call.done();
}

// `source` from another device, on x's device.
Tensor brought_over(const Call& call, const Tensor& source) {
  Tensor here = call.scratch(source.sizes(), source.dtype());
  Tensor dense = source;  // row-major where it lies, which may be the host
  if (!source.is_contiguous()) {
    dense = empty_plain(source.sizes(), options_of(source), "copy_");
    kernels_for(source.device().type, "copy_").copy->copy(dense, source);
  }
  transfer(here, dense);
  return here;
}

// From a device to the host: converted and made dense there, before the transfer.
void copy_to_host(Tensor& x, const Tensor& source) {
  const Tensor dense = converted(source, x.dtype());
  if (x.is_contiguous() && x.sizes() == source.sizes()) return transfer(x, dense);
  Tensor here = empty_plain(source.sizes(), {x.dtype(), Device{}}, "copy_");
  const bool waits = std::exchange(device_state.copies_wait, true);
  transfer(here, dense);
  device_state.copies_wait = waits;
  kernels_for(DeviceType::CPU, "copy_").copy->copy(x, here);
}

}  // namespace

void copy(Tensor& x, const Tensor& source) {
  if (x.numel() == 0) return;
  if (x.device().is_cpu()) return copy_to_host(x, source);
  const Call call(x, "copy_");
  Tensor from = source;
  if (source.device() != x.device()) {
    const bool straight = x.is_contiguous() && source.is_contiguous() &&
                          x.dtype() == source.dtype() && x.sizes() == source.sizes();
    if (straight) return transfer(x, source);
    from = brought_over(call, source);
  }
  copy_on_device(call, x, from, broadcast_strides(from.sizes(), from.strides(), x.sizes()));
}

void fill(Tensor& x, Scalar value) {
  const int64_t count = x.numel();
  if (count == 0) return;
  const Call call(x, "fill");
  Bytes16 pattern{};
  visit(x.dtype(), [&]<class T>() {
    const T v = value.to<T>();
    std::memcpy(static_cast<void*>(&pattern), &v, sizeof v);
  });
  const Geometry<1> g = geometry(x.sizes(), x.strides());
  visit_bytes<Bytes16>(x.dtype(), [&]<class T>() {
    T v;
    std::memcpy(&v, &pattern, sizeof v);
    MOONLET_LAUNCH((fill_kernel<T>), blocks_for(count), kBlock, 0, call.stream(), g, count,
                   x.elements<T>(), v);
  });
  call.done();
}

Tensor contiguous(const Tensor& x) { return converted(x, x.dtype()); }

Tensor converted(const Tensor& x, DType dtype) {
  if (x.is_contiguous() && x.dtype() == dtype) return x;
  Tensor out = empty_plain(x.sizes(), {dtype, x.device()}, "copy");
  copy(out, x);
  return out;
}

void copy_back(Tensor& y, const Tensor& whole) { copy(y, whole); }

namespace {

constexpr unsigned long long kNone = ~0ull;

__global__ void check_kernel(const int64_t* positions, int64_t count, int64_t size, bool negative,
                             unsigned long long* first_bad) {
  for (MOONLET_EACH(i, count)) {
    const int64_t at = positions[i];
    const bool good = (at >= 1 && at <= size) || (negative && at <= -1 && at >= -size);
    if (!good) atomicMin(first_bad, static_cast<unsigned long long>(i));
  }
}

}  // namespace

Tensor checked_positions(const char* op, const Tensor& index, int64_t size, bool negative) {
  const Tensor positions = converted(index, DType::Int64);
  const int64_t count = positions.numel();
  if (count == 0) return positions;
  const Call call(positions, op);
  Tensor flag = call.scratch({1}, DType::Int64);
  unsigned long long bad = kNone;
  ensure(cudaMemsetAsync(flag.raw(), 0xff, sizeof bad, call.stream()), op);
  MOONLET_LAUNCH(check_kernel, blocks_for(count), kBlock, 0, call.stream(),
                 static_cast<const int64_t*>(positions.elements<int64_t>()), count, size, negative,
                 flag.elements<unsigned long long>());
  call.done();
  ensure(cudaMemcpyAsync(&bad, flag.raw(), sizeof bad, cudaMemcpyDeviceToHost, call.stream()), op);
  call.wait();
  if (bad == kNone) return positions;
  int64_t at = 0;
  ensure(cudaMemcpyAsync(&at, positions.elements<int64_t>() + bad, sizeof at,
                         cudaMemcpyDeviceToHost, call.stream()),
         op);
  call.wait();
  shapes::bad_position(op, at, size);
}

bool aligned_for_packs(const PointwisePlan& plan) {
  const auto aligned = [](const PointwiseArg& arg) {
    return arg.scalar || reinterpret_cast<uintptr_t>(arg.data) % 16 == 0;
  };
  bool all = aligned(plan.out);
  for (int i = 0; i < plan.inputs; ++i) all = all && aligned(plan.in[i]);
  return all;
}

int* zero_flag(const char* op, cudaStream_t stream, Tensor& holder, Device device) {
  holder = empty_plain({1}, {DType::Int32, device}, op);
  ensure(cudaMemsetAsync(holder.raw(), 0, sizeof(int), stream), op);
  return holder.elements<int>();
}

void throw_if_divided(const char* op, cudaStream_t stream, const int* flag) {
  int set = 0;
  ensure(cudaMemcpyAsync(&set, flag, sizeof set, cudaMemcpyDeviceToHost, stream), op);
  ensure(cudaStreamSynchronize(stream), op);
  if (set) fail(op, ": integer division by zero");
}

}  // namespace moonlet::cuda

// cuda/kernels/copy.cu: copies between layouts, dtypes and devices, fills, and checks of
// conditions.
#include <cstring>
#include <utility>

#include "cuda/kernels/common/cast.cuh"
#include "cuda/kernels/common/faults.cuh"
#include "cuda/kernels/common/geometry.cuh"
#include "cuda/kernels/common/pointwise.cuh"
#include "cuda/runtime/device.h"
#include "tensor/core/dispatch.h"
#include "tensor/kernels_copy.h"
#include "tensor/runtime/streams.h"

namespace moonlet::cuda {

namespace {

bool is_dense(const Geometry<2>& g) {
  return g.rank == 0 || (g.rank == 1 && g.strides[0][0] == 1 && g.strides[1][0] == 1);
}

// Bytes that one thread moves: 16 where rows are that wide and lie so, else the widest part of it.
template <int N>
int widest(const Geometry<N>& g, const char* const (&bases)[N], int element) {
  const int last = g.rank - 1;
  int64_t joint = 16 | g.sizes[last] * element;
  for (int t = 0; t < N; ++t) {
    if (g.strides[t][last] != 1) return element;
    joint |= static_cast<int64_t>(reinterpret_cast<uintptr_t>(bases[t]));
    for (int d = 0; d < last; ++d) joint |= g.strides[t][d] * element;
  }
  return static_cast<int>(joint & -joint);
}

// The same positions counted in units of `wide` bytes in place of `element`.
template <int N>
Geometry<N> in_units(Geometry<N> g, int element, int wide) {
  if (wide == element) return g;
  const int last = g.rank - 1;
  g.sizes[last] = g.sizes[last] * element / wide;
  for (int d = 0; d < last; ++d)
    for (int t = 0; t < N; ++t) g.strides[t][d] = g.strides[t][d] * element / wide;
  return collapse(g);
}

// Calls f.template operator()<T>() with a type of so many bytes.
template <class F>
void visit_width(int bytes, F&& f) {
  switch (bytes) {
    case 1: return f.template operator()<uint8_t>();
    case 2: return f.template operator()<uint16_t>();
    case 4: return f.template operator()<uint32_t>();
    case 8: return f.template operator()<uint64_t>();
    default: return f.template operator()<Bytes16>();
  }
}

// Units that a thread has on their way at once.
constexpr int kEach = 4;

template <class T>
__global__ void __launch_bounds__(kBlock)
    move_kernel(const MOONLET_GRID_CONSTANT Geometry<2> g, int64_t count, T* to, const T* from) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i + (kEach - 1) * step < count; i += kEach * step) {
    T value[kEach];
    int64_t at[kEach];
    MOONLET_UNROLL
    for (int e = 0; e < kEach; ++e) {
      const Offsets<2> o = offsets(g, i + e * step);
      at[e] = o.at[0];
      value[e] = from[o.at[1]];
    }
    MOONLET_UNROLL
    for (int e = 0; e < kEach; ++e) to[at[e]] = value[e];
  }
  for (; i < count; i += step) {
    const Offsets<2> o = offsets(g, i);
    to[o.at[0]] = from[o.at[1]];
  }
}

// A copy whose two sides are dense along different dimensions: planes, of which the target has rows
// side by side that lie in the source as columns.
struct Planes {
  Geometry<2> positions;  // of the planes
  int64_t count, rows, cols;
  int64_t to_row, from_col;  // the steps; the others are 1
};

bool find_planes(const Geometry<2>& g, Planes& out) {
  const int last = g.rank - 1;
  int along = -1;
  for (int d = 0; d < last; ++d)
    if (g.strides[1][d] == 1) along = d;
  if (along < 0 || g.strides[0][last] != 1) return false;
  out = {{}, 1, g.sizes[along], g.sizes[last], g.strides[0][along], g.strides[1][last]};
  if (out.rows < 16 || out.cols < 16) return false;
  Geometry<2> rest;
  for (int d = 0; d < last; ++d) {
    if (d == along) continue;
    const int at = rest.rank++;
    rest.sizes[at] = g.sizes[d];
    out.count *= g.sizes[d];
    for (int t = 0; t < 2; ++t) rest.strides[t][at] = g.strides[t][d];
  }
  out.positions = collapse(rest);
  return out.count < kDividerLimit;
}

constexpr int kLanes = 32, kTileRows = kBlock / kLanes;

// One tile of a plane a block, by way of shared memory. A lane moves kPer elements, that small ones
// fill 4 bytes.
template <class T, int kPer>
__global__ void __launch_bounds__(kBlock)
    transpose_kernel(const MOONLET_GRID_CONSTANT Planes p, Divider across, Divider tiles_of_plane,
                     int64_t tiles, T* to, const T* from) {
  constexpr int kTile = kLanes * kPer, kWidth = kPer * sizeof(T);
  __shared__ SharedArray<T, kTile*(kTile + kPer)> memory;
  T* tile = memory.get();
  constexpr int kPitch = kTile + kPer;
  const int x = threadIdx.x % kLanes * kPer, y = threadIdx.x / kLanes;
  for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const uint32_t plane = tiles_of_plane.quotient(static_cast<uint32_t>(t));
    const uint32_t in_plane = static_cast<uint32_t>(t) - plane * tiles_of_plane.divisor;
    const uint32_t down = across.quotient(in_plane);
    const int64_t row = int64_t{down} * kTile;
    const int64_t col = int64_t{in_plane - down * across.divisor} * kTile;
    const Offsets<2> position = offsets(p.positions, plane);
    const T* source = from + position.at[1] + row + x;
    MOONLET_UNROLL
    for (int k = y; k < kTile; k += kTileRows)
      if (row + x < p.rows && col + k < p.cols)
        store_words(
            reinterpret_cast<char*>(tile + k * kPitch + x),
            load_words<kWidth>(reinterpret_cast<const char*>(source + (col + k) * p.from_col)));
    __syncthreads();
    T* target = to + position.at[0] + col + x;
    MOONLET_UNROLL
    for (int k = y; k < kTile; k += kTileRows) {
      if (row + k >= p.rows || col + x >= p.cols) continue;
      T values[kPer];
      for (int j = 0; j < kPer; ++j) values[j] = tile[(x + j) * kPitch + k];
      Words<kWidth> words{};
      if constexpr (kPer == 1) {
        target[(row + k) * p.to_row] = values[0];
      } else {
        for (int j = 0; j < kPer; ++j) set_bits<sizeof(T)>(words, j, values[j]);
        store_words(reinterpret_cast<char*>(target + (row + k) * p.to_row), words);
      }
    }
    __syncthreads();
  }
}

// Whether a lane may move kPer elements at once on both sides.
template <class T, int kPer>
bool planes_fit(const Planes& p, const T* to, const T* from) {
  int64_t joint = p.rows | p.cols | p.to_row | p.from_col;
  for (int d = 0; d < p.positions.rank; ++d)
    joint |= p.positions.strides[0][d] | p.positions.strides[1][d];
  return joint % kPer == 0 && aligned_to(to, kPer * sizeof(T)) &&
         aligned_to(from, kPer * sizeof(T));
}

template <class T, int kPer>
bool try_transpose(const Call& call, const Planes& p, T* to, const T* from) {
  constexpr int64_t kTile = kLanes * kPer;
  const int64_t across = (p.cols + kTile - 1) / kTile, down = (p.rows + kTile - 1) / kTile;
  const int64_t tiles = across * down * p.count;
  if (tiles >= kDividerLimit || !planes_fit<T, kPer>(p, to, from)) return false;
  MOONLET_LAUNCH((transpose_kernel<T, kPer>), static_cast<unsigned>(tiles), kBlock, 0,
                 call.stream(), p, Divider(across), Divider(across * down), tiles, to, from);
  return true;
}

template <class T>
bool transposed(const Call& call, const Geometry<2>& g, T* to, const T* from) {
  Planes planes;
  if (!find_planes(g, planes)) return false;
  constexpr int kPer = sizeof(T) < 4 ? 4 / sizeof(T) : 1;
  if constexpr (kPer > 1)
    if (try_transpose<T, kPer>(call, planes, to, from)) return true;
  return try_transpose<T, 1>(call, planes, to, from);
}

// Each element by way of the type that the source's dtype computes in.
template <class C>
__global__ void __launch_bounds__(kBlock)
    convert_kernel(const MOONLET_GRID_CONSTANT Geometry<2> g, int64_t count, Array to, Array from) {
  for (MOONLET_EACH(i, count)) {
    const Offsets<2> o = offsets(g, i);
    to.set<C>(o.at[0], from.get<C>(o.at[1]));
  }
}

template <class T>
__global__ void __launch_bounds__(kBlock)
    fill_kernel(const MOONLET_GRID_CONSTANT Geometry<1> g, int64_t count, T* to, T value) {
  for (MOONLET_EACH(i, count)) to[offsets(g, i).at[0]] = value;
}

void convert_on_device(const Call& call, const Geometry<2>& g, int64_t count, Tensor& x,
                       const Tensor& source) {
  if (is_dense(g) && cast_dense(call, count, x, source)) return;
  // Integers of uint64 beyond int64 become floats at once.
  const bool at_once = source.dtype() == DType::UInt64 && kind_of(x.dtype()) >= Kind::Floating;
  const DType way = compute_dtype(at_once ? real_of(x.dtype()) : source.dtype());
  visit_device_compute(way, [&]<class C>() {
    MOONLET_LAUNCH((convert_kernel<C>), blocks_for(count), kBlock, 0, call.stream(), g, count,
                   array(x), array(source));
  });
}

// Between layouts, of one dtype.
void move_on_device(const Call& call, const Geometry<2>& g, Tensor& x, const Tensor& source) {
  const auto element = static_cast<int>(size_of(x.dtype()));
  const char* const bases[] = {x.raw(), source.raw()};
  const int wide = widest(g, bases, element);
  const Geometry<2> units = in_units(g, element, wide);
  const int64_t count = x.numel() * element / wide;
  visit_width(wide, [&]<class T>() {
    T* to = reinterpret_cast<T*>(x.raw());
    const T* from = reinterpret_cast<const T*>(source.raw());
    if (wide == element && transposed(call, g, to, from)) return;
    MOONLET_LAUNCH((move_kernel<T>), blocks_for((count + kEach - 1) / kEach), kBlock, 0,
                   call.stream(), units, count, to, from);
  });
}

// Copies on one device; `source` has x's shape, with strides of 0 where it is broadcast.
void copy_on_device(const Call& call, Tensor& x, const Tensor& source, const Dims& from_strides) {
  const int64_t count = x.numel();
  const Geometry<2> g = geometry(x.sizes(), x.strides(), from_strides);
  if (x.dtype() != source.dtype()) {
    convert_on_device(call, g, count, x, source);
  } else if (is_dense(g)) {
    ensure(cudaMemcpyAsync(x.raw(), source.raw(), count * size_of(x.dtype()),
                           cudaMemcpyDeviceToDevice, call.stream()),
           call.op());
    return;
  } else {
    move_on_device(call, g, x, source);
  }
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
  if (!source.device().is_cpu() && source.device().type != x.device().type)
    return copy(x, on_host(source));  // of another backend
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
  if (x.numel() == 0) return;
  const Call call(x, "fill");
  const auto element = static_cast<int>(size_of(x.dtype()));
  const Geometry<1> g = geometry(x.sizes(), x.strides());
  const char* const bases[] = {x.raw()};
  const int wide = g.rank == 0 ? element : widest(g, bases, element);
  const Geometry<1> units = in_units(g, element, wide);
  const int64_t count = x.numel() * element / wide;
  Bytes16 pattern{};
  visit<dtypes::any>(x.dtype(), [&]<class T>() {
    const T v = value.to<T>();
    for (size_t at = 0; at < sizeof pattern; at += sizeof v)
      std::memcpy(reinterpret_cast<char*>(&pattern) + at, &v, sizeof v);
  });
  visit_width(wide, [&]<class T>() {
    T v;
    std::memcpy(&v, &pattern, sizeof v);
    MOONLET_LAUNCH((fill_kernel<T>), blocks_for(count), kBlock, 0, call.stream(), units, count,
                   reinterpret_cast<T*>(x.raw()), v);
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

__global__ void condition_kernel(int64_t count, const bool* holds, Reporter wrong) {
  for (MOONLET_EACH(i, count))
    if (!holds[i]) report(wrong, 0, 0);
}

__global__ void positions_kernel(int64_t count, Positions positions) {
  for (MOONLET_EACH(i, count)) positions.position(i);
}

}  // namespace

void check_positions(const Call& call, const Positions& positions, int64_t count) {
  if (count == 0) return;
  MOONLET_LAUNCH(positions_kernel, blocks_for(count), kBlock, 0, call.stream(), count, positions);
  call.done();
}

void expect_all(const Tensor& given, const char* text) {
  if (given.numel() == 0) return;
  const Call call(given, "expect_all");
  const Tensor holds = contiguous(given);
  MOONLET_LAUNCH(condition_kernel, blocks_for(holds.numel()), kBlock, 0, call.stream(),
                 holds.numel(), static_cast<const bool*>(holds.elements<bool>()),
                 reporter(call.device().index, text, Fault::Condition));
  call.done();
}

}  // namespace moonlet::cuda

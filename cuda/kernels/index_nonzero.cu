// cuda/kernels/index_nonzero.cu: the positions of what is not zero: counted by pieces, and written
// when the host knows how many there are.
#include "cuda/kernels/common/counts.cuh"
#include "cuda/kernels/common/packs.cuh"
#include "cuda/kernels/common/scan.cuh"
#include "cuda/kernels/common/team.cuh"
#include "cuda/runtime/device.h"
#include "cuda/runtime/graph.h"
#include "tensor/kernels_index.h"

namespace moonlet::cuda {

namespace {

// Elements of a thread, one after the other, and those of a block.
constexpr int kMine = 16, kPiece = kBlock * kMine;

// Contiguous elements.
struct Source {
  Array x;
  int64_t count;
  bool aligned;  // to 16 bytes
};

// Which of the 16 elements from `first` on are not zero, a bit each.
template <class C>
__device__ uint32_t marks(const Source& s, int64_t first) {
  uint32_t out = 0;
  if constexpr (std::is_same_v<C, bool>) {
    if (s.aligned && first + kMine <= s.count) {
      const Words<16> words = load_words<16>(s.x.data + first);
      MOONLET_UNROLL
      for (int k = 0; k < kMine; ++k)
        if (bits_at<1>(words, k) != 0) out |= 1u << k;
      return out;
    }
  }
  for (int k = 0; k < kMine && first + k < s.count; ++k)
    if (s.x.get<C>(first + k) != C(0)) out |= 1u << k;
  return out;
}

template <class C>
__global__ void __launch_bounds__(kBlock) count_kernel(Source s, int64_t pieces, int64_t* counts) {
  for (int64_t piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
    const int mine = __popc(marks<C>(s, piece * kPiece + threadIdx.x * kMine));
    const int all = combine_block(mine, [](int a, int b) { return a + b; });
    if (threadIdx.x == 0) counts[piece] = all;
  }
}

// The sizes of x, for the way from an element's number to its positions.
struct Shape {
  int rank = 0;
  bool narrow = false;
  int64_t sizes[kMaxDims];
  Divider by[kMaxDims];
  explicit Shape(const Tensor& x) : rank(x.dim()), narrow(x.numel() < kDividerLimit) {
    for (int d = 0; d < rank; ++d) {
      sizes[d] = x.size(d);
      if (narrow) by[d] = Divider(sizes[d]);
    }
  }
};

__device__ inline void write_positions(const Shape& shape, int64_t i, int64_t* row) {
  if (shape.narrow) {
    auto left = static_cast<uint32_t>(i);
    for (int d = shape.rank - 1; d >= 0; --d) {
      const uint32_t quotient = shape.by[d].quotient(left);
      row[d] = int64_t{left - quotient * shape.by[d].divisor} + 1;
      left = quotient;
    }
    return;
  }
  for (int d = shape.rank - 1; d >= 0; --d) {
    row[d] = i % shape.sizes[d] + 1;
    i /= shape.sizes[d];
  }
}

// `upto` are the counts of the pieces, added up.
template <class C>
__global__ void __launch_bounds__(kBlock)
    write_kernel(Source s, int64_t pieces, const MOONLET_GRID_CONSTANT Shape shape,
                 const int64_t* upto, int64_t* y) {
  for (int64_t piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
    const int64_t first = piece * kPiece + threadIdx.x * kMine;
    const uint32_t found = marks<C>(s, first);
    int64_t row = (piece == 0 ? 0 : upto[piece - 1]) + count_before(__popc(found));
    for (int k = 0; k < kMine; ++k)
      if (found >> k & 1) write_positions(shape, first + k, y + row++ * shape.rank);
  }
}

struct RunningCount : ScanByElements {
  int64_t* counts;
  explicit RunningCount(int64_t* of) : counts(of) {}
  __device__ int64_t start() const { return 0; }
  __device__ int64_t load(int64_t at, int64_t) const { return counts[at]; }
  __device__ int64_t combine(int64_t a, int64_t b) const { return a + b; }
  __device__ void store(int64_t at, int64_t v) const { counts[at] = v; }
};

template <class C>
Tensor nonzero_as(const Call& call, const Tensor& given, const Source& s) {
  const int64_t pieces = (s.count + kPiece - 1) / kPiece;
  Tensor counts = call.scratch({pieces}, DType::Int64);
  auto* upto = counts.elements<int64_t>();
  MOONLET_LAUNCH((count_kernel<C>), blocks_for(pieces * kBlock), kBlock, 0, call.stream(), s,
                 pieces, upto);
  call.done();
  scan_by<int64_t>(call, DimSplit{1, pieces, 1}, RunningCount(upto));
  int64_t found = 0;
  ensure(cudaMemcpyAsync(&found, upto + pieces - 1, sizeof found, cudaMemcpyDeviceToHost,
                         call.stream()),
         "nonzero");
  call.wait();
  Tensor y = call.scratch({found, given.dim()}, DType::Int64);
  if (y.numel() == 0) return y;
  MOONLET_LAUNCH((write_kernel<C>), blocks_for(pieces * kBlock), kBlock, 0, call.stream(), s,
                 pieces, Shape(given), static_cast<const int64_t*>(upto), y.elements<int64_t>());
  call.done();
  return y;
}

}  // namespace

Tensor nonzero(const Tensor& x) {
  const Call call(x, "nonzero");
  if (x.numel() == 0) return call.scratch({0, x.dim()}, DType::Int64);
  refuse_in_capture(call.stream(), "nonzero", "a result whose size depends on values");
  const Tensor source = contiguous(x);
  const Source s{array(source), source.numel(), aligned_to(source.raw(), 16)};
  if (x.dtype() == DType::Bool) return nonzero_as<bool>(call, x, s);
  Tensor y;
  visit_device_compute(x.dtype(), [&]<class C>() { y = nonzero_as<C>(call, x, s); });
  return y;
}

}  // namespace moonlet::cuda

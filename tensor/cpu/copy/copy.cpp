// tensor/cpu/copy/copy.cpp: the kernels that write over elements: copy and fill. Dense copies are
// memcpy, and transposes go by blocks so that both sides use whole cache lines.
#include "tensor/cpu/copy/copy.h"

#include <algorithm>
#include <cstring>

#include "tensor/core/dispatch.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/copy/convert.h"
#include "tensor/kernels_copy.h"
#include "tensor/pointwise/plan.h"

namespace moonlet::cpu {

namespace {

constexpr int64_t kCopyGrain = thresholds::copy::kCopyGrain;
constexpr int64_t kBlock = thresholds::copy::kTransposedSide;

PointwisePlan plan_copy(const Tensor& out, const Tensor& in) {
  PointwisePlan plan;
  plan.op = "copy";
  plan.numel = out.numel();
  plan.inputs = 1;
  plan.compute = out.dtype();
  plan.device = out.device();
  plan.params = nullptr;
  plan.param_count = 0;
  plan.out.data = out.raw();
  plan.out.dtype = out.dtype();
  plan.out.scalar = nullptr;
  plan.in[0].data = in.raw();
  plan.in[0].dtype = in.dtype();
  plan.in[0].scalar = nullptr;
  const Tensor* tensors[] = {&in};
  plan_layout(plan, out, tensors);
  return plan;
}

// The offsets of the operands at the position `index` of the dimensions from `first` on.
struct Offsets {
  int64_t out = 0, in = 0;
};
Offsets offsets_at(const PointwisePlan& plan, int first, int64_t index) {
  Offsets offsets;
  for (int d = first; d < plan.ndim; ++d) {
    const int64_t at = index % plan.sizes[d];
    index /= plan.sizes[d];
    offsets.out += at * plan.out.strides[d];
    offsets.in += at * plan.in[0].strides[d];
  }
  return offsets;
}

// The offsets of the rows along dimension 0, one after another: short rows have no time for
// divisions.
class RowWalk {
 public:
  RowWalk(const PointwisePlan& plan, int64_t row)
      : plan_(plan), offsets_(offsets_at(plan, 1, row)) {
    for (int d = 1; d < plan.ndim; ++d) {
      index_[d] = row % plan.sizes[d];
      row /= plan.sizes[d];
    }
  }
  const Offsets& offsets() const { return offsets_; }
  void next() {
    for (int d = 1; d < plan_.ndim; ++d) {
      offsets_.out += plan_.out.strides[d];
      offsets_.in += plan_.in[0].strides[d];
      if (++index_[d] < plan_.sizes[d]) return;
      offsets_.out -= plan_.sizes[d] * plan_.out.strides[d];
      offsets_.in -= plan_.sizes[d] * plan_.in[0].strides[d];
      index_[d] = 0;
    }
  }

 private:
  const PointwisePlan& plan_;
  Offsets offsets_;
  int64_t index_[kMaxDims] = {};
};

// Row by row along the innermost dimension, long rows by pieces: of longer ones the C library would
// keep nothing in the cache.
void copy_rows(const PointwisePlan& plan, Converter convert) {
  constexpr int64_t kMaxPiece = thresholds::copy::kRowPiece;
  const int64_t size = plan.sizes[0], rows = plan.numel / size;
  const int64_t parts = rows == 1 ? thread_count(plan.numel, kCopyGrain) : 1;
  const int64_t piece = std::min(kMaxPiece, (size / parts + 64) / 64 * 64);
  const int64_t pieces = (size + piece - 1) / piece;
  const int64_t grain = std::max<int64_t>(1, kCopyGrain / std::min(piece, size));
  parallel_for(rows * pieces, grain, [&](int64_t begin, int64_t end) {
    RowWalk walk(plan, begin / pieces);
    for (int64_t i = begin, part = begin % pieces; i < end; ++i) {
      const Offsets& at = walk.offsets();
      const int64_t from = part * piece;
      convert(plan.in[0].data + at.in + from * plan.in[0].strides[0], plan.in[0].strides[0],
              plan.out.data + at.out + from * plan.out.strides[0], plan.out.strides[0],
              std::min(piece, size - from));
      if (++part < pieces) continue;
      part = 0;
      walk.next();
    }
  });
}

// The side of the squares that are turned in registers; 1 for elements of other sizes.
template <class T>
constexpr int64_t kSquare = sizeof(T) == 4 || sizeof(T) == 8 ? 16 / sizeof(T) : 1;

// Turns a square: of its rows, `step` bytes apart, columns of a block. Compilers have vectors of 16
// bytes for every machine.
void turn_square(const char* in, int64_t step, uint64_t* to) {
  using Row [[gnu::vector_size(16)]] = uint64_t;
  Row a, b;
  std::memcpy(&a, in, sizeof a);
  std::memcpy(&b, in + step, sizeof b);
  const Row out[] = {__builtin_shufflevector(a, b, 0, 2), __builtin_shufflevector(a, b, 1, 3)};
  for (int k = 0; k < 2; ++k) std::memcpy(to + k * kBlock, &out[k], sizeof(Row));
}
void turn_square(const char* in, int64_t step, uint32_t* to) {
  using Row [[gnu::vector_size(16)]] = uint32_t;
  Row a, b, c, d;
  std::memcpy(&a, in, sizeof a);
  std::memcpy(&b, in + step, sizeof b);
  std::memcpy(&c, in + 2 * step, sizeof c);
  std::memcpy(&d, in + 3 * step, sizeof d);
  const Row low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Row high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Row low_rest = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Row high_rest = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  const Row out[] = {__builtin_shufflevector(low, low_rest, 0, 1, 4, 5),
                     __builtin_shufflevector(low, low_rest, 2, 3, 6, 7),
                     __builtin_shufflevector(high, high_rest, 0, 1, 4, 5),
                     __builtin_shufflevector(high, high_rest, 2, 3, 6, 7)};
  for (int k = 0; k < 4; ++k) std::memcpy(to + k * kBlock, &out[k], sizeof(Row));
}

template <class T>
void transpose_block(const char* in, int64_t in_step, char* out, int64_t out_row, int64_t width,
                     int64_t height) {
  // Rows of the block are dense in the input's fast dimension, then written dense to the output.
  // The next block's rows lie too far apart for the hardware to foresee them.
  constexpr int64_t kLine = 64, kSide = kSquare<T>;
  alignas(kLine) T block[kBlock][kBlock];
  for (int64_t i = 0; i < width; i += kSide) {
    const int64_t rows = std::min(kSide, width - i);
    for (int64_t k = i; k < i + rows; ++k)
      for (int64_t at = 0; at < kBlock * static_cast<int64_t>(sizeof(T)); at += kLine)
        __builtin_prefetch(in + (k + kBlock) * in_step + at);
    int64_t j = 0;
    if constexpr (kSide > 1) {
      const char* from = in + i * in_step;
      for (; rows == kSide && j + kSide <= height; j += kSide)
        turn_square(from + j * static_cast<int64_t>(sizeof(T)), in_step, &block[j][i]);
    }
    for (; j < height; ++j)
      for (int64_t k = i; k < i + rows; ++k)
        block[j][k] = reinterpret_cast<const T*>(in + k * in_step)[j];
  }
  for (int64_t j = 0; j < height; ++j)
    std::memcpy(out + j * out_row, block[j], static_cast<size_t>(width) * sizeof(T));
}

// Dimension 0 is dense in the output and dimension `other` in the input.
void copy_transposed(const PointwisePlan& plan, int other) {
  PointwisePlan rest = plan;
  rest.sizes[0] = 1;
  rest.sizes[other] = 1;
  const int64_t planes = plan.numel / (plan.sizes[0] * plan.sizes[other]);
  // A piece is one block high and at most kAcross wide.
  constexpr int64_t kAcross = thresholds::copy::kAcross;
  const int64_t across = (plan.sizes[0] + kAcross - 1) / kAcross;
  const int64_t down = (plan.sizes[other] + kBlock - 1) / kBlock;
  const int64_t work = std::min(plan.sizes[0], kAcross) * std::min(plan.sizes[other], kBlock);
  const PointwiseArg &in = plan.in[0], &out = plan.out;
  visit_bytes(out.dtype, [&]<class T>() {
    const int64_t grain = std::max<int64_t>(1, kCopyGrain / work);
    parallel_for(planes * down * across, grain, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) {
        const Offsets base = offsets_at(rest, 0, piece / across / down);
        const int64_t j = piece / across % down * kBlock, first = piece % across * kAcross;
        const int64_t height = std::min(kBlock, plan.sizes[other] - j);
        for (int64_t i = first; i < std::min(first + kAcross, plan.sizes[0]); i += kBlock)
          transpose_block<T>(in.data + base.in + i * in.strides[0] + j * in.strides[other],
                             in.strides[0],
                             out.data + base.out + i * out.strides[0] + j * out.strides[other],
                             out.strides[other], std::min(kBlock, plan.sizes[0] - i), height);
      }
    });
  });
}

// Few elements that lie side by side, many times: by runs along dimension 1, all elements of a run
// in turn, so that its cache lines are still there.
void copy_interleaved(const PointwisePlan& plan, Converter convert) {
  constexpr int64_t kRun = thresholds::copy::kInterleavedRun;
  const PointwiseArg &in = plan.in[0], &out = plan.out;
  const int64_t side = plan.sizes[0], size = plan.sizes[1];
  const int64_t pieces = (size + kRun - 1) / kRun, planes = plan.numel / (side * size);
  const int64_t grain = std::max<int64_t>(1, kCopyGrain / (side * std::min(size, kRun)));
  parallel_for(planes * pieces, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Offsets at = offsets_at(plan, 2, i / pieces);
      const int64_t first = i % pieces * kRun;
      for (int64_t k = 0; k < side; ++k)
        convert(in.data + at.in + first * in.strides[1] + k * in.strides[0], in.strides[1],
                out.data + at.out + first * out.strides[1] + k * out.strides[0], out.strides[1],
                std::min(kRun, size - first));
    }
  });
}

// Whether rows along dimension 0 are so short that a call for each costs more than the copy.
bool is_interleaved(const PointwisePlan& plan) {
  constexpr int64_t kShort = thresholds::copy::kShortRow,
                    kShortBytes = thresholds::copy::kShortRowBytes;
  if (plan.ndim < 2 || plan.sizes[0] >= kShort || plan.sizes[1] < 4 * plan.sizes[0]) return false;
  const auto bytes = static_cast<int64_t>(size_of(plan.out.dtype));
  const bool dense = plan.out.strides[0] == bytes && plan.in[0].strides[0] == bytes;
  return !dense || plan.out.dtype != plan.in[0].dtype || plan.sizes[0] * bytes <= kShortBytes;
}

// The dimension that is dense in the input when dimension 0 is dense only in the output; 0 when
// this is no transpose or too small to be worth blocks.
int transposed_dim(const PointwisePlan& plan) {
  const auto bytes = static_cast<int64_t>(size_of(plan.out.dtype));
  if (plan.out.dtype != plan.in[0].dtype || plan.out.strides[0] != bytes) return 0;
  if (plan.in[0].strides[0] == bytes || plan.in[0].strides[0] == 0 || plan.sizes[0] < 8) return 0;
  for (int d = 1; d < plan.ndim; ++d)
    if (plan.in[0].strides[d] == bytes && plan.sizes[d] >= 8) return d;
  return 0;
}

}  // namespace

void copy_into(Tensor& out, const Tensor& in) {
  if (out.numel() == 0) return;
  const PointwisePlan plan = plan_copy(out, in);
  const Converter convert = converter(plan.in[0].dtype, plan.out.dtype);
  if (const int other = transposed_dim(plan)) return copy_transposed(plan, other);
  if (is_interleaved(plan)) return copy_interleaved(plan, convert);
  copy_rows(plan, convert);
}

void copy_long(void* to, const void* from, int64_t bytes) {
  run_blocks(0, bytes, kByteBlock, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                static_cast<size_t>(end - begin));
  });
}

void zero_long(void* to, int64_t bytes) {
  run_blocks(0, bytes, kByteBlock, [&](int64_t begin, int64_t end) {
    std::memset(static_cast<char*>(to) + begin, 0, static_cast<size_t>(end - begin));
  });
}

void copy(Tensor& x, const Tensor& source) {
  if (!source.device().is_cpu())
    return kernels_for(source.device().type, "copy_").copy->copy(x, source);
  copy_into(x, source);
}

void fill(Tensor& x, Scalar value) {
  visit<dtypes::any>(x.dtype(), [&]<class T>() {
    T one = value.to<T>();
    const auto bytes = static_cast<size_t>(x.numel()) * sizeof(T);
    // Less than the plan of a copy takes.
    if (x.is_contiguous() && bytes <= thresholds::pointwise::kSmallPieceBytes) {
      std::fill_n(x.elements<T>(), x.numel(), one);
      return;
    }
    const Tensor source = from_blob(&one, {}, x.dtype());
    copy_into(x, source);
  });
}

}  // namespace moonlet::cpu

// tensor/core/layout.cpp: memory formats and the order of dimensions in memory.
#include "tensor/core/layout.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace moonlet {

namespace {

constexpr std::string_view kNames[] = {"preserve_format", "contiguous_format", "channels_last",
                                       "channels_last_3d"};
static_assert(std::size(kNames) == kMemoryFormatCount);

// The dimensions from the innermost to the outermost.
struct Order {
  int dims[kMaxDims];
  int count;
};

Order row_major(int rank) {
  Order order{{}, rank};
  for (int i = 0; i < rank; ++i) order.dims[i] = rank - 1 - i;
  return order;
}

// C comes first, then the rest in row-major order.
Order channels_last(int rank) {
  Order order = row_major(rank);
  for (int i = rank - 2; i > 0; --i) order.dims[i] = order.dims[i - 1];
  order.dims[0] = 1;
  return order;
}

// The rank a format is for; 0 for any.
int rank_of(MemoryFormat format) {
  if (format == MemoryFormat::ChannelsLast) return 4;
  return format == MemoryFormat::ChannelsLast3d ? 5 : 0;
}

// An empty tensor gets the strides it would have if its empty dimensions had size 1. A product that
// overflows belongs to a shape that no tensor can have.
Dims strides_in(const Order& order, const Dims& sizes) {
  Dims out = Dims::filled(order.count, 1);
  int64_t step = 1;
  for (int i = 0; i < order.count; ++i) {
    const int d = order.dims[i];
    out[d] = step;
    static_cast<void>(__builtin_mul_overflow(step, std::max<int64_t>(sizes[d], 1), &step));
  }
  return out;
}

// 1 when dimension a lies outside b, -1 when inside, 0 when no operand tells. Of equal strides the
// smaller dimension is the inner one.
int compare(const Dims& sizes, const Dims* strides, int count, int a, int b) {
  for (int i = 0; i < count; ++i) {
    const int64_t x = strides[i][a], y = strides[i][b];
    if (x == 0 || y == 0) continue;
    if (x != y) return x > y ? 1 : -1;
    if (sizes[a] > sizes[b]) return 1;
  }
  return 0;
}

}  // namespace

std::string_view name(MemoryFormat format) { return kNames[static_cast<int>(format)]; }

MemoryFormat memory_format_from_name(std::string_view wanted) {
  std::string all;
  for (int i = 0; i < kMemoryFormatCount; ++i) {
    if (kNames[i] == wanted) return static_cast<MemoryFormat>(i);
    all += text(i > 0 ? ", " : "", kNames[i]);
  }
  fail("no memory format is named '", wanted, "'; the formats are ", all);
}

Dims format_strides(MemoryFormat format, const Dims& sizes, const char* op) {
  const int rank = rank_of(format);
  if (rank == 0) return contiguous_strides(sizes);
  check(sizes.size() == rank, op, ": memory format ", name(format), " wants ", rank,
        " dimensions, got shape ", sizes);
  return strides_in(channels_last(rank), sizes);
}

bool is_contiguous(const Dims& sizes, const Dims& strides, MemoryFormat format) {
  const int rank = rank_of(format);
  if (rank == 0) return is_contiguous(sizes, strides);
  if (sizes.size() != rank) return false;
  const Dims wanted = strides_in(channels_last(rank), sizes);
  for (int d = 0; d < rank; ++d) {
    if (sizes[d] == 0) return true;
    if (sizes[d] != 1 && strides[d] != wanted[d]) return false;
  }
  return true;
}

bool is_dense(const Dims& sizes, const Dims& strides) {
  // Each dimension must begin where the next inner ones end, so the inner one is always the one
  // whose stride is the number of elements so far.
  int64_t step = 1;
  bool done[kMaxDims] = {};
  for (int round = 0; round < sizes.size(); ++round) {
    bool missing = false;
    int next = -1;
    for (int d = 0; d < sizes.size(); ++d) {
      if (done[d] || sizes[d] <= 1) continue;
      missing = true;
      if (strides[d] == step) next = d;
    }
    if (!missing) return true;
    if (next < 0) return false;
    done[next] = true;
    step *= sizes[next];
  }
  return true;
}

Dims followed_strides(const Dims& sizes, const Dims* strides, int count) {
  Order order = row_major(sizes.size());
  // Insertion by comparisons that may be undecided: those are stepped over, since a dimension
  // farther in may still be told apart.
  for (int i = 1; i < order.count; ++i) {
    int at = i;
    for (int j = i - 1; j >= 0; --j) {
      const int verdict = compare(sizes, strides, count, order.dims[j], order.dims[at]);
      if (verdict < 0) break;
      if (verdict == 0) continue;
      std::swap(order.dims[j], order.dims[at]);
      at = j;
    }
  }
  return strides_in(order, sizes);
}

Dims dense_strides(const Dims& sizes, const Dims& strides) {
  return is_dense(sizes, strides) ? strides : followed_strides(sizes, &strides, 1);
}

}  // namespace moonlet

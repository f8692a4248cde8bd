// tensor/cpu/random_order.cpp: the order of random keys: dealt out by their first bits to short
// buckets, which are then sorted one by one.
#include <algorithm>
#include <bit>
#include <vector>

#include "tensor/cpu/contiguous.h"
#include "tensor/cpu/parallel.h"
#include "tensor/kernels_random.h"

namespace moonlet::cpu {

namespace {

struct Item {
  uint64_t key;
  int64_t position;
  bool operator<(const Item& other) const {
    return key != other.key ? key < other.key : position < other.position;
  }
};

// As unsigned numbers in the order of the signed ones.
uint64_t unsigned_key(int64_t key) { return static_cast<uint64_t>(key) ^ (uint64_t{1} << 63); }

}  // namespace

void random_order(const Tensor& given, Tensor& y) {
  const Tensor source = converted(given, DType::Int64);
  const int64_t n = source.numel();
  const int64_t* keys = source.elements<int64_t>();
  int64_t* to = y.elements<int64_t>();
  // Some eight keys to a bucket.
  const int bits =
      std::clamp(static_cast<int>(std::bit_width(static_cast<uint64_t>(n))) - 3, 1, 20);
  const int shift = 64 - bits;
  std::vector<int64_t> ends((size_t{1} << bits) + 1, 0);
  for (int64_t i = 0; i < n; ++i) ++ends[(unsigned_key(keys[i]) >> shift) + 1];
  for (size_t b = 1; b < ends.size(); ++b) ends[b] += ends[b - 1];
  std::vector<Item> items(static_cast<size_t>(n));
  run_blocks(0, n, kStopBlock, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const uint64_t key = unsigned_key(keys[i]);
      items[static_cast<size_t>(ends[key >> shift]++)] = {key, i + 1};
    }
  });
  // Each bucket now ends where it began before, and begins where the one before it ends.
  parallel_for(int64_t{1} << bits, 1024, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t from = b == 0 ? 0 : ends[static_cast<size_t>(b - 1)];
      const int64_t stop = ends[static_cast<size_t>(b)];
      std::sort(items.begin() + from, items.begin() + stop);
      for (int64_t i = from; i < stop; ++i) to[i] = items[static_cast<size_t>(i)].position;
    }
  });
}

}  // namespace moonlet::cpu

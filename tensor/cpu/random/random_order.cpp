// tensor/cpu/random/random_order.cpp: the order of random keys: dealt out by their first bits to
// buckets that fit a core's cache, which are then put in order one by one.
#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "tensor/cpu/common/contiguous.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/common/thresholds.h"
#include "tensor/kernels_random.h"
#include "tensor/kernels_sort.h"

namespace moonlet::cpu {

namespace {

int bit_width(int64_t n) { return static_cast<int>(std::bit_width(static_cast<uint64_t>(n))); }

// Keys with their positions: the leading bits of the one, in the order of signed numbers, before
// the other, so that these numbers come in the keys' order but where keys begin alike.
class Packing {
 public:
  explicit Packing(int64_t n) : position_bits_(bit_width(n)) {}
  uint64_t pack(int64_t key, int64_t position) const {
    const uint64_t ordered = static_cast<uint64_t>(key) ^ (uint64_t{1} << 63);
    return (ordered >> position_bits_ << position_bits_) | static_cast<uint64_t>(position);
  }
  int64_t position(uint64_t item) const {
    return static_cast<int64_t>(item & ((uint64_t{1} << position_bits_) - 1));
  }
  bool begin_alike(uint64_t a, uint64_t b) const { return (a ^ b) >> position_bits_ == 0; }

 private:
  int position_bits_;
};

// The `count` bits behind the first `skip` ones.
uint64_t digit(uint64_t item, int skip, int count) {
  return count == 0 ? 0 : item << skip >> (64 - count);
}

// Turns counts into where each digit's items begin; the largest count.
template <class Count>
Count counts_to_positions(std::vector<Count>& counts) {
  Count first = 0, most = 0;
  for (Count& count : counts) {
    most = std::max(most, count);
    first += std::exchange(count, first);
  }
  return most;
}

// Scratch memory of a thread.
struct Scratch {
  std::vector<uint64_t> items;
  std::vector<uint32_t> positions;
};

// A bucket's n items, which agree in their first `skip` bits: by the next bits, of which there are
// enough to tell most apart, then by insertion.
void order_bucket(uint64_t* items, int64_t n, int skip, Scratch& scratch) {
  const int bits = bit_width(n);
  scratch.items.resize(static_cast<size_t>(n));
  scratch.positions.assign(size_t{1} << bits, 0);
  for (int64_t i = 0; i < n; ++i) ++scratch.positions[digit(items[i], skip, bits)];
  constexpr uint32_t kCrowd = thresholds::random::kCrowd;
  if (counts_to_positions(scratch.positions) > kCrowd) return std::sort(items, items + n);
  for (int64_t i = 0; i < n; ++i)
    scratch.items[scratch.positions[digit(items[i], skip, bits)]++] = items[i];
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t item = scratch.items[static_cast<size_t>(i)];
    int64_t at = i;
    for (; at > 0 && item < items[at - 1]; --at) items[at] = items[at - 1];
    items[at] = item;
  }
}

// Positions whose keys begin alike, told apart by the whole keys.
void order_alike(const uint64_t* items, int64_t n, const Packing& packing, const int64_t* keys,
                 int64_t* to) {
  for (int64_t i = 0, stop = 0; i < n; i = stop) {
    for (stop = i + 1; stop < n && packing.begin_alike(items[i], items[stop]);) ++stop;
    std::stable_sort(to + i, to + stop,
                     [&](int64_t a, int64_t b) { return keys[a - 1] < keys[b - 1]; });
  }
}

// The positions, from 1, of ordered items.
void store(const uint64_t* items, int64_t n, const Packing& packing, const int64_t* keys,
           int64_t* to) {
  bool alike = false;
  for (int64_t i = 0; i < n; ++i) to[i] = packing.position(items[i]) + 1;
  for (int64_t i = 1; i < n; ++i) alike |= packing.begin_alike(items[i - 1], items[i]);
  if (alike) order_alike(items, n, packing, keys, to);
}

// Keys that are not spread over all of int64.
void order_any(const Tensor& keys, Tensor& y) {
  Tensor values = empty_plain(keys.sizes(), {keys.dtype(), {}}, "random_order");
  sort(keys, 0, false, true, values, y);
}

}  // namespace

void random_order(const Tensor& given, Tensor& y) {
  const Tensor source = converted(given, DType::Int64);
  const int64_t n = source.numel();
  const int64_t* keys = source.elements<int64_t>();
  int64_t* to = y.elements<int64_t>();
  const Packing packing(n);
  constexpr int kBucketBits = thresholds::random::kBucketBits;
  const int bits = std::max(bit_width(n) - kBucketBits, 0);
  const int64_t buckets = int64_t{1} << bits;
  // Room for eight standard deviations more than a bucket gets on average.
  const int64_t mean = (n >> bits) + 1;
  const int64_t room =
      bits == 0 ? n : mean + static_cast<int64_t>(8 * std::sqrt(static_cast<double>(mean)));
  // Not set to zeros; emscripten's C++ library has no make_unique_for_overwrite.
  const std::unique_ptr<uint64_t[]> items(new uint64_t[static_cast<size_t>(buckets * room)]);
  std::vector<int64_t> counts(static_cast<size_t>(buckets), 0);
  bool spread = true;
  run_blocks(0, n, kStopBlock, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; spread && i < end; ++i) {
      const uint64_t item = packing.pack(keys[i], i), bucket = digit(item, 0, bits);
      const int64_t at = counts[bucket]++;
      spread = at < room;
      if (spread) items[static_cast<int64_t>(bucket) * room + at] = item;
    }
  });
  if (!spread) return order_any(source, y);
  std::vector<int64_t> positions = counts;
  counts_to_positions(positions);
  parallel_for(buckets, 1, [&](int64_t begin, int64_t end) {
    Scratch scratch;
    for (auto b = static_cast<size_t>(begin); b < static_cast<size_t>(end); ++b) {
      uint64_t* const bucket = items.get() + static_cast<int64_t>(b) * room;
      order_bucket(bucket, counts[b], bits, scratch);
      store(bucket, counts[b], packing, keys, to + positions[b]);
    }
  });
}

}  // namespace moonlet::cpu

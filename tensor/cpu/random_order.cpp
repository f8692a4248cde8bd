// tensor/cpu/random_order.cpp: the order of random keys: dealt out by their first bits to short
// buckets, which are then sorted one by one; of a few keys by radix.
#include <algorithm>
#include <bit>
#include <utility>
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

// At most so many keys are a few.
constexpr int64_t kFew = 1 << 12;

// By two digits of the leading bits, least significant first; then the few items that these do not
// tell apart are put in order one by one.
void order_few(const int64_t* keys, int64_t n, int64_t* to) {
  const int bits = std::bit_width(static_cast<uint64_t>(n));
  const uint64_t digits = uint64_t{1} << bits;
  const auto digit = [&](int pass, const Item& item) {
    return (item.key >> (64 - (2 - pass) * bits)) & (digits - 1);
  };
  std::vector<Item> items(static_cast<size_t>(n)), spare(items.size());
  std::vector<uint32_t> ends(2 * digits, 0);
  for (int64_t i = 0; i < n; ++i) {
    const Item item = items[static_cast<size_t>(i)] = {unsigned_key(keys[i]), i + 1};
    for (int pass = 0; pass < 2; ++pass) ++ends[pass * digits + digit(pass, item)];
  }
  for (int pass = 0; pass < 2; ++pass) {
    uint32_t* const places = ends.data() + pass * digits;
    uint32_t first = 0;
    for (uint64_t d = 0; d < digits; ++d) first += std::exchange(places[d], first);
    for (const Item& item : items) spare[places[digit(pass, item)]++] = item;
    items.swap(spare);
  }
  for (auto next = items.begin(); next != items.end(); ++next) {
    const Item item = *next;
    auto place = next;
    for (; place != items.begin() && item < place[-1]; --place) *place = place[-1];
    *place = item;
  }
  for (const Item& item : items) *to++ = item.position;
}

}  // namespace

void random_order(const Tensor& given, Tensor& y) {
  const Tensor source = converted(given, DType::Int64);
  const int64_t n = source.numel();
  const int64_t* keys = source.elements<int64_t>();
  int64_t* to = y.elements<int64_t>();
  if (n <= kFew) return order_few(keys, n, to);
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

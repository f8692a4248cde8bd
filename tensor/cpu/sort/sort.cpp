// tensor/cpu/sort/sort.cpp: stable sorting and topk through order-preserving integer keys: long
// rows by radix, short ones by comparison.
#include <algorithm>
#include <iterator>
#include <numeric>
#include <vector>

#include "tensor/core/views.h"
#include "tensor/cpu/common/contiguous.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/sort/sort_keys.h"
#include "tensor/kernels_copy.h"

namespace moonlet::cpu {

namespace {

template <class U>
struct Item {
  U key;
  uint32_t at;
};

// Makes room for n items; new ones are zeroed block by block.
template <class U>
void enlarge(std::vector<Item<U>>& items, int64_t n) {
  items.reserve(static_cast<size_t>(n));
  run_blocks(std::ssize(items), n, kStopBlock,
             [&](int64_t, int64_t end) { items.resize(static_cast<size_t>(end)); });
}

// Least significant digit radix sort; passes whose digit is the same everywhere are skipped. Keys
// become their distance from `least`, the smallest, so that close ones differ in few digits.
template <class U>
void radix_sort(std::vector<Item<U>>& items, std::vector<Item<U>>& spare, U least) {
  constexpr int kBits =
      sizeof(U) == 4 ? thresholds::sort::kRadixBits32 : thresholds::sort::kRadixBits64;
  constexpr int kPasses = (static_cast<int>(sizeof(U)) * 8 + kBits - 1) / kBits;
  constexpr size_t kDigits = size_t{1} << kBits;
  std::vector<size_t> counts(kPasses * kDigits, 0);
  run_blocks(0, std::ssize(items), kStopBlock, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const U key = items[i].key = static_cast<U>(items[i].key - least);
      for (int p = 0; p < kPasses; ++p)
        ++counts[p * kDigits + ((key >> (p * kBits)) & (kDigits - 1))];
    }
  });
  enlarge(spare, std::ssize(items));
  for (int p = 0; p < kPasses; ++p) {
    size_t* count = counts.data() + p * kDigits;
    if (count[(items[0].key >> (p * kBits)) & (kDigits - 1)] == items.size()) continue;
    size_t start = 0;
    for (size_t d = 0; d < kDigits; ++d) start += std::exchange(count[d], start);
    run_blocks(0, std::ssize(items), kStopBlock, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        spare[count[(items[i].key >> (p * kBits)) & (kDigits - 1)]++] = items[i];
    });
    items.swap(spare);
  }
}

// Reads a row into items, with keys turned round for descending order; the smallest of these.
template <class U, class T>
U read_row(const T* x, int64_t n, int64_t stride, bool descending, std::vector<Item<U>>& items) {
  enlarge(items, n);
  U least = static_cast<U>(~U{0});
  run_blocks(0, n, kStopBlock, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const U plain = key_of(x[i * stride]);
      const U key = descending ? static_cast<U>(~plain) : plain;
      least = std::min(least, key);
      items[i] = {key, static_cast<uint32_t>(i)};
    }
  });
  return least;
}

template <class U>
bool before(const Item<U>& a, const Item<U>& b) {
  return a.key < b.key || (a.key == b.key && a.at < b.at);
}

// Whether one of kSkipped elements has a key below `bound`.
constexpr int64_t kSkipped = thresholds::sort::kSkipped;
template <class U, class T>
bool any_below(const T* x, U flips, U bound) {
  int found = 0;
  for (int64_t i = 0; i < kSkipped; ++i) found |= static_cast<U>(key_of(x[i]) ^ flips) < bound;
  return found != 0;
}

// The first k items of the row's order, in order, for a small k: they are kept in order as the row
// is read. Of equal ones the earlier wins, so an equal key need not come in.
template <class U, class T>
void read_few(const T* x, int64_t n, int64_t stride, bool descending, int64_t k,
              std::vector<Item<U>>& items) {
  const U flips = descending ? static_cast<U>(~U{0}) : U{0};
  items.clear();
  U bound = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (i % kSkipped == 0) {
      if (i % kStopBlock == 0) stop_if_requested();
      while (stride == 1 && std::ssize(items) == k && i + kSkipped <= n &&
             !any_below(x + i, flips, bound)) {
        i += kSkipped;
      }
      if (i == n) return;
    }
    const U key = static_cast<U>(key_of(x[i * stride]) ^ flips);
    const bool full = std::ssize(items) == k;
    if (full && key >= bound) continue;
    if (full) items.pop_back();
    const auto after = [](U a, const Item<U>& b) { return a < b.key; };
    items.insert(std::upper_bound(items.begin(), items.end(), key, after),
                 {key, static_cast<uint32_t>(i)});
    bound = items.back().key;
  }
}

// The first k items of the row's order, in order. Items that cannot be among them any more are
// passed over as they are read: of equal ones the earlier wins, so an equal key need not come in.
template <class U, class T>
void read_best(const T* x, int64_t n, int64_t stride, bool descending, int64_t k,
               std::vector<Item<U>>& items) {
  const auto less = [](const Item<U>& a, const Item<U>& b) { return before(a, b); };
  const size_t room = static_cast<size_t>(4 * k + 64);
  items.clear();
  U bound = 0;
  bool bounded = false;
  for (int64_t i = 0; i < n; ++i) {
    if (i % kStopBlock == 0) stop_if_requested();
    const U plain = key_of(x[i * stride]);
    const U key = descending ? static_cast<U>(~plain) : plain;
    if (bounded && key >= bound) continue;
    items.push_back({key, static_cast<uint32_t>(i)});
    if (items.size() < room) continue;
    std::nth_element(items.begin(), items.begin() + (k - 1), items.end(), less);
    items.resize(static_cast<size_t>(k));
    bound = items.back().key;
    bounded = true;
  }
  if (static_cast<size_t>(k) < items.size()) {
    std::nth_element(items.begin(), items.begin() + k, items.end(), less);
  }
  std::sort(items.begin(), items.begin() + k, less);
}

template <class U>
void arrange(std::vector<Item<U>>& items, std::vector<Item<U>>& spare, U least) {
  if (items.size() > 256) return radix_sort(items, spare, least);
  std::sort(items.begin(), items.end(),
            [](const Item<U>& a, const Item<U>& b) { return before(a, b); });
}

// Stores the first k items of the order of each row along dim.
void each_row(const char* op, const Tensor& given, int64_t given_dim, int64_t k, bool descending,
              Tensor& values, Tensor& indices) {
  const int dim = wrapped(given_dim, given.dim());
  if (values.numel() == 0) return;
  const Tensor x = contiguous(given);
  const int64_t n = x.dim() ? x.size(dim) : 1;
  if (n == 1) {
    copy(values, x);
    return fill(indices, int64_t{1});
  }
  check(n < (int64_t{1} << 32), op, ": ", n, " elements along a dimension; at most 4294967295");
  int64_t inner = 1;
  for (int d = dim + 1; d < x.dim(); ++d) inner *= x.size(d);
  visit<dtypes::real | dtypes::boolean>(x.dtype(), [&]<class T>() {
    using U = uint_of<sizeof(T)>;
    parallel_for(x.numel() / n, grain_for(n * 16), [&](int64_t begin, int64_t end) {
      std::vector<Item<U>> items, spare;
      for (int64_t i = begin; i < end; ++i) {
        const T* row = x.elements<T>() + i / inner * n * inner + i % inner;
        const int64_t to = i / inner * k * inner + i % inner;
        if (k <= std::min<int64_t>(n / 8, 16)) {
          read_few<U>(row, n, inner, descending, k, items);
        } else if (k < std::min(n / 8, kStopBlock)) {
          read_best<U>(row, n, inner, descending, k, items);
        } else {
          const U least = read_row<U>(row, n, inner, descending, items);
          arrange(items, spare, least);
        }
        serial_for(k, 4, [&](int64_t from, int64_t last) {
          for (int64_t j = from; j < last; ++j) {
            values.elements<T>()[to + j * inner] = row[items[j].at * inner];
            indices.elements<int64_t>()[to + j * inner] = int64_t{items[j].at} + 1;
          }
        });
      }
    });
  });
}

}  // namespace

void sort(const Tensor& x, int64_t dim, bool descending, bool, Tensor& values, Tensor& indices) {
  const int64_t n = x.dim() ? x.size(static_cast<int>(dim)) : 1;
  if (values.is_contiguous()) return each_row("sort", x, dim, n, descending, values, indices);
  const Dims order = views::memory_order(values);
  Tensor to = views::permute(values, order), positions = views::permute(indices, order);
  const auto at = std::find(order.begin(), order.end(), dim) - order.begin();
  each_row("sort", views::permute(x, order), at, n, descending, to, positions);
}

void topk(const Tensor& x, int64_t k, int64_t dim, bool largest, bool, Tensor& values,
          Tensor& indices) {
  each_row("topk", x, dim, k, largest, values, indices);
}

}  // namespace moonlet::cpu

// tensor/cpu/sort/sort_select.cpp: one element of the order of each row: kthvalue and medians. Long
// rows are narrowed down by digits before they are partitioned, so no row is sorted.
#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <memory>
#include <vector>

#include "tensor/cpu/common/contiguous.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/sort/sort_keys.h"
#include "tensor/kernels_sort.h"

namespace moonlet::cpu {

namespace {

// Which element of the order: the one of a given rank (from 0), or a median.
enum class Which { Rank, Median, NanMedian };
struct Wanted {
  Which which;
  int64_t rank = 0;
};

// The rank among n elements of which the `nans` last ones are NaN.
int64_t rank_of(const Wanted& wanted, int64_t n, int64_t nans) {
  if (wanted.which == Which::Rank) return wanted.rank;
  if (wanted.which == Which::Median && nans > 0) return n - nans;
  return std::max<int64_t>(n - nans - 1, 0) / 2;
}

template <class U>
struct Selected {
  U key;
  int64_t among;  // how many equal ones come before it
};

constexpr int64_t kFew = thresholds::sort::kFew;

// Keeps of the keys those between two that a sample suggests, and lowers `rank` by how many are
// below; whether the key of that rank is among them.
template <class U>
bool narrow_down(const U* keys, int64_t n, int64_t& rank, std::vector<U>& rest) {
  constexpr int64_t kSample = thresholds::sort::kSample, kMargin = thresholds::sort::kMargin,
                    kBlock = thresholds::sort::kSampledBlock;
  std::array<U, kSample> sample;
  for (int64_t i = 0; i < kSample; ++i) sample[i] = keys[i * (n / kSample)];
  std::sort(sample.begin(), sample.end());
  const int64_t near = static_cast<int64_t>(static_cast<double>(rank) / static_cast<double>(n) *
                                            static_cast<double>(kSample));
  const U low = near < kMargin ? U{0} : sample[near - kMargin];
  const U high = near + kMargin >= kSample ? static_cast<U>(~U{0}) : sample[near + kMargin];
  rest.clear();
  int64_t below = 0;
  U block[kBlock];
  run_blocks(0, n, kBlock, [&](int64_t begin, int64_t end) {
    int64_t kept = 0;
    for (int64_t i = begin; i < end; ++i) {
      const U key = keys[i];
      below += key < low;
      block[kept] = key;
      kept += (key >= low) & (key <= high);
    }
    rest.insert(rest.end(), block, block + kept);
  });
  if (rank < below || rank >= below + std::ssize(rest)) return false;
  rank -= below;
  return true;
}

// Keeps of n keys those that `is_kept` takes, in their order; how many they are.
template <class U, class Kept>
int64_t keep(U* keys, int64_t n, const Kept& is_kept) {
  int64_t kept = 0;
  for (int64_t i = 0; i < n; ++i) {
    const U key = keys[i];
    keys[kept] = key;
    kept += is_kept(key);
  }
  return kept;
}

// The key of that rank among a few, without branches on keys, as which way one goes cannot be
// foreseen. Where pivots do not narrow them down soon, the library finds it.
template <class U>
Selected<U> select_few(U* keys, int64_t n, int64_t rank) {
  constexpr int64_t kShort = thresholds::sort::kShort;
  constexpr int kMostRounds = thresholds::sort::kMostRounds;
  for (int round = 0; n > kShort && round < kMostRounds; ++round) {
    const U a = keys[n / 4], b = keys[n / 2], c = keys[n - n / 4];
    const U pivot = std::max(std::min(a, b), std::min(std::max(a, b), c));
    const int64_t less = std::count_if(keys, keys + n, [pivot](U key) { return key < pivot; });
    if (rank < less) {
      n = keep(keys, n, [pivot](U key) { return key < pivot; });
      continue;
    }
    const int64_t equal = std::count(keys, keys + n, pivot);
    if (rank < less + equal) return {pivot, rank - less};
    rank -= less + equal;
    n = keep(keys, n, [pivot](U key) { return key > pivot; });
  }
  std::nth_element(keys, keys + rank, keys + n);
  const U key = keys[rank];
  return {key, rank - std::count_if(keys, keys + n, [key](U other) { return other < key; })};
}

// The key of that rank. Long rows are narrowed down by a sample; then, digit by digit from the
// highest, only the keys that begin as it does are kept; the last few thousand are partitioned.
template <class U>
Selected<U> select_key(const U* keys, int64_t n, int64_t rank, std::vector<U>& rest) {
  constexpr int kBits = thresholds::sort::kSelectBits;
  if (n < 4 * kFew || !narrow_down(keys, n, rank, rest)) rest.assign(keys, keys + n);
  for (int shift = static_cast<int>(sizeof(U)) * 8 - kBits; shift >= 0; shift -= kBits) {
    if (std::ssize(rest) <= kFew) break;
    const auto digit = [shift](U key) { return static_cast<uint8_t>(key >> shift); };
    std::array<int64_t, 1 << kBits> counts = {};
    run_blocks(0, std::ssize(rest), kStopBlock, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) ++counts[digit(rest[i])];
    });
    size_t bucket = 0;
    while (rank >= counts[bucket]) rank -= counts[bucket++];
    size_t kept = 0;
    run_blocks(0, std::ssize(rest), kStopBlock, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const U key = rest[i];
        rest[kept] = key;
        kept += digit(key) == bucket;
      }
    });
    rest.resize(kept);
  }
  // More than a few are left only where all are equal.
  if (std::ssize(rest) > kFew) return {rest.front(), rank};
  return select_few(rest.data(), std::ssize(rest), rank);
}

constexpr int64_t kPositionBlock = thresholds::sort::kPositionBlock;

// The position of the wanted one of n keys.
template <class T, class U>
int64_t select(const U* keys, int64_t n, const Wanted& wanted, std::vector<U>& rest) {
  int64_t nans = 0;
  if constexpr (!std::is_integral_v<T>) {
    if (wanted.which != Which::Rank) {
      serial_for(n, 1, [&](int64_t begin, int64_t end) {
        nans += std::count(keys + begin, keys + end, static_cast<U>(~U{0}));
      });
    }
  }
  const Selected<U> found = select_key(keys, n, rank_of(wanted, n, nans), rest);
  int64_t among = found.among, at = 0;
  run_blocks(0, n, kPositionBlock, [&](int64_t begin, int64_t end) {
    if (among < 0) return;
    const int64_t equal = std::count(keys + begin, keys + end, found.key);
    if (among >= equal) {
      among -= equal;
      return;
    }
    for (int64_t i = begin; among >= 0; ++i)
      if (keys[i] == found.key && among-- == 0) at = i;
  });
  return at;
}

// The rows along one dimension of a contiguous tensor: `n` elements, `inner` apart.
struct Rows {
  int64_t n, inner;
};

template <class T>
void keys_of(const T* x, int64_t n, uint_of<sizeof(T)>* keys) {
  for (int64_t i = 0; i < n; ++i) keys[i] = key_of(x[i]);
}

// Selects from `many` rows that lie side by side from x on.
template <class T>
void select_rows(const T* x, const Rows& rows, int64_t many, const Wanted& wanted, T* values,
                 int64_t* indices, std::vector<uint_of<sizeof(T)>>& keys,
                 std::vector<uint_of<sizeof(T)>>& rest) {
  const int64_t n = rows.n;
  keys.resize(static_cast<size_t>(n * many));
  serial_for(n, many, [&](int64_t begin, int64_t end) {
    if (rows.inner == 1) return keys_of(x + begin, end - begin, keys.data() + begin);
    for (int64_t i = begin; i < end; ++i)
      for (int64_t k = 0; k < many; ++k) keys[k * n + i] = key_of(x[i * rows.inner + k]);
  });
  for (int64_t k = 0; k < many; ++k) {
    const int64_t at = select<T>(keys.data() + k * n, n, wanted, rest);
    values[k] = x[at * rows.inner + k];
    if (indices) indices[k] = at + 1;
  }
}

// `indices` is null where only the values are asked for.
void select_each(const Tensor& given, const Rows& rows, const Wanted& wanted, Tensor& values,
                 Tensor* indices) {
  if (values.numel() == 0) return;
  const Tensor x = contiguous(given);
  Tensor found = workspace(values, x.dtype());
  Tensor positions = indices ? workspace(*indices, DType::Int64) : Tensor();
  // Neighbouring rows are read together, as they share cache lines.
  const int64_t tile =
      std::clamp<int64_t>((1 << 18) / rows.n, 1, std::min<int64_t>(16, rows.inner));
  const int64_t tiles = (rows.inner + tile - 1) / tile;
  visit<dtypes::real>(x.dtype(), [&]<class T>() {
    const auto part = [&](int64_t begin, int64_t end) {
      std::vector<uint_of<sizeof(T)>> keys, rest;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t outer = i / tiles, column = i % tiles * tile;
        const int64_t to = outer * rows.inner + column;
        select_rows(x.elements<T>() + outer * rows.n * rows.inner + column, rows,
                    std::min(tile, rows.inner - column), wanted, found.elements<T>() + to,
                    indices ? positions.elements<int64_t>() + to : nullptr, keys, rest);
      }
    };
    parallel_for(values.numel() / rows.inner * tiles, grain_for(rows.n * tile * 4), part);
  });
  write_back(values, found);
  if (indices) write_back(*indices, positions);
}

void select_dim(const Tensor& x, int64_t dim, const Wanted& wanted, Tensor& values,
                Tensor& indices) {
  Rows rows{1, 1};
  if (x.dim() > 0) rows.n = x.size(wrapped(dim, x.dim()));
  for (int d = static_cast<int>(dim) + 1; d < x.dim(); ++d) rows.inner *= x.size(d);
  select_each(x, rows, wanted, values, &indices);
}

void select_all(const Tensor& x, const Wanted& wanted, Tensor& y) {
  if (x.numel() > 0) return select_each(x, {x.numel(), 1}, wanted, y, nullptr);
  visit<dtypes::floating>(y.dtype(), [&]<class T>() {
    *y.elements<T>() = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
  });
}

}  // namespace

void kthvalue(const Tensor& x, int64_t k, int64_t dim, bool, Tensor& values, Tensor& indices) {
  select_dim(x, dim, {Which::Rank, k - 1}, values, indices);
}

void median(const Tensor& x, Tensor& y) { select_all(x, {Which::Median}, y); }
void nanmedian(const Tensor& x, Tensor& y) { select_all(x, {Which::NanMedian}, y); }
void median_dim(const Tensor& x, int64_t dim, bool, Tensor& values, Tensor& indices) {
  select_dim(x, dim, {Which::Median}, values, indices);
}
void nanmedian_dim(const Tensor& x, int64_t dim, bool, Tensor& values, Tensor& indices) {
  select_dim(x, dim, {Which::NanMedian}, values, indices);
}

}  // namespace moonlet::cpu

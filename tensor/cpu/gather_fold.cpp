// tensor/cpu/gather_fold.cpp: slices added to others at positions, in the order of the source,
// whatever the number of threads.
#include <algorithm>
#include <numeric>
#include <vector>

#include "tensor/cpu/contiguous.h"
#include "tensor/cpu/convert.h"
#include "tensor/cpu/gather.h"
#include "tensor/kernels_copy.h"
#include "tensor/views.h"

namespace moonlet::cpu {

namespace {

// The sums (blocks, size, inner) and what is added to them, (blocks, n, inner).
struct Rows {
  int64_t blocks, size, n, inner;
};

// The columns that one thread adds: all, unless there are fewer blocks than threads.
int64_t columns_of(const Rows& rows) {
  constexpr int64_t kLeast = 128;
  const int threads = thread_count(rows.blocks * rows.n * rows.inner, kGrain);
  const int64_t shared = (threads + rows.blocks - 1) / rows.blocks;
  return std::max(kLeast, (rows.inner + shared - 1) / shared);
}

// Adds row i of a block, `width` of its columns, to row at[i].
template <class T>
void add_block(T* sums, const T* row, const int64_t* at, const Rows& rows, int64_t width,
               int64_t skipped) {
  const int64_t inner = rows.inner;
  serial_for(rows.n, width, [=](int64_t first, int64_t last) {
    if (inner == 1) {
      for (int64_t i = first; i < last; ++i)
        if (at[i] != skipped) sums[at[i] - 1] = added(sums[at[i] - 1], row[i]);
      return;
    }
    for (int64_t i = first; i < last; ++i) {
      if (at[i] == skipped) continue;
      T* sum = sums + (at[i] - 1) * inner;
      const T* from = row + i * inner;
      for (int64_t j = 0; j < width; ++j) sum[j] = added(sum[j], from[j]);
    }
  });
}

// Adds row i of each block to row at[i]; position `skipped` is left out. Threads have blocks and
// columns of their own, so every sum is made in the order of the positions.
template <class T>
void add_rows(T* to, const T* from, const int64_t* at, const Rows& rows, int64_t skipped = 0) {
  const int64_t columns = columns_of(rows), parts = (rows.inner + columns - 1) / columns;
  const int64_t work = rows.n * std::min(rows.inner, columns);
  parallel_for(rows.blocks * parts, grain_for(work), [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const int64_t block = k / parts, column = k % parts * columns;
      add_block(to + block * rows.size * rows.inner + column,
                from + block * rows.n * rows.inner + column, at, rows,
                std::min(columns, rows.inner - column), skipped);
    }
  });
}

// Adds slices of `whole`, which has been summands, to those of x; position `skipped` is left out.
void add_slices(Tensor& given, int64_t dim, const int64_t* at, int64_t n, const Tensor& whole,
                int64_t skipped) {
  const int64_t blocks = blocks_before(whole, dim);
  const Rows rows{blocks, size_along(given, dim), n, whole.numel() / (blocks * n)};
  add_to(given, [&](Tensor& sums) {
    visit<kSummed>(sums.dtype(), [&]<class T>() {
      add_rows(sums.elements<T>(), whole.elements<T>(), at, rows, skipped);
    });
  });
}

// The same where few slices of a large x are named and x is narrower than its sums: only those are
// brought to the wider dtype and back.
void add_few_slices(Tensor& x, int64_t dim, const int64_t* at, int64_t n, const Tensor& whole,
                    int64_t skipped) {
  std::vector<int64_t> named(at, at + n);
  std::sort(named.begin(), named.end());
  named.erase(std::unique(named.begin(), named.end()), named.end());
  const auto number = [&](int64_t position) {
    return std::lower_bound(named.begin(), named.end(), position) - named.begin() + 1;
  };
  std::vector<int64_t> numbers(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) numbers[static_cast<size_t>(i)] = number(at[i]);
  const bool skips = std::binary_search(named.begin(), named.end(), skipped);
  const auto count = static_cast<int64_t>(named.size());
  const Tensor positions = from_blob(named.data(), {count}, DType::Int64);
  Dims sizes = x.sizes();
  sizes[static_cast<int>(dim)] = count;
  Tensor slices = empty_plain(sizes, options_of(x), "index_add");
  copy_slices(x, static_cast<int>(dim), positions, slices);
  add_slices(slices, dim, numbers.data(), n, whole, skips ? number(skipped) : 0);
  put_slices(x, dim, positions, slices);
}

// The numbers of a list of positions by what they hold: numbers[first[t]] up to first[t + 1] are
// those of position t, in their order.
struct ByTarget {
  ByTarget(const int64_t* at, int64_t n, int64_t size)
      : first(static_cast<size_t>(size) + 2), numbers(static_cast<size_t>(n)) {
    for (int64_t i = 0; i < n; ++i) ++first[static_cast<size_t>(at[i])];
    std::partial_sum(first.begin(), first.end(), first.begin());
    for (int64_t i = n - 1; i >= 0; --i)
      numbers[static_cast<size_t>(--first[static_cast<size_t>(at[i])])] = i;
  }
  std::vector<int64_t> first, numbers;
};

// Rows of 16-bit floats of one block: for each target the sum in float32 of `width` columns.
struct TargetRows {
  constexpr static int64_t kColumns = 1024;
  TargetRows(DType dtype, const ByTarget& by_target, const Rows& all, int64_t skipped_target)
      : targets(by_target), rows(all), skipped(skipped_target) {
    widen = dense_converter(dtype, DType::Float32);
    narrow = dense_converter(DType::Float32, dtype);
  }
  void add(char* to, const char* from, int64_t width) const {
    constexpr int64_t kBytes = 2;
    float sum[kColumns], row[kColumns];
    const auto count = static_cast<size_t>(width);
    const int64_t pitch = rows.inner * kBytes;
    serial_for(rows.size, (rows.n / rows.size + 1) * width, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t* first = targets.first.data() + t + 1;
        if (first[0] == first[1] || t + 1 == skipped) continue;
        widen(to + t * pitch, sum, count);
        for (int64_t i = first[0]; i < first[1]; ++i) {
          if ((i - first[0]) % kStopBlock == kStopBlock - 1) stop_if_requested();
          ask_for(from, static_cast<size_t>(i) + 1, pitch, width * kBytes);
          widen(from + targets.numbers[static_cast<size_t>(i)] * pitch, row, count);
          for (size_t j = 0; j < count; ++j) sum[j] += row[j];
        }
        narrow(sum, to + t * pitch, count);
      }
    });
  }
  // Prefetches the i-th row in this order, which the hardware cannot foresee.
  void ask_for(const char* from, size_t i, int64_t pitch, int64_t bytes) const {
    if (i >= targets.numbers.size()) return;
    const char* row = from + targets.numbers[i] * pitch;
    for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(row + at);
  }
  const ByTarget& targets;
  const Rows rows;
  const int64_t skipped;
  DenseConverter widen, narrow;
};

// Adds slices of `source` to those of x, both contiguous and of one 16-bit dtype, without float32
// copies of either.
void add_by_target(Tensor& x, int64_t dim, const Tensor& positions, const Tensor& source,
                   int64_t skipped) {
  const int64_t blocks = blocks_before(x, dim), n = positions.numel(), size = size_along(x, dim);
  const Rows rows{blocks, size, n, x.numel() / (blocks * size)};
  const ByTarget targets(positions.elements<int64_t>(), n, size);
  const TargetRows body(x.dtype(), targets, rows, skipped);
  const int64_t columns = std::min(columns_of(rows), TargetRows::kColumns);
  const int64_t parts = (rows.inner + columns - 1) / columns, bytes = 2;
  const int64_t work = n * std::min(rows.inner, columns);
  parallel_for(blocks * parts, grain_for(work), [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const int64_t block = k / parts, column = k % parts * columns;
      body.add(x.raw() + (block * size * rows.inner + column) * bytes,
               source.raw() + (block * n * rows.inner + column) * bytes,
               std::min(columns, rows.inner - column));
    }
  });
}

// Whether that is worth it: the rows are long enough for a call each.
bool adds_by_target(const Tensor& x, int64_t dim, const Tensor& positions, const Tensor& source) {
  constexpr int64_t kLeast = 32;
  if (!is_reduced_floating(x.dtype()) || source.dtype() != x.dtype() || !x.is_contiguous())
    return false;
  const int64_t size = size_along(x, dim), n = positions.numel();
  return x.numel() / (blocks_before(x, dim) * size) >= kLeast && n >= size / 4;
}

// Adds one number at each position of a 1-D x: what counts need no tensor of ones for.
void add_number(Tensor& x, const Tensor& positions, const Tensor& source) {
  const int64_t* at = positions.elements<int64_t>();
  visit<kSummed>(x.dtype(), [&]<class T>() {
    T* const sums = x.elements<T>();
    const T number = *source.elements<T>();
    serial_for(positions.numel(), 4, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) sums[at[i] - 1] = added(sums[at[i] - 1], number);
    });
  });
}

// Whether the elements of a 1-D source are one in memory, and x is where they can be added.
bool adds_number(const Tensor& x, const Tensor& source) {
  return x.dim() == 1 && source.dim() == 1 && source.stride(0) == 0 && x.is_contiguous() &&
         source.dtype() == x.dtype() && sum_dtype(x.dtype()) == x.dtype();
}

void add_at(Tensor& x, int64_t dim, const Tensor& positions, const Tensor& source,
            int64_t skipped) {
  if (skipped == 0 && adds_number(x, source)) return add_number(x, positions, source);
  if (adds_by_target(x, dim, positions, source))
    return add_by_target(x, dim, positions, contiguous(source), skipped);
  const Tensor whole = summands(source);
  const int64_t n = positions.numel(), *at = positions.elements<int64_t>();
  const bool few = n < kStopBlock && n < size_along(x, dim) / 4;
  if (few && sum_dtype(x.dtype()) != x.dtype())
    return add_few_slices(x, dim, at, n, whole, skipped);
  add_slices(x, dim, at, n, whole, skipped);
}

}  // namespace

void index_add(Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  const Tensor positions = checked_positions("index_add", index, size_along(x, dim));
  if (source.numel() == 0) return;
  MemoryOrder to(x, dim);
  add_at(to.x, to.dim, positions, to.source(source), 0);
}

void embedding_grad_weight(const Tensor& grad, const Tensor& index, int64_t rows,
                           int64_t padding_idx, Tensor& y) {
  const Tensor positions = checked_positions("embedding_grad_weight", index, rows);
  zero_bytes(y.raw(), y.numel() * static_cast<int64_t>(size_of(y.dtype())));
  if (y.numel() == 0 || positions.numel() == 0) return;
  const Tensor g = contiguous(grad);
  add_at(y, 0, positions, views::view(g, {positions.numel(), y.size(1)}), padding_idx);
}

}  // namespace moonlet::cpu

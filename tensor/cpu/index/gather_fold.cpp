// tensor/cpu/index/gather_fold.cpp: slices added to others, multiplied or otherwise joined with
// them at positions, in the order of the source, whatever the number of threads.
#include <algorithm>
#include <numeric>
#include <vector>

#include "tensor/core/views.h"
#include "tensor/cpu/common/contiguous.h"
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/copy/convert.h"
#include "tensor/cpu/index/gather.h"
#include "tensor/kernels_copy.h"

namespace moonlet::cpu {

namespace {

// What becomes of slices that come to one position.
struct SliceFold {
  ScatterFold kind = ScatterFold::Add;
  bool include_self = true;   // what is at the position counts too
  int64_t skipped = 0;        // a position whose slices are left out
  Scalar scale = int64_t{1};  // slices that are added are multiplied by this first
};

// Calls f(join) with the function that joins an element of type T with one that comes to its
// position.
template <class T, class F>
void visit_join(const SliceFold& fold, F&& f) {
  if constexpr (!is_complex_v<T>) {
    switch (fold.kind) {
      case ScatterFold::Multiply:
        return f([](T a, T b) { return joined<ScatterFold::Multiply>(a, b); });
      case ScatterFold::Max: return f([](T a, T b) { return joined<ScatterFold::Max>(a, b); });
      case ScatterFold::Min: return f([](T a, T b) { return joined<ScatterFold::Min>(a, b); });
      default: break;
    }
  }
  const T scale = fold.scale.to<T>();
  if (scale == T(1)) return f([](T a, T b) { return added(a, b); });
  f([scale](T a, T b) { return added(a, joined<ScatterFold::Multiply>(scale, b)); });
}

// The positions of slices, each in 1..size.
struct Entries {
  Entries(const SliceFold& fold, const int64_t* positions, int64_t n, int64_t size)
      : at(positions), skipped(fold.skipped) {
    const bool averages = fold.kind == ScatterFold::Mean;
    if (fold.include_self && !averages) return;
    counts.assign(static_cast<size_t>(size), 0);
    if (!fold.include_self) starts.resize(static_cast<size_t>(n));
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      int64_t& count = counts[static_cast<size_t>(at[i] - 1)];
      if (!fold.include_self) starts[i] = count == 0;
      ++count;
    }
    if (!averages) counts.clear();
    if (fold.include_self)
      for (int64_t& count : counts) ++count;
  }
  const int64_t* at;
  int64_t skipped;
  std::vector<char> starts;     // empty, or whether slice i replaces what is at its position
  std::vector<int64_t> counts;  // empty, or of how many slices each position is the mean
};

// What is written to (blocks, size, inner) and what comes to it, (blocks, n, inner).
struct Rows {
  int64_t blocks, size, n, inner;
};

// The columns that one thread does: all, unless there are fewer blocks than threads.
int64_t columns_of(const Rows& rows) {
  constexpr int64_t kLeast = thresholds::index::kFoldColumns;
  const int threads = thread_count(rows.blocks * rows.n * rows.inner, kGrain);
  const int64_t shared = (threads + rows.blocks - 1) / rows.blocks;
  return std::max(kLeast, (rows.inner + shared - 1) / shared);
}

// Joins row i of a block, `width` of its columns, with row at[i].
template <class T, class Join>
void join_block(T* to, const T* from, const Entries& entries, const Rows& rows, int64_t width,
                const Join& join) {
  const int64_t inner = rows.inner, skipped = entries.skipped, *at = entries.at;
  const char* starts = entries.starts.empty() ? nullptr : entries.starts.data();
  serial_for(rows.n, width, [=](int64_t first, int64_t last) {
    if (inner == 1 && starts == nullptr) {
      for (int64_t i = first; i < last; ++i)
        if (at[i] != skipped) to[at[i] - 1] = join(to[at[i] - 1], from[i]);
      return;
    }
    for (int64_t i = first; i < last; ++i) {
      if (at[i] == skipped) continue;
      T* target = to + (at[i] - 1) * inner;
      const T* row = from + i * inner;
      if (starts != nullptr && starts[i] != 0)
        std::copy_n(row, width, target);
      else
        for (int64_t j = 0; j < width; ++j) target[j] = join(target[j], row[j]);
    }
  });
}

// Divides the rows of a block, `width` of their columns, by the numbers of what is in them.
template <class T>
void average_block(T* to, const Entries& entries, const Rows& rows, int64_t width) {
  if constexpr (is_complex_v<T>) return;
  serial_for(rows.size, width, [&](int64_t first, int64_t last) {
    for (int64_t t = first; t < last; ++t) {
      const int64_t count = entries.counts[static_cast<size_t>(t)];
      T* row = to + t * rows.inner;
      if (count > 1)
        for (int64_t j = 0; j < width; ++j) row[j] = averaged(row[j], count);
    }
  });
}

// Joins row i of each block with row at[i]. Threads have blocks and columns of their own, so all
// that comes to a row does in the order of the positions.
template <class T, class Join>
void join_rows(T* to, const T* from, const Entries& entries, const Rows& rows, const Join& join) {
  const int64_t columns = columns_of(rows), parts = (rows.inner + columns - 1) / columns;
  const int64_t work = rows.n * std::min(rows.inner, columns);
  parallel_for(rows.blocks * parts, grain_for(work), [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const int64_t block = k / parts, column = k % parts * columns;
      const int64_t width = std::min(columns, rows.inner - column);
      T* part = to + block * rows.size * rows.inner + column;
      join_block(part, from + block * rows.n * rows.inner + column, entries, rows, width, join);
      if (!entries.counts.empty()) average_block(part, entries, rows, width);
    }
  });
}

// Joins slices of `whole`, which has been summands, with those of x.
void fold_slices(const SliceFold& fold, Tensor& given, int64_t dim, const int64_t* at, int64_t n,
                 const Tensor& whole) {
  const int64_t blocks = blocks_before(whole, dim);
  const Rows rows{blocks, size_along(given, dim), n, whole.numel() / (blocks * n)};
  const Entries entries(fold, at, n, rows.size);
  add_to(given, [&](Tensor& x) {
    visit<kSummed>(x.dtype(), [&]<class T>() {
      visit_join<T>(fold, [&](const auto& join) {
        join_rows(x.elements<T>(), whole.elements<T>(), entries, rows, join);
      });
    });
  });
}

// The same where few slices of a large x are named and x is narrower than its sums: only those are
// brought to the wider dtype and back.
void fold_few_slices(const SliceFold& fold, Tensor& x, int64_t dim, const int64_t* at, int64_t n,
                     const Tensor& whole) {
  std::vector<int64_t> named(at, at + n);
  std::sort(named.begin(), named.end());
  named.erase(std::unique(named.begin(), named.end()), named.end());
  const auto number = [&](int64_t position) {
    return std::lower_bound(named.begin(), named.end(), position) - named.begin() + 1;
  };
  std::vector<int64_t> numbers(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) numbers[static_cast<size_t>(i)] = number(at[i]);
  const bool skips = std::binary_search(named.begin(), named.end(), fold.skipped);
  const auto count = static_cast<int64_t>(named.size());
  const Tensor positions = from_blob(named.data(), {count}, DType::Int64);
  Dims sizes = x.sizes();
  sizes[static_cast<int>(dim)] = count;
  Tensor slices = empty_plain(sizes, options_of(x), "index_add");
  copy_slices(x, static_cast<int>(dim), positions, slices);
  SliceFold numbered = fold;
  numbered.skipped = skips ? number(fold.skipped) : 0;
  fold_slices(numbered, slices, dim, numbers.data(), n, whole);
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

// Rows of 16-bit floats of one block: what comes to each target is joined in float32, by pieces of
// `width` columns.
template <class T>
struct TargetRows {
  constexpr static int64_t kColumns = 1024;
  TargetRows(const ByTarget& by_target, const Rows& all, const SliceFold& given)
      : targets(by_target), rows(all), fold(given), how(fold_of(given.kind)) {
    widen = dense_converter(dtype_of<T>, DType::Float32);
    narrow = dense_converter(DType::Float32, dtype_of<T>);
  }
  void add(T* to, const T* from, int64_t width) const {
    serial_for(rows.size, (rows.n / rows.size + 1) * width, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t* first = targets.first.data() + t + 1;
        if (first[0] < first[1] && t + 1 != fold.skipped)
          add_row(to + t * rows.inner, from, first[0], first[1], width);
      }
    });
  }

 private:
  static Fold fold_of(ScatterFold kind) {
    switch (kind) {
      case ScatterFold::Multiply: return Fold::Product;
      case ScatterFold::Max: return Fold::Max;
      case ScatterFold::Min: return Fold::Min;
      default: return Fold::Sum;
    }
  }
  void add_row(T* to, const T* from, int64_t begin, int64_t end, int64_t width) const {
    float sum[kColumns];
    const auto columns = static_cast<size_t>(width);
    const int64_t count = end - begin + (fold.include_self ? 1 : 0);
    widen(fold.include_self ? to : row_of(from, begin++), sum, columns);
    for (int64_t i = begin; i < end; ++i) {
      if ((i - begin) % kStopBlock == kStopBlock - 1) stop_if_requested();
      ask_for(from, i + 1, width);
      join(sum, row_of(from, i), width);
    }
    if (fold.kind == ScatterFold::Mean)
      for (size_t j = 0; j < columns; ++j) sum[j] = averaged(sum[j], count);
    narrow(sum, to, columns);
  }
  void join(float* sum, const T* row, int64_t width) const {
    const auto scale = fold.scale.to<float>();
    if (scale == 1.0F) return fold_rows(how, sum, row, 1, 0, width);
    float more[kColumns];
    widen(row, more, static_cast<size_t>(width));
    for (int64_t j = 0; j < width; ++j) sum[j] += scale * more[j];
  }
  const T* row_of(const T* from, int64_t i) const {
    return from + targets.numbers[static_cast<size_t>(i)] * rows.inner;
  }
  // Prefetches the i-th row in this order, which the hardware cannot foresee.
  void ask_for(const T* from, int64_t i, int64_t width) const {
    if (i >= rows.n) return;
    constexpr int64_t kLine = 64 / sizeof(T);
    for (int64_t at = 0; at < width; at += kLine) __builtin_prefetch(row_of(from, i) + at);
  }
  const ByTarget& targets;
  const Rows rows;
  const SliceFold& fold;
  const Fold how;
  DenseConverter widen, narrow;
};

// Joins slices of `source` with those of x, both contiguous and of one 16-bit dtype, without
// float32 copies of either.
void fold_by_target(const SliceFold& fold, Tensor& x, int64_t dim, const Tensor& positions,
                    const Tensor& source) {
  const int64_t blocks = blocks_before(x, dim), n = positions.numel(), size = size_along(x, dim);
  const Rows rows{blocks, size, n, x.numel() / (blocks * size)};
  const ByTarget targets(positions.elements<int64_t>(), n, size);
  visit<dtypes::reduced_floating>(x.dtype(), [&]<class T>() {
    const TargetRows<T> body(targets, rows, fold);
    const int64_t columns = std::min(columns_of(rows), TargetRows<T>::kColumns);
    const int64_t parts = (rows.inner + columns - 1) / columns;
    const int64_t work = n * std::min(rows.inner, columns);
    parallel_for(blocks * parts, grain_for(work), [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        const int64_t block = k / parts, column = k % parts * columns;
        body.add(x.elements<T>() + block * size * rows.inner + column,
                 source.elements<T>() + block * n * rows.inner + column,
                 std::min(columns, rows.inner - column));
      }
    });
  });
}

// Whether that is worth it: the rows are long enough for a call each.
bool folds_by_target(const Tensor& x, int64_t dim, const Tensor& positions, const Tensor& source) {
  constexpr int64_t kLeast = thresholds::index::kFoldedRow;
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

// Joins the slices of `source` with those of x at checked positions.
void fold_at(const SliceFold& fold, Tensor& x, int64_t dim, const Tensor& positions,
             const Tensor& source) {
  if (folds_by_target(x, dim, positions, source))
    return fold_by_target(fold, x, dim, positions, contiguous(source));
  const Tensor whole = summands(source);
  const int64_t n = positions.numel(), *at = positions.elements<int64_t>();
  const bool few = n < kStopBlock && n < size_along(x, dim) / 4;
  if (few && sum_dtype(x.dtype()) != x.dtype()) return fold_few_slices(fold, x, dim, at, n, whole);
  fold_slices(fold, x, dim, at, n, whole);
}

}  // namespace

void index_add(Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  const Tensor positions = checked_positions("index_add", index, size_along(x, dim));
  if (source.numel() == 0) return;
  if (adds_number(x, source)) return add_number(x, positions, source);
  MemoryOrder to(x, dim);
  fold_at({}, to.x, to.dim, positions, to.source(source));
}

void index_add_scaled(Tensor& x, int64_t dim, const Tensor& index, const Tensor& source,
                      Scalar alpha) {
  const Tensor positions = checked_positions("index_add", index, size_along(x, dim));
  if (source.numel() == 0) return;
  MemoryOrder to(x, dim);
  SliceFold fold;
  fold.scale = alpha;
  fold_at(fold, to.x, to.dim, positions, to.source(source));
}

void index_reduce(Tensor& x, int64_t dim, const Tensor& index, const Tensor& source,
                  std::string_view reduce, bool include_self) {
  const Tensor positions = checked_positions("index_reduce", index, size_along(x, dim));
  if (source.numel() == 0) return;
  MemoryOrder to(x, dim);
  fold_at({scatter_fold_of(reduce), include_self}, to.x, to.dim, positions, to.source(source));
}

void embedding_grad_weight(const Tensor& grad, const Tensor& index, int64_t rows,
                           int64_t padding_idx, Tensor& y) {
  const Tensor positions = checked_positions("embedding_grad_weight", index, rows);
  zero_bytes(y.raw(), y.numel() * static_cast<int64_t>(size_of(y.dtype())));
  if (y.numel() == 0 || positions.numel() == 0) return;
  const Tensor g = contiguous(grad);
  SliceFold fold;
  fold.skipped = padding_idx;
  fold_at(fold, y, 0, positions, views::view(g, {positions.numel(), y.size(1)}));
}

}  // namespace moonlet::cpu

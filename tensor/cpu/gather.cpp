// tensor/cpu/gather.cpp: gather, index_select, index_add, index_copy and embedding. Additions are
// made in the order of the source, whatever the number of threads.
#include "tensor/cpu/gather.h"
#include "tensor/cpu/contiguous.h"
#include "tensor/kernels_copy.h"

namespace moonlet::cpu {

namespace {

// The sums (blocks, size, inner) and what is added to them, (blocks, n, inner).
struct Rows {
  int64_t blocks, size, n, inner;
};

// Adds row i of each block to row at[i]; position `skipped` is left out. Threads have blocks and
// columns of their own, so every sum is made in the order of the positions.
template <class T>
void add_rows(T* to, const T* from, const int64_t* at, const Rows& rows, int64_t skipped = 0) {
  constexpr int64_t kColumns = 128;
  const int64_t parts = (rows.inner + kColumns - 1) / kColumns;
  const int64_t work = rows.n * std::min(rows.inner, kColumns);
  parallel_for(rows.blocks * parts, grain_for(work), [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const int64_t block = k / parts, column = k % parts * kColumns;
      const int64_t width = std::min(kColumns, rows.inner - column);
      T* sums = to + block * rows.size * rows.inner + column;
      const T* row = from + block * rows.n * rows.inner + column;
      serial_for(rows.n, width, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i, row += rows.inner) {
          if (at[i] == skipped) continue;
          T* sum = sums + (at[i] - 1) * rows.inner;
          for (int64_t j = 0; j < width; ++j) sum[j] = added(sum[j], row[j]);
        }
      });
    }
  });
}

// Rows of `bytes` each, in blocks that have `size` of them in the source; `count` of each block are
// copied, row i from position at[i].
struct RowCopies {
  int64_t blocks, size, count, bytes;
};

template <class Copy>
void each_row(const RowCopies& rows, const char* from, const int64_t* at, char* to, Copy&& copy) {
  const int64_t all = rows.blocks * rows.count;
  parallel_for(all, grain_for(rows.bytes / 4 + 1), [&](int64_t begin, int64_t end) {
    int64_t first = begin / rows.count * rows.size, i = begin % rows.count;
    for (int64_t r = begin; r < end; ++r) {
      copy(to + r * rows.bytes, from + (first + at[i] - 1) * rows.bytes);
      if (++i == rows.count) i = 0, first += rows.size;
    }
  });
}

void copy_rows(const RowCopies& rows, const char* from, const int64_t* at, char* to) {
  // Copies of a known length are a load and a store.
  const auto fixed = [&]<size_t kBytes>(std::integral_constant<size_t, kBytes>) {
    each_row(rows, from, at, to, [](char* out, const char* in) { std::memcpy(out, in, kBytes); });
  };
  switch (rows.bytes) {
    case 1: return fixed(std::integral_constant<size_t, 1>());
    case 2: return fixed(std::integral_constant<size_t, 2>());
    case 4: return fixed(std::integral_constant<size_t, 4>());
    case 8: return fixed(std::integral_constant<size_t, 8>());
    case 12: return fixed(std::integral_constant<size_t, 12>());
    case 16: return fixed(std::integral_constant<size_t, 16>());
  }
  each_row(rows, from, at, to, [&](char* out, const char* in) { copy_bytes(out, in, rows.bytes); });
}

}  // namespace

void gather(const Tensor& x, int64_t given_dim, const Tensor& index, Tensor& y) {
  const int dim = wrap_dim(given_dim, x.dim(), "gather");
  if (y.numel() == 0) return;
  const Tensor positions = checked_positions("gather", index, size_along(x, dim));
  const IndexedElements elements(x, dim, positions);
  visit_bytes(x.dtype(), [&]<class T>() {
    const T* from = x.elements<T>();
    T* to = y.elements<T>();
    parallel_for(elements.rows, grain_for(elements.width * 4), [&](int64_t begin, int64_t end) {
      elements.each(begin, end, [&](int64_t i, int64_t place) { to[i] = from[place]; });
    });
  });
}

void index_select(const Tensor& given, int64_t given_dim, const Tensor& index, Tensor& y) {
  const int dim = wrap_dim(given_dim, given.dim(), "index_select");
  const Tensor positions = checked_positions("index_select", index, size_along(given, dim));
  if (y.numel() == 0) return;
  const Tensor x = contiguous(given);
  const int64_t blocks = blocks_before(x, dim), size = size_along(x, dim), n = positions.numel();
  const int64_t row = x.numel() / (blocks * size) * static_cast<int64_t>(size_of(x.dtype()));
  copy_rows({blocks, size, n, row}, x.raw(), positions.elements<int64_t>(), y.raw());
}

void index_add(Tensor& x, int64_t given_dim, const Tensor& index, const Tensor& source) {
  const int dim = wrap_dim(given_dim, x.dim(), "index_add");
  const Tensor positions = checked_positions("index_add", index, size_along(x, dim));
  if (source.numel() == 0) return;
  const Tensor whole = summands(source);
  const int64_t blocks = blocks_before(whole, dim), n = positions.numel();
  const Rows rows{blocks, size_along(x, dim), n, whole.numel() / (blocks * n)};
  add_to(x, [&](Tensor& sums) {
    visit<kSummed>(sums.dtype(), [&]<class T>() {
      add_rows(sums.elements<T>(), whole.elements<T>(), positions.elements<int64_t>(), rows);
    });
  });
}

namespace {

// Writes rows over x (blocks, size, inner) at positions: row i of block b lies at `from` plus b *
// block_step plus i * row_step bytes.
void put_rows(const char* op, Tensor& given, int64_t given_dim, const Tensor& index,
              const char* from, int64_t block_step, int64_t row_step) {
  const int dim = wrap_dim(given_dim, given.dim(), op);
  const Tensor positions = checked_positions(op, index, size_along(given, dim));
  if (given.numel() == 0 || positions.numel() == 0) return;
  Tensor x = contiguous(given);
  const int64_t blocks = blocks_before(x, dim), size = size_along(x, dim), n = positions.numel();
  const int64_t row = x.numel() / (blocks * size) * static_cast<int64_t>(size_of(x.dtype()));
  const int64_t* at = positions.elements<int64_t>();
  parallel_for(blocks, grain_for(n * row / 4 + 16), [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      char* to = x.raw() + b * size * row;
      serial_for(n, row / 4 + 1, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i)
          copy_bytes(to + (at[i] - 1) * row, from + b * block_step + i * row_step, row);
      });
    }
  });
  if (!x.is_same(given)) copy_into(given, x);
}

}  // namespace

void index_copy(Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  const Tensor rows = contiguous(source);
  const int64_t bytes = rows.numel() * static_cast<int64_t>(size_of(rows.dtype()));
  const int64_t blocks = std::max<int64_t>(blocks_before(x, dim), 1);
  const int64_t block = bytes / blocks, count = std::max<int64_t>(index.numel(), 1);
  put_rows("index_copy", x, dim, index, rows.raw(), block, block / count);
}

void index_fill(Tensor& x, int64_t dim, const Tensor& index, Scalar value) {
  const int64_t places = std::max<int64_t>(blocks_before(x, dim) * size_along(x, dim), 1);
  Tensor row = empty_plain({x.numel() / places}, options_of(x), "index_fill");
  fill(row, value);
  put_rows("index_fill", x, dim, index, row.raw(), 0, 0);
}

void embedding(const Tensor& weight, const Tensor& index, int64_t, bool, Tensor& y) {
  const Tensor positions = checked_positions("embedding", index, weight.size(0));
  if (y.numel() == 0) return;
  const Tensor x = contiguous(weight);
  const int64_t row = x.size(1) * static_cast<int64_t>(size_of(x.dtype()));
  copy_rows({1, x.size(0), positions.numel(), row}, x.raw(), positions.elements<int64_t>(),
            y.raw());
}

void embedding_grad_weight(const Tensor& grad, const Tensor& index, int64_t rows,
                           int64_t padding_idx, Tensor& y) {
  const Tensor positions = checked_positions("embedding_grad_weight", index, rows);
  zero_bytes(y.raw(), y.numel() * static_cast<int64_t>(size_of(y.dtype())));
  if (y.numel() == 0 || positions.numel() == 0) return;
  const Tensor g = summands(grad);
  const Rows shape{1, rows, positions.numel(), y.size(1)};
  add_to(y, [&](Tensor& sums) {
    visit<kSummed>(sums.dtype(), [&]<class T>() {
      add_rows(sums.elements<T>(), g.elements<T>(), positions.elements<int64_t>(), shape,
               padding_idx);
    });
  });
}

}  // namespace moonlet::cpu

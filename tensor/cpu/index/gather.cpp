// tensor/cpu/index/gather.cpp: gather, embedding, and slices read and written at positions.
#include "tensor/cpu/index/gather.h"

#include <algorithm>

#include "tensor/core/views.h"
#include "tensor/cpu/common/contiguous.h"
#include "tensor/cpu/common/thresholds.h"
#include "tensor/kernels_copy.h"

namespace moonlet::cpu {

namespace {

// Copies of rows of a length that is known when this is compiled, and of any other length.
template <int64_t kBytes>
struct FixedCopy {
  static constexpr int64_t bytes = kBytes;
  void operator()(char* to, const char* from) const { std::memcpy(to, from, kBytes); }
};
struct AnyCopy {
  int64_t bytes;
  void operator()(char* to, const char* from) const { copy_bytes(to, from, bytes); }
};

// Calls f(copy) with what copies `bytes` from one position to another; of a known length that is a
// load and a store.
template <class F>
void with_row_copy(int64_t bytes, F&& f) {
  switch (bytes) {
    case 1: return f(FixedCopy<1>());
    case 2: return f(FixedCopy<2>());
    case 4: return f(FixedCopy<4>());
    case 8: return f(FixedCopy<8>());
    case 12: return f(FixedCopy<12>());
    case 16: return f(FixedCopy<16>());
    case 64: return f(FixedCopy<64>());
    case 128: return f(FixedCopy<128>());
    case 256: return f(FixedCopy<256>());
  }
  f(AnyCopy{bytes});
}

// Rows of `bytes` each, in blocks that have `size` of them in the source; `count` of each block are
// copied, row i from position at[i].
struct RowCopies {
  int64_t blocks, size, count, bytes;
};

// Copies the rows at[0], at[1], ... of one block, one after the other. Long ones are asked for some
// time before, as the hardware cannot foresee where they lie.
template <class Copy>
void copy_block(char* to, const char* from, const int64_t* at, int64_t count, const Copy copy) {
  constexpr int64_t kLine = 64, kAhead = thresholds::index::kAhead,
                    kMostLines = thresholds::index::kMostLines;
  const int64_t bytes = copy.bytes;
  const int64_t asked = std::min(bytes, kMostLines * kLine);
  int64_t i = 0;
  // Positions are read some at a time: for all that the compiler knows, copies change them.
  for (; bytes < kLine && i + 4 <= count; i += 4) {
    const int64_t positions[] = {at[i] - 1, at[i + 1] - 1, at[i + 2] - 1, at[i + 3] - 1};
    for (int64_t j = 0; j < 4; ++j) copy(to + (i + j) * bytes, from + positions[j] * bytes);
  }
  for (; bytes >= kLine && i + kAhead < count; ++i) {
    const char* later = from + (at[i + kAhead] - 1) * bytes;
    for (int64_t line = 0; line < asked; line += kLine) __builtin_prefetch(later + line);
    copy(to + i * bytes, from + (at[i] - 1) * bytes);
  }
  for (; i < count; ++i) copy(to + i * bytes, from + (at[i] - 1) * bytes);
}

void copy_rows(const RowCopies& rows, const char* from, const int64_t* at, char* to) {
  with_row_copy(rows.bytes, [&](auto copy) {
    const int64_t all = rows.blocks * rows.count;
    parallel_for(all, grain_for(rows.bytes / 4 + 1), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end;) {
        const int64_t block = r / rows.count, i = r % rows.count;
        const int64_t count = std::min(rows.count - i, end - r);
        copy_block(to + r * rows.bytes, from + block * rows.size * rows.bytes, at + i, count, copy);
        r += count;
      }
    });
  });
}

}  // namespace

void gather(const Tensor& x, int64_t given_dim, const Tensor& index, Tensor& y) {
  const int dim = wrapped(given_dim, x.dim());
  if (y.numel() == 0) return;
  const Tensor positions = plain_positions(index);
  const IndexedElements elements(x, dim, positions, "gather");
  visit_bytes(x.dtype(), [&]<class T>() {
    const T* from = x.elements<T>();
    T* to = y.elements<T>();
    parallel_for(elements.rows, grain_for(elements.width * 4), [&](int64_t begin, int64_t end) {
      elements.each(begin, end, [=](int64_t i, int64_t position) { to[i] = from[position]; });
    });
  });
}

void copy_slices(const Tensor& given, int dim, const Tensor& positions, Tensor& y) {
  const int64_t size = size_along(given, dim), n = positions.numel(), slice = given.numel() / size;
  const int64_t* at = positions.elements<int64_t>();
  constexpr int64_t kCopyCost = thresholds::index::kCopyCost;
  if (!given.is_contiguous() && 2 * n * (slice + kCopyCost) < given.numel()) {
    serial_for(n, slice + kCopyCost, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        Tensor part = views::select(y, dim, i);
        copy_into(part, views::select(given, dim, at[i] - 1));
      }
    });
    return;
  }
  const Tensor x = contiguous(given);
  const int64_t blocks = blocks_before(x, dim);
  const int64_t row = slice / blocks * static_cast<int64_t>(size_of(x.dtype()));
  copy_rows({blocks, size, n, row}, x.raw(), at, y.raw());
}

void index_select(const Tensor& x, int64_t given_dim, const Tensor& index, Tensor& y) {
  const int dim = wrapped(given_dim, x.dim());
  const Tensor positions = checked_positions("index_select", index, size_along(x, dim));
  if (y.numel() > 0) copy_slices(x, dim, positions, y);
}

namespace {

// Writes rows over x (blocks, size, inner) at positions: row i of block b lies at `from` plus b *
// block_step plus i * row_step bytes.
void put_rows(Tensor& given, int64_t dim, const Tensor& positions, const char* from,
              int64_t block_step, int64_t row_step) {
  if (given.numel() == 0 || positions.numel() == 0) return;
  Tensor x = contiguous(given);
  const int64_t blocks = blocks_before(x, dim), size = size_along(x, dim), n = positions.numel();
  const int64_t row = x.numel() / (blocks * size) * static_cast<int64_t>(size_of(x.dtype()));
  const int64_t* at = positions.elements<int64_t>();
  with_row_copy(row, [&](auto copy) {
    parallel_for(blocks, grain_for(n * row / 4 + 16), [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        char* to = x.raw() + b * size * row;
        const char* rows = from + b * block_step;
        serial_for(n, row / 4 + 1, [=](int64_t first, int64_t last) {
          for (int64_t i = first; i < last; ++i)
            copy(to + (at[i] - 1) * copy.bytes, rows + i * row_step);
        });
      }
    });
  });
  if (!x.is_same(given)) copy_into(given, x);
}

// Writes the number in a 0-d tensor over the elements at positions of each row of x, contiguous.
void put_elements(Tensor& x, const Tensor& positions, const Tensor& number) {
  const int64_t n = positions.numel(), *at = positions.elements<int64_t>(), size = x.size(-1);
  visit_bytes(x.dtype(), [&]<class T>() {
    T* const to = x.elements<T>();
    const T value = *number.elements<T>();
    parallel_for(x.numel() / size, grain_for(n), [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        serial_for(n, 1, [=](int64_t first, int64_t last) {
          for (int64_t i = first; i < last; ++i) to[row * size + at[i] - 1] = value;
        });
    });
  });
}

// Writes the number in a 0-d tensor over whole slices of x.
void put_number(Tensor& x, int64_t dim, const Tensor& positions, const Tensor& number) {
  MemoryOrder to(x, dim);
  if (to.dim == to.x.dim() - 1 && to.x.numel() > 0 && to.x.is_contiguous())
    return put_elements(to.x, positions, number);
  const int64_t slices = std::max<int64_t>(blocks_before(to.x, to.dim) * size_along(x, dim), 1);
  Tensor row = empty_plain({x.numel() / slices}, options_of(x), "index_fill");
  copy_into(row, number);
  put_rows(to.x, to.dim, positions, row.raw(), 0, 0);
}

// Whether all elements are one in memory.
bool is_one_element(const Tensor& x) {
  for (int d = 0; d < x.dim(); ++d)
    if (x.size(d) == 0 || (x.size(d) > 1 && x.stride(d) != 0)) return false;
  return true;
}

}  // namespace

void put_slices(Tensor& x, int64_t dim, const Tensor& positions, const Tensor& source) {
  MemoryOrder to(x, dim);
  const Tensor rows = contiguous(to.source(source));
  const int64_t bytes = rows.numel() * static_cast<int64_t>(size_of(rows.dtype()));
  const int64_t block = bytes / std::max<int64_t>(blocks_before(to.x, to.dim), 1);
  put_rows(to.x, to.dim, positions, rows.raw(), block,
           block / std::max<int64_t>(positions.numel(), 1));
}

void index_copy(Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  const Tensor positions = checked_positions("index_copy", index, size_along(x, dim));
  if (is_one_element(source))
    return put_number(x, dim, positions, part_of(source, {}, {}, source.offset()));
  put_slices(x, dim, positions, source);
}

void index_fill(Tensor& x, int64_t dim, const Tensor& index, Scalar value) {
  const Tensor positions = checked_positions("index_fill", index, size_along(x, dim));
  Tensor number = empty_plain(Dims{}, options_of(x), "index_fill");
  fill(number, value);
  put_number(x, dim, positions, number);
}

void embedding(const Tensor& weight, const Tensor& index, int64_t, bool, bool, Tensor& y) {
  const Tensor positions = checked_positions("embedding", index, weight.size(0));
  if (y.numel() == 0) return;
  Tensor rows = views::view(y, {positions.numel(), weight.size(1)});
  copy_slices(weight, 0, positions, rows);
}

}  // namespace moonlet::cpu

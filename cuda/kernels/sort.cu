// cuda/kernels/sort.cu: sort, topk, kthvalue and medians: elements become integer keys of the same
// order. Short rows are sorted in shared memory, several by a block; long ones by radix, where
// little of them is wanted only what is.
#include "cuda/kernels/sort.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "cuda/kernels/common/geometry.cuh"
#include "cuda/kernels/common/radix_select.cuh"
#include "cuda/kernels/common/sort_keys.cuh"
#include "cuda/kernels/common/sorted_rows.cuh"
#include "tensor/core/views.h"
#include "tensor/kernels_copy.h"
#include "tensor/kernels_sort.h"

namespace moonlet::cuda {

namespace {

// How many of the first `size` come before the first for which last(i) holds, as it does from there
// on.
template <class F>
__device__ int64_t count_until(int64_t size, const F& last) {
  int64_t low = 0;
  while (low < size) {
    const int64_t middle = low + (size - low) / 2;
    if (last(middle))
      size = middle;
    else
      low = middle + 1;
  }
  return low;
}

constexpr int kTile = 2048;

// Batcher's bitonic sort (1968) of each `width` of the tile's items, by a block.
template <class Key>
__device__ void sort_tile(Item<Key>* items, int width) {
  for (int run = 2; run <= width; run *= 2) {
    for (int step = run / 2; step > 0; step /= 2) {
      for (int i = threadIdx.x; i < kTile / 2; i += kBlock) {
        const int low = 2 * i - (i & (step - 1)), high = low + step;
        const bool up = run == width || (low & run) == 0;
        const Item<Key> a = items[low], b = items[high];
        if (b.before(a) == up) {
          items[low] = b;
          items[high] = a;
        }
      }
      __syncthreads();
    }
  }
}

template <class C, class Key>
__device__ void put_rank(const SortedRows& s, const KeyCode& code, int64_t row,
                         const Item<Key>* items) {
  const Key nan = static_cast<Key>(~Key{0}) >> code.shift;
  const int64_t numbers =
      s.may_hold_nan ? count_until(s.size, [&](int64_t i) { return items[i].key == nan; }) : s.size;
  s.template put<C>(row, row, items[s.rank(numbers)].at);
}

// What a tile holds of each row: all, or `length` elements at the `positions`.
struct TileRows {
  int length, width;  // width: the power of two that a row takes of a tile
  const uint32_t* positions;
};

// Rows of which tiles hold at most kTile elements.
template <class C, class Key>
__global__ void __launch_bounds__(kBlock)
    sort_tiles_kernel(SortedRows s, TileRows t, KeyCode code) {
  __shared__ SharedArray<Item<Key>, kTile> memory;
  Item<Key>* items = memory.get();
  const int width = t.width, per_tile = kTile / width;
  for (int64_t first = int64_t{blockIdx.x} * per_tile; first < s.rows;
       first += int64_t{gridDim.x} * per_tile) {
    for (int i = threadIdx.x; i < kTile; i += kBlock) {
      const int64_t row = first + i / width, at = i % width;
      items[i].key = static_cast<Key>(~Key{0});
      items[i].at = ~0u;
      if (row >= s.rows || at >= t.length) continue;
      items[i].at = t.positions ? t.positions[row * t.length + at] : static_cast<uint32_t>(at);
      items[i].key = key_of<Key>(s.x.template get<C>(row * s.size + items[i].at), code);
    }
    __syncthreads();
    sort_tile<Key>(items, width);
    if (s.wanted.which == Which::First) {
      for (int i = threadIdx.x; i < kTile; i += kBlock) {
        const int64_t row = first + i / width, at = i % width;
        if (row < s.rows && at < s.wanted.count)
          s.template put<C>(row, row * s.wanted.count + at, items[i].at);
      }
    } else {
      for (int r = threadIdx.x; r < per_tile && first + r < s.rows; r += kBlock)
        put_rank<C, Key>(s, code, first + r, items + r * width);
    }
    __syncthreads();
  }
}

// Keys of rows that are sorted at once, with the row in their upper bits where it has room there.
template <class C, class Key>
__global__ void keys_kernel(int64_t count, int64_t size, int row_shift, Array x, KeyCode code,
                            Numbers keys, Numbers order) {
  for (MOONLET_EACH(i, count)) {
    auto key = static_cast<uint64_t>(key_of<Key>(x.get<C>(i), code));
    if (row_shift < 64) key |= static_cast<uint64_t>(i / size) << row_shift;
    keys.set(i, static_cast<int64_t>(key));
    order.set(i, i);
  }
}

__global__ void row_keys_kernel(int64_t count, int64_t size, Numbers order, Numbers keys) {
  for (MOONLET_EACH(i, count)) keys.set(i, order.get(i) / size);
}

// The number in x of each row's elements in their order.
template <class C, class Key>
Tensor order_of(const Call& call, int64_t rows, int64_t size, const Array& x, const KeyCode& code) {
  const int64_t count = rows * size;
  const int row_bits = bits_below(rows), bits = code.bits + row_bits;
  const bool joined = bits <= 64;
  // Their numbers are those of DeviceRadixSort's counts too.
  const DType numbers = unsigned_below(count * 2);
  const DType wide = numbers == DType::Int64 || bits > 32 ? DType::Int64 : DType::Int32;
  Tensor order = call.scratch({count}, numbers), keys = call.scratch({count}, wide);
  MOONLET_LAUNCH((keys_kernel<C, Key>), blocks_for(count), kBlock, 0, call.stream(), count, size,
                 joined && rows > 1 ? code.bits : 64, x, code, Numbers(keys), Numbers(order));
  call.done();
  sort_pairs(call, keys, order, joined ? bits : code.bits);
  if (joined) return order;
  keys = call.scratch({count}, numbers);
  MOONLET_LAUNCH(row_keys_kernel, blocks_for(count), kBlock, 0, call.stream(), count, size,
                 Numbers(order), Numbers(keys));
  call.done();
  sort_pairs(call, keys, order, row_bits);
  return order;
}

// What is wanted of rows whose order is known.
template <class C>
__global__ void first_kernel(SortedRows s, Numbers order) {
  for (MOONLET_EACH(e, s.rows * s.wanted.count)) {
    const int64_t row = e / s.wanted.count, at = e % s.wanted.count;
    s.template put<C>(row, e, order.get(row * s.size + at) - row * s.size);
  }
}
template <class C>
__global__ void rank_kernel(SortedRows s, Numbers order) {
  for (MOONLET_EACH(row, s.rows)) {
    const int64_t first = row * s.size;
    int64_t numbers = s.size;
    if (s.may_hold_nan) {
      numbers = count_until(s.size, [&](int64_t i) {
        const C v = s.x.template get<C>(order.get(first + i));
        return v != v;
      });
    }
    s.template put<C>(row, row, order.get(first + s.rank(numbers)) - first);
  }
}

// Rows of `length` elements: whole short rows, or those at the positions.
template <class C, class Key>
void sort_tiles(const Call& call, const SortedRows& s, const KeyCode& code, int64_t length,
                const uint32_t* positions) {
  const auto width = static_cast<int>(std::bit_ceil(static_cast<uint64_t>(length)));
  const int64_t tiles = (s.rows + kTile / width - 1) / (kTile / width);
  MOONLET_LAUNCH((sort_tiles_kernel<C, Key>), blocks_for(tiles * kBlock), kBlock, 0, call.stream(),
                 s, TileRows{static_cast<int>(length), width, positions}, code);
  call.done();
}

// Whether what is wanted of long rows is so little that it is selected.
bool selects(const SortedRows& s) {
  const bool few =
      s.wanted.which != Which::First || (s.wanted.count <= kTile && s.wanted.count <= s.size / 4);
  return few && s.size < int64_t{1} << 31;
}

template <class C, class Key>
void select_from(const Call& call, const SortedRows& s, const KeyCode& code) {
  const Tensor room = select_rows<C, Key>(call, s, code);
  auto* rows = reinterpret_cast<Selected*>(room.raw());
  if (s.wanted.which != Which::First) {
    MOONLET_LAUNCH((put_selected_kernel<C>), blocks_for(s.rows), kBlock, 0, call.stream(), s,
                   static_cast<const Selected*>(rows));
    return call.done();
  }
  const int64_t pieces = (s.size + kSelectPiece - 1) / kSelectPiece;
  Tensor positions = call.scratch({s.rows * s.wanted.count}, DType::Int32);
  MOONLET_LAUNCH((collect_kernel<C, Key>), blocks_for(s.rows * pieces * kBlock), kBlock, 0,
                 call.stream(), s, RowPieces{s.rows * pieces, pieces}, code, rows,
                 positions.elements<uint32_t>());
  call.done();
  sort_tiles<C, Key>(call, s, code, s.wanted.count, positions.elements<uint32_t>());
}

// So many rows at once that their elements have numbers of 32 bits.
template <class C, class Key>
void sort_long(const Call& call, SortedRows s, const KeyCode& code) {
  const int64_t total = s.rows, per = s.wanted.which == Which::First ? s.wanted.count : 1;
  const int64_t at_once = std::max<int64_t>(1, ((int64_t{1} << 31) - 1) / s.size);
  for (int64_t done = 0; done < total; done += at_once) {
    s.rows = std::min(at_once, total - done);
    const Tensor order = order_of<C, Key>(call, s.rows, s.size, s.x, code);
    if (s.wanted.which == Which::First)
      MOONLET_LAUNCH((first_kernel<C>), blocks_for(s.rows * per), kBlock, 0, call.stream(), s,
                     Numbers(order));
    else
      MOONLET_LAUNCH((rank_kernel<C>), blocks_for(s.rows), kBlock, 0, call.stream(), s,
                     Numbers(order));
    call.done();
    const auto bytes = static_cast<int64_t>(size_of(s.x.dtype));
    s.x.data += s.rows * s.size * bytes;
    s.values.data += s.rows * per * bytes;
    if (s.indices) s.indices += s.rows * per;
  }
}

// Of contiguous x, seen as rows; `values` and `indices` are contiguous.
void sort_rows(const Call& call, const Tensor& x, int64_t size, const Wanted& wanted,
               bool descending, Tensor& values, Tensor* indices) {
  if (values.numel() == 0) return;
  if (size == 0) return fill(values, Scalar(static_cast<double>(NAN)));
  const SortedRows s{x.numel() / size,
                     size,
                     wanted,
                     is_floating(x.dtype()),
                     array(x),
                     array(values),
                     indices ? indices->elements<int64_t>() : nullptr};
  const KeyCode code = key_code(x.dtype(), descending);
  visit_keys(x.dtype(), [&]<class C, class Key>() {
    if (size <= kTile)
      sort_tiles<C, Key>(call, s, code, size, nullptr);
    else if (selects(s))
      select_from<C, Key>(call, s, code);
    else
      sort_long<C, Key>(call, s, code);
  });
}

// x with one dimension behind the others.
Tensor with_last(const Tensor& x, int64_t dim) {
  if (x.dim() == 0) return x;
  Dims order;
  for (int64_t d = 0; d < x.dim(); ++d)
    if (d != dim) order.push_back(d);
  order.push_back(dim);
  return views::permute(x, order);
}

// Results of a shape like y's, contiguous: y itself or a temporary copied into it.
template <class Fill>
void with_rows(const Call& call, Tensor y, Fill&& f) {
  if (y.is_contiguous()) return f(y);
  Tensor rows = call.scratch(y.sizes(), y.dtype());
  f(rows);
  copy(y, rows);
}

// `kept` tells whether the results have the dimension.
void sort_along(const char* op, const Tensor& x, int64_t dim, const Wanted& wanted, bool descending,
                bool kept, const Tensor& values, const Tensor& indices) {
  if (values.numel() == 0) return;
  const Call call(x, op);
  const Tensor rows = contiguous(with_last(x, dim));
  const int64_t size = x.dim() == 0 ? 1 : x.size(static_cast<int>(dim));
  with_rows(call, kept ? with_last(values, dim) : values, [&](Tensor& found) {
    with_rows(call, kept ? with_last(indices, dim) : indices, [&](Tensor& positions) {
      sort_rows(call, rows, size, wanted, descending, found, &positions);
    });
  });
}

void select_one(const char* op, const Tensor& x, Which which, Tensor& y) {
  const Call call(x, op);
  sort_rows(call, contiguous(x), x.numel(), {which, 0}, false, y, nullptr);
}

}  // namespace

void sort(const Tensor& x, int64_t dim, bool descending, bool, Tensor& values, Tensor& indices) {
  const int64_t n = x.dim() == 0 ? 1 : x.size(static_cast<int>(dim));
  sort_along("sort", x, dim, {Which::First, n}, descending, true, values, indices);
}

void topk(const Tensor& x, int64_t k, int64_t dim, bool largest, bool, Tensor& values,
          Tensor& indices) {
  sort_along("topk", x, dim, {Which::First, k}, largest, true, values, indices);
}
// With or without `keepdim` the results have the same order of elements.
void kthvalue(const Tensor& x, int64_t k, int64_t dim, bool, Tensor& values, Tensor& indices) {
  sort_along("kthvalue", x, dim, {Which::Rank, k - 1}, false, false, values, indices);
}

void median(const Tensor& x, Tensor& y) { select_one("median", x, Which::Median, y); }
void nanmedian(const Tensor& x, Tensor& y) { select_one("nanmedian", x, Which::NanMedian, y); }
void median_dim(const Tensor& x, int64_t dim, bool, Tensor& values, Tensor& indices) {
  sort_along("median", x, dim, {Which::Median, 0}, false, false, values, indices);
}
void nanmedian_dim(const Tensor& x, int64_t dim, bool, Tensor& values, Tensor& indices) {
  sort_along("nanmedian", x, dim, {Which::NanMedian, 0}, false, false, values, indices);
}

}  // namespace moonlet::cuda

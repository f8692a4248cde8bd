// cuda/sort.cu: sort, topk, kthvalue and medians: elements become integer keys of the same order,
// which a merge sort by ranks puts in place (each element finds its place in the merged run by
// binary search).
#include "cuda/sort.h"

#include <algorithm>
#include <cmath>

#include "cuda/geometry.cuh"
#include "tensor/kernels_sort.h"
#include "tensor/views.h"

namespace moonlet::cuda {

namespace {

using Key = unsigned long long;
constexpr int kFirstRun = 16;

// Insertion sort of runs of kFirstRun; fills `order`.
__global__ void first_runs_kernel(int64_t rows, int64_t n, Key* keys, int64_t* order) {
  const int64_t runs = (n + kFirstRun - 1) / kFirstRun;
  for (MOONLET_EACH(job, rows * runs)) {
    const int64_t first = job % runs * kFirstRun;
    const int count = static_cast<int>(n - first < kFirstRun ? n - first : kFirstRun);
    Key* k = keys + job / runs * n + first;
    int64_t* o = order + job / runs * n + first;
    for (int i = 0; i < count; ++i) {
      const Key key = k[i];
      int at = i;
      for (; at > 0 && k[at - 1] > key; --at) {
        k[at] = k[at - 1];
        o[at] = o[at - 1];
      }
      k[at] = key;
      o[at] = first + i;
    }
  }
}

// How many of keys[0..count) come before `key`; equal ones too where `with_equal`.
__device__ int64_t count_before(const Key* keys, int64_t count, Key key, bool with_equal) {
  int64_t low = 0;
  while (count > 0) {
    const int64_t step = count / 2;
    const Key other = keys[low + step];
    if (other < key || (with_equal && other == key)) {
      low += step + 1;
      count -= step + 1;
    } else {
      count = step;
    }
  }
  return low;
}

__device__ int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }

// Merges neighbouring runs of `width`.
__global__ void merge_kernel(int64_t rows, int64_t n, int64_t width, const Key* keys,
                             const int64_t* order, Key* keys_out, int64_t* order_out) {
  for (MOONLET_EACH(e, rows * n)) {
    const int64_t i = e % n;
    const Key* row = keys + (e - i);
    const int64_t start = i / (2 * width) * (2 * width);
    const int64_t middle = at_most(start + width, n), end = at_most(start + 2 * width, n);
    const Key key = row[i];
    const bool left = i < middle;
    const int64_t others = left ? count_before(row + middle, end - middle, key, false)
                                : count_before(row + start, middle - start, key, true);
    const int64_t to = e - i + start + (left ? i - start : i - middle) + others;
    keys_out[to] = key;
    order_out[to] = order[e];
  }
}

__device__ Key order_key(int64_t v) { return static_cast<Key>(v) ^ (Key{1} << 63); }
__device__ Key order_key(double v) {
  if (v != v) return ~Key{0};
  const Key bits = static_cast<Key>(__double_as_longlong(v == 0 ? 0.0 : v));
  return bits >> 63 ? ~bits : bits | (Key{1} << 63);
}
__device__ Key order_key(float v) { return order_key(static_cast<double>(v)); }

template <class C>
__global__ void keys_kernel(DimSplit s, Array x, bool descending, Key* keys) {
  for (MOONLET_EACH(e, s.outer * s.size * s.inner)) {
    const int64_t i = e % s.size, row = e / s.size;
    const C v = x.get<C>((row / s.inner * s.size + i) * s.inner + row % s.inner);
    const Key key = order_key(v);
    keys[e] = descending ? ~key : key;
  }
}

// The first `k` of each sorted row.
template <class T>
__global__ void take_kernel(DimSplit s, int64_t k, const T* x, const int64_t* order, T* values,
                            int64_t* indices) {
  for (MOONLET_EACH(e, s.outer * k * s.inner)) {
    const int64_t inner = e % s.inner, j = e / s.inner % k, outer = e / s.inner / k;
    const int64_t from = order[(outer * s.inner + inner) * s.size + j];
    values[e] = x[(outer * s.size + from) * s.inner + inner];
    indices[e] = from + 1;
  }
}

void sort_and_take(const char* op, const Tensor& x, int64_t dim, int64_t k, bool descending,
                   Tensor& values, Tensor& indices) {
  if (values.numel() == 0) return;
  const Call call(x, op);
  const Tensor source = contiguous(x);
  const DimSplit s = split_at(x.sizes(), dim);
  const int64_t rows = s.outer * s.inner;
  Tensor keys = call.scratch({rows, s.size}, DType::Int64);
  Tensor order = call.scratch({rows, s.size}, DType::Int64);
  visit_device_compute<dtypes::boolean | dtypes::real>(x.dtype(), [&]<class C>() {
    MOONLET_LAUNCH((keys_kernel<C>), blocks_for(rows * s.size), kBlock, 0, call.stream(), s,
                   array(source), descending, keys.elements<Key>());
  });
  call.done();
  sort_keys(call, rows, s.size, keys, order);
  visit_bytes<Bytes16>(x.dtype(), [&]<class T>() {
    MOONLET_LAUNCH((take_kernel<T>), blocks_for(values.numel()), kBlock, 0, call.stream(), s, k,
                   static_cast<const T*>(source.elements<T>()),
                   static_cast<const int64_t*>(order.elements<int64_t>()), values.elements<T>(),
                   indices.elements<int64_t>());
  });
  call.done();
}

// Which element of the order: the one of a given rank (from 0), or a median.
enum class Which { Rank, Median, NanMedian };
struct Wanted {
  Which which;
  int64_t rank;
};

// The wanted element of each sorted row of n, of which those with the highest key are NaN where
// `may_hold_nan`; NaN for a row of none.
template <class C>
__global__ void select_kernel(DimSplit s, Wanted wanted, bool may_hold_nan, Array x,
                              const Key* keys, const int64_t* order, Array values,
                              int64_t* indices) {
  for (MOONLET_EACH(row, s.outer * s.inner)) {
    if (s.size == 0) {
      values.set<float>(row, NAN);
      continue;
    }
    const int64_t numbers =
        may_hold_nan ? count_before(keys + row * s.size, s.size, ~Key{0}, false) : s.size;
    int64_t rank = wanted.rank;
    if (wanted.which != Which::Rank) rank = numbers > 0 ? (numbers - 1) / 2 : 0;
    if (wanted.which == Which::Median && numbers < s.size) rank = numbers;
    const int64_t from = order[row * s.size + rank];
    values.set<C>(row, x.get<C>((row / s.inner * s.size + from) * s.inner + row % s.inner));
    if (indices) indices[row] = from + 1;
  }
}

void select_each(const char* op, const Tensor& x, const DimSplit& s, const Wanted& wanted,
                 Tensor& values, Tensor* indices) {
  if (values.numel() == 0) return;
  const Call call(x, op);
  const Tensor source = contiguous(x);
  const int64_t rows = s.outer * s.inner;
  Tensor keys = call.scratch({rows, s.size}, DType::Int64);
  Tensor order = call.scratch({rows, s.size}, DType::Int64);
  visit_device_compute<dtypes::real>(x.dtype(), [&]<class C>() {
    MOONLET_LAUNCH((keys_kernel<C>), blocks_for(rows * s.size), kBlock, 0, call.stream(), s,
                   array(source), false, keys.elements<Key>());
    call.done();
    sort_keys(call, rows, s.size, keys, order);
    MOONLET_LAUNCH((select_kernel<C>), blocks_for(rows), kBlock, 0, call.stream(), s, wanted,
                   is_floating(x.dtype()), array(source),
                   static_cast<const Key*>(keys.elements<Key>()),
                   static_cast<const int64_t*>(order.elements<int64_t>()), array(values),
                   indices ? indices->elements<int64_t>() : nullptr);
    call.done();
  });
}

void select_dim(const char* op, const Tensor& x, int64_t dim, const Wanted& wanted, Tensor& values,
                Tensor& indices) {
  with_contiguous(values, [&](Tensor& found) {
    with_contiguous(indices, [&](Tensor& places) {
      select_each(op, x, split_at(x.sizes(), dim), wanted, found, &places);
    });
  });
}

}  // namespace

void sort_keys(const Call& call, int64_t rows, int64_t n, Tensor& keys, Tensor& order) {
  const int64_t count = rows * n;
  if (count == 0) return;
  MOONLET_LAUNCH(first_runs_kernel, blocks_for(rows * ((n + kFirstRun - 1) / kFirstRun)), kBlock, 0,
                 call.stream(), rows, n, keys.elements<Key>(), order.elements<int64_t>());
  call.done();
  if (n <= kFirstRun) return;
  Tensor keys_out = call.scratch(keys.sizes(), DType::Int64);
  Tensor order_out = call.scratch(order.sizes(), DType::Int64);
  for (int64_t width = kFirstRun; width < n; width *= 2) {
    MOONLET_LAUNCH(merge_kernel, blocks_for(count), kBlock, 0, call.stream(), rows, n, width,
                   static_cast<const Key*>(keys.elements<Key>()),
                   static_cast<const int64_t*>(order.elements<int64_t>()), keys_out.elements<Key>(),
                   order_out.elements<int64_t>());
    call.done();
    std::swap(keys, keys_out);
    std::swap(order, order_out);
  }
}

void sort(const Tensor& x, int64_t dim, bool descending, bool, Tensor& values, Tensor& indices) {
  const int64_t n = x.dim() == 0 ? 1 : x.size(static_cast<int>(dim));
  if (values.is_contiguous()) return sort_and_take("sort", x, dim, n, descending, values, indices);
  const Dims order = views::memory_order(values);
  Tensor to = views::permute(values, order), places = views::permute(indices, order);
  const auto at = std::find(order.begin(), order.end(), dim) - order.begin();
  sort_and_take("sort", views::permute(x, order), at, n, descending, to, places);
}

void topk(const Tensor& x, int64_t k, int64_t dim, bool largest, bool, Tensor& values,
          Tensor& indices) {
  sort_and_take("topk", x, dim, k, largest, values, indices);
}
void kthvalue(const Tensor& x, int64_t k, int64_t dim, bool, Tensor& values, Tensor& indices) {
  select_dim("kthvalue", x, dim, {Which::Rank, k - 1}, values, indices);
}

void median(const Tensor& x, Tensor& y) {
  select_each("median", x, {1, x.numel(), 1}, {Which::Median, 0}, y, nullptr);
}
void nanmedian(const Tensor& x, Tensor& y) {
  select_each("nanmedian", x, {1, x.numel(), 1}, {Which::NanMedian, 0}, y, nullptr);
}
void median_dim(const Tensor& x, int64_t dim, bool, Tensor& values, Tensor& indices) {
  select_dim("median", x, dim, {Which::Median, 0}, values, indices);
}
void nanmedian_dim(const Tensor& x, int64_t dim, bool, Tensor& values, Tensor& indices) {
  select_dim("nanmedian", x, dim, {Which::NanMedian, 0}, values, indices);
}

}  // namespace moonlet::cuda

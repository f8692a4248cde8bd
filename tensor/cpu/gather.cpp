// tensor/cpu/gather.cpp: gather, scatter, index_select, index_add and embedding. Additions are made
// in the order of the source, whatever the number of threads.
#include <cstring>

#include "tensor/cpu/index_walk.h"

namespace moonlet::cpu {

namespace {

int64_t size_along(const Tensor& x, int64_t dim) {
  return x.dim() ? x.size(static_cast<int>(dim)) : 1;
}
int64_t stride_along(const Tensor& x, int64_t dim) {
  return x.dim() ? x.stride(static_cast<int>(dim)) : 1;
}

// x's strides without the one along dim.
Dims strides_without(const Tensor& x, int64_t dim) {
  Dims out = x.strides();
  if (x.dim()) out[static_cast<int>(dim)] = 0;
  return out;
}

// The number of elements before dim: blocks that never write to the same place.
int64_t blocks_before(const Tensor& x, int64_t dim) {
  int64_t blocks = 1;
  for (int d = 0; d < dim; ++d) blocks *= x.size(d);
  return blocks;
}

template <class T, bool kAdd>
void scatter_as(Tensor& x, int64_t dim, const Tensor& positions, const Tensor& source) {
  const int64_t stride = stride_along(x, dim);
  const int64_t blocks = blocks_before(positions, dim), each = positions.numel() / blocks;
  const int64_t* at = positions.data<int64_t>();
  const T* from = source.data<T>();
  T* to = x.data<T>();
  const Dims strides[1] = {strides_without(x, dim)};
  parallel_for(blocks, grain_for(each * 4), [&](int64_t begin, int64_t end) {
    Walk<1> walk(positions.sizes(), strides, begin * each);
    for (int64_t i = begin * each; i < end * each; ++i, walk.next()) {
      T& place = to[walk.offset() + (at[i] - 1) * stride];
      if constexpr (kAdd)
        place = added(place, from[i]);
      else
        place = from[i];
    }
  });
}

// Row copies: `count` rows of `bytes` each, row i from position at[i].
void copy_rows(const char* from, const int64_t* at, int64_t count, int64_t bytes, char* to) {
  parallel_for(count, grain_for(bytes / 4 + 1), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(to + i * bytes, from + (at[i] - 1) * bytes, bytes);
    }
  });
}

}  // namespace

void gather(const Tensor& x, int64_t given_dim, const Tensor& index, Tensor& y) {
  const int dim = wrap_dim(given_dim, x.dim(), "gather");
  if (y.numel() == 0) return;
  const Tensor positions = checked_positions("gather", index, size_along(x, dim));
  const int64_t stride = stride_along(x, dim);
  const int64_t* at = positions.data<int64_t>();
  const Dims strides[1] = {strides_without(x, dim)};
  visit_bytes(x.dtype(), [&]<class T>() {
    const T* from = x.data<T>();
    T* to = y.data<T>();
    parallel_for(y.numel(), 8192, [&](int64_t begin, int64_t end) {
      Walk<1> walk(index.sizes(), strides, begin);
      for (int64_t i = begin; i < end; ++i, walk.next()) {
        to[i] = from[walk.offset() + (at[i] - 1) * stride];
      }
    });
  });
}

void scatter(Tensor& x, int64_t given_dim, const Tensor& index, const Tensor& source) {
  const int dim = wrap_dim(given_dim, x.dim(), "scatter");
  if (index.numel() == 0) return;
  const Tensor positions = checked_positions("scatter", index, size_along(x, dim));
  const Tensor whole = contiguous(source);
  visit_bytes(x.dtype(), [&]<class T>() { scatter_as<T, false>(x, dim, positions, whole); });
}

void scatter_add(Tensor& x, int64_t given_dim, const Tensor& index, const Tensor& source) {
  const int dim = wrap_dim(given_dim, x.dim(), "scatter_add");
  if (index.numel() == 0) return;
  const Tensor positions = checked_positions("scatter_add", index, size_along(x, dim));
  const Tensor whole = contiguous(source);
  visit(x.dtype(), [&]<class T>() { scatter_as<T, true>(x, dim, positions, whole); });
}

void index_select(const Tensor& given, int64_t given_dim, const Tensor& index, Tensor& y) {
  const int dim = wrap_dim(given_dim, given.dim(), "index_select");
  const Tensor positions = checked_positions("index_select", index, size_along(given, dim));
  if (y.numel() == 0) return;
  const Tensor x = contiguous(given);
  const int64_t blocks = blocks_before(x, dim), size = size_along(x, dim), n = positions.numel();
  const int64_t row = x.numel() / (blocks * size) * static_cast<int64_t>(size_of(x.dtype()));
  for (int64_t b = 0; b < blocks; ++b) {
    copy_rows(x.raw() + b * size * row, positions.data<int64_t>(), n, row, y.raw() + b * n * row);
  }
}

void index_add(Tensor& x, int64_t given_dim, const Tensor& index, const Tensor& source) {
  const int dim = wrap_dim(given_dim, x.dim(), "index_add");
  const Tensor positions = checked_positions("index_add", index, size_along(x, dim));
  if (source.numel() == 0) return;
  const Tensor whole = contiguous(source);
  const int64_t blocks = blocks_before(whole, dim), n = positions.numel();
  const int64_t inner = whole.numel() / (blocks * n), stride = stride_along(x, dim);
  const Dims strides[1] = {strides_without(x, dim)};
  visit(x.dtype(), [&]<class T>() {
    parallel_for(blocks, grain_for(n * inner * 4), [&](int64_t begin, int64_t end) {
      Walk<1> walk(whole.sizes(), strides, begin * n * inner);
      const T* from = whole.data<T>();
      for (int64_t i = begin * n * inner; i < end * n * inner; ++i, walk.next()) {
        const int64_t at = positions.data<int64_t>()[i / inner % n] - 1;
        T& place = x.data<T>()[walk.offset() + at * stride];
        place = added(place, from[i]);
      }
    });
  });
}

void embedding(const Tensor& weight, const Tensor& index, int64_t, Tensor& y) {
  const Tensor positions = checked_positions("embedding", index, weight.size(0));
  if (y.numel() == 0) return;
  const Tensor x = contiguous(weight);
  copy_rows(x.raw(), positions.data<int64_t>(), positions.numel(),
            x.size(1) * static_cast<int64_t>(size_of(x.dtype())), y.raw());
}

void embedding_backward(const Tensor& g_out, const Tensor& index, int64_t rows, int64_t padding_idx,
                        Tensor& y) {
  const Tensor positions = checked_positions("embedding_backward", index, rows);
  std::memset(y.raw(), 0, static_cast<size_t>(y.numel()) * size_of(y.dtype()));
  if (y.numel() == 0 || positions.numel() == 0) return;
  const Tensor g = contiguous(g_out);
  const int64_t features = y.size(1), n = positions.numel();
  const int64_t* at = positions.data<int64_t>();
  visit(y.dtype(), [&]<class T>() {
    // Each thread has its own columns, so every sum is made in the order of the positions.
    parallel_for(features, std::max<int64_t>(16, grain_for(n)), [&](int64_t begin, int64_t end) {
      for (int64_t i = 0; i < n; ++i) {
        if (at[i] == padding_idx) continue;
        T* row = y.data<T>() + (at[i] - 1) * features;
        const T* from = g.data<T>() + i * features;
        for (int64_t j = begin; j < end; ++j) row[j] = added(row[j], from[j]);
      }
    });
  });
}

}  // namespace moonlet::cpu

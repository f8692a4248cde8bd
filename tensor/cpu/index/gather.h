// tensor/cpu/index/gather.h: the geometry of kernels that read and write at positions along one
// dimension.
#pragma once

#include <numeric>

#include "tensor/core/views.h"
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/index/index_walk.h"
#include "tensor/functors/scatter_fold.h"

namespace moonlet::cpu {

inline int64_t size_along(const Tensor& x, int64_t dim) {
  return x.dim() ? x.size(static_cast<int>(dim)) : 1;
}
inline int64_t stride_along(const Tensor& x, int64_t dim) {
  return x.dim() ? x.stride(static_cast<int>(dim)) : 1;
}

// The number of elements before dim: blocks that never write to the same position.
inline int64_t blocks_before(const Tensor& x, int64_t dim) {
  int64_t blocks = 1;
  for (int d = 0; d < dim; ++d) blocks *= x.size(d);
  return blocks;
}

// The elements along `dim` of x that an index tensor names, by rows of its last dimension. Where
// `unchecked` names an op, positions are checked as they are used, and an error names it.
struct IndexedElements {
  IndexedElements(const Tensor& x, int64_t dim, const Tensor& positions,
                  const char* unchecked = nullptr)
      : op(unchecked),
        size(size_along(x, dim)),
        width(positions.dim() ? positions.size(-1) : 1),
        rows(positions.numel() / width),
        stride(stride_along(x, dim)),
        at(positions.elements<int64_t>()) {
    int64_t reach = static_cast<int64_t>(size_of(x.dtype()));
    for (int d = 0; d + 1 < positions.dim(); ++d) {
      sizes.push_back(positions.size(d));
      strides.push_back(d == dim ? 0 : x.stride(d));
      if (d >= dim) reach *= std::max<int64_t>(x.size(d), 1);
    }
    const bool last = positions.dim() == 0 || dim == positions.dim() - 1;
    step = last ? 0 : x.stride(-1);
    columns = last ? kStopBlock : std::clamp<int64_t>(kReach / reach, kLeastColumns, kStopBlock);
  }
  // Calls body(entry, offset of its element in x) for the entries of rows [begin, end): a strip of
  // columns after the other, so that rows of x that come again are still in the cache. Entries of
  // one column come in order, and those of different ones meet no element twice unless `dim` is the
  // last, where a strip is the whole row or a long part of it.
  template <class Body>
  void each(int64_t begin, int64_t end, const Body& body) const {
    const int64_t strips = (width + columns - 1) / columns;
    serial_for(strips, std::min(width, columns) * (end - begin), [&](int64_t from, int64_t to) {
      for (int64_t strip = from; strip < to; ++strip) each_of_strip(strip, begin, end, body);
    });
  }

 private:
  template <class Body>
  void each_of_strip(int64_t strip, int64_t begin, int64_t end, const Body& body) const {
    const int64_t column = strip * columns, count = std::min(columns, width - column);
    serial_for(end - begin, count * 4, [&](int64_t first, int64_t last) {
      Walk<1> walk(sizes, {strides}, begin + first);
      for (int64_t r = begin + first; r < begin + last; ++r, walk.next())
        run(r * width + column, count, walk.offset() + column * step, body);
    });
  }

  static constexpr int64_t kReach = thresholds::index::kReach,
                           kLeastColumns = thresholds::index::kLeastColumns;

  // A function of its own, so that what a body holds, and these, stay in registers.
  template <class Body>
  [[gnu::noinline]] void run(int64_t entry, int64_t count, int64_t position,
                             const Body& given) const {
    const Body body = given;
    const int64_t* p = at + entry;
    if (op != nullptr) check_positions(op, p, count, size);
    const int64_t by = stride, across = step;
    int64_t j = 0;
    if (across == 0 && by == 1) {
      // Read some at a time: for all that the compiler knows, bodies change them.
      for (; j + 4 <= count; j += 4) {
        const int64_t positions[] = {p[j] - 1, p[j + 1] - 1, p[j + 2] - 1, p[j + 3] - 1};
        for (int64_t k = 0; k < 4; ++k) body(entry + j + k, position + positions[k]);
      }
    }
    for (; j < count; ++j) body(entry + j, position + j * across + (p[j] - 1) * by);
  }

 public:
  const char* op;
  int64_t size, width, rows, stride, step, columns;
  const int64_t* at;
  Dims sizes, strides;
};

// What becomes of element a when b comes to its position.
template <ScatterFold kFold, class T>
T joined(T a, T b) {
  if constexpr (kFold == ScatterFold::Put)
    return b;
  else if constexpr (kFold == ScatterFold::Add || kFold == ScatterFold::Mean)
    return added(a, b);
  else
    return folded<kFold>(a, b);
}

// A tensor that is written to along `dim`, its dimensions in the order in which they lie in memory:
// a transposed one is contiguous then.
struct MemoryOrder {
  MemoryOrder(const Tensor& given, int64_t given_dim) : x(given), dim(given_dim) {
    if (given.is_contiguous() || !is_dense(given.sizes(), given.strides())) return;
    int64_t dims[kMaxDims];
    std::iota(dims, dims + given.dim(), 0);
    std::stable_sort(dims, dims + given.dim(), [&](int64_t a, int64_t b) {
      return given.stride(static_cast<int>(a)) > given.stride(static_cast<int>(b));
    });
    order = Dims(dims, given.dim());
    x = views::permute(given, order);
    dim = std::find(order.begin(), order.end(), given_dim) - order.begin();
  }
  // What is written, in the same order.
  Tensor source(const Tensor& given) const {
    return order.empty() ? given : views::permute(given, order);
  }
  Tensor x;
  int64_t dim;
  Dims order;
};

// Copies slices of x along `dim`, whose positions are checked, to y, which is contiguous.
void copy_slices(const Tensor& x, int dim, const Tensor& positions, Tensor& y);
// Writes the slices of `source` over those of x, whose positions are checked.
void put_slices(Tensor& x, int64_t dim, const Tensor& positions, const Tensor& source);

}  // namespace moonlet::cpu

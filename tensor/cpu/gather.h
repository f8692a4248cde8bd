// tensor/cpu/gather.h: the geometry of kernels that read and write at positions along one
// dimension.
#pragma once

#include "tensor/cpu/index_walk.h"

namespace moonlet::cpu {

inline int64_t size_along(const Tensor& x, int64_t dim) {
  return x.dim() ? x.size(static_cast<int>(dim)) : 1;
}
inline int64_t stride_along(const Tensor& x, int64_t dim) {
  return x.dim() ? x.stride(static_cast<int>(dim)) : 1;
}

// The number of elements before dim: blocks that never write to the same place.
inline int64_t blocks_before(const Tensor& x, int64_t dim) {
  int64_t blocks = 1;
  for (int d = 0; d < dim; ++d) blocks *= x.size(d);
  return blocks;
}

// The elements along `dim` of x that an index tensor names, by rows of its last dimension.
struct IndexedElements {
  IndexedElements(const Tensor& x, int64_t dim, const Tensor& positions)
      : width(positions.dim() ? positions.size(-1) : 1),
        rows(positions.numel() / width),
        stride(stride_along(x, dim)),
        at(positions.elements<int64_t>()) {
    for (int d = 0; d + 1 < positions.dim(); ++d) {
      sizes.push_back(positions.size(d));
      strides.push_back(d == dim ? 0 : x.stride(d));
    }
    step = positions.dim() == 0 || dim == positions.dim() - 1 ? 0 : x.stride(-1);
  }
  // Calls body(entry, offset of its element in x) for the entries of rows [begin, end), in order.
  template <class Body>
  void each(int64_t begin, int64_t end, Body&& body) const {
    serial_for(end - begin, width * 4, [&](int64_t first, int64_t last) {
      Walk<1> walk(sizes, {strides}, begin + first);
      for (int64_t r = begin + first; r < begin + last; ++r, walk.next()) {
        for (int64_t j = 0; j < width; ++j) {
          if (j % kStopBlock == kStopBlock - 1) stop_if_requested();
          const int64_t i = r * width + j;
          body(i, walk.offset() + j * step + (at[i] - 1) * stride);
        }
      }
    });
  }
  int64_t width, rows, stride, step;
  const int64_t* at;
  Dims sizes, strides;
};

}  // namespace moonlet::cpu

// tensor/cpu/image/image_grid.cpp: the CPU kernels of the neighbours, with their weights, of the
// positions in images that a grid names, and of the gradient of the weights.
#include "tensor/cpu/image/image_grid.h"

#include <algorithm>

#include "tensor/cpu/common/contiguous.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/kernels_image.h"
#include "tensor/shapes/window.h"

namespace moonlet::cpu {
namespace {

// Calls body(entry, first place, count) for blocks of the positions of all entries.
template <class Body>
void each_block(int64_t n, int64_t positions, const GridNaming& naming, const Body& body) {
  const int64_t blocks = (positions + kGridBlock - 1) / kGridBlock;
  parallel_for(n * blocks, grain_for(kGridBlock * naming.taps * 8),
               [&](int64_t begin, int64_t end) {
                 for (int64_t b = begin; b < end; ++b) {
                   const int64_t first = b % blocks * kGridBlock;
                   body(b / blocks, first, std::min(kGridBlock, positions - first));
                 }
               });
}

// The dtype in which positions are found. Positions on an axis are counted in integers of its size.
DType position_dtype(const Dims& size, DType own) {
  return shapes::grid_position_dtype(size) == DType::Int32 ? compute_dtype(own) : DType::Float64;
}

}  // namespace

void grid_neighbours(const Tensor& grid, const Dims& size, std::string_view mode,
                     std::string_view padding_mode, bool align_corners, Tensor& at,
                     Tensor& weight) {
  const GridNaming naming(size, mode, padding_mode, align_corners);
  const DType dtype = position_dtype(size, weight.dtype());
  const Tensor numbers = converted(grid, dtype);
  const int64_t positions = grid.size(1);
  if (weight.numel() == 0) return;
  Tensor factor = workspace(weight, dtype);
  const auto write = [&]<class T, class I>() {
    each_block(grid.size(0), positions, naming, [&](int64_t b, int64_t first, int64_t count) {
      GridTaps<T> all[kMostGridDims];
      find_grid_taps(naming, numbers.elements<T>() + (b * positions + first) * naming.dims, count,
                     all);
      for (int64_t k = 0; k < naming.taps; ++k) {
        const int64_t start = (b * naming.taps + k) * positions + first;
        write_grid_tap(naming, all, k, count, at.elements<I>() + start,
                       factor.elements<T>() + start);
      }
    });
  };
  if (at.dtype() == DType::Int64)
    write.operator()<double, int64_t>();
  else if (dtype == DType::Float64)
    write.operator()<double, int32_t>();
  else
    write.operator()<float, int32_t>();
  write_back(weight, factor);
}

void grid_neighbours_grads(const Tensor& grad, const Tensor& grid, const Dims& size,
                           std::string_view mode, std::string_view padding_mode, bool align_corners,
                           Tensor& y) {
  const GridNaming naming(size, mode, padding_mode, align_corners);
  const DType dtype = position_dtype(size, grid.dtype());
  const Tensor numbers = converted(grid, dtype), gradients = converted(grad, dtype);
  Tensor out = workspace(y, dtype);
  const int64_t positions = grid.size(1);
  visit<bit(DType::Float32) | bit(DType::Float64)>(dtype, [&]<class T>() {
    each_block(grid.size(0), positions, naming, [&](int64_t b, int64_t first, int64_t count) {
      GridTaps<T> all[kMostGridDims];
      const int64_t start = (b * positions + first) * naming.dims;
      find_grid_taps(naming, numbers.elements<T>() + start, count, all);
      for (int d = 0; d < naming.dims; ++d) {
        T sums[kGridBlock] = {};
        for (int64_t k = 0; k < naming.taps; ++k)
          add_grid_gradient(naming, all, k, d, count,
                            gradients.elements<T>() + (b * naming.taps + k) * positions + first,
                            sums);
        T* to = out.elements<T>() + start + (naming.dims - 1 - d);
        for (int64_t i = 0; i < count; ++i) to[i * naming.dims] = sums[i];
      }
    });
  });
  write_back(y, out);
}

}  // namespace moonlet::cpu

// cuda/kernels/create.cu: ranges, triangles and diagonal matrices.
#include "cuda/kernels/common/geometry.cuh"
#include "cuda/runtime/device.h"
#include "tensor/core/view_writer.h"
#include "tensor/kernels_copy.h"
#include "tensor/kernels_create.h"

namespace moonlet::cuda {

namespace {

// The last two dimensions are matrices; keeps one side of a diagonal.
template <class T>
__global__ void triangle_kernel(Geometry<1> from, int64_t count, int64_t rows, int64_t cols,
                                int64_t diagonal, bool upper, const T* x, T* y) {
  for (MOONLET_EACH(i, count)) {
    const int64_t col = i % cols, row = i / cols % rows;
    const bool keep = upper ? col - row >= diagonal : col - row <= diagonal;
    y[i] = keep ? x[offsets(from, i).at[0]] : T{};
  }
}

__global__ void iota_floats_kernel(Geometry<1> g, int64_t count, double first, double step,
                                   Array x) {
  for (MOONLET_EACH(i, count))
    x.set<double>(offsets(g, i).at[0], first + static_cast<double>(i) * step);
}
__global__ void iota_ints_kernel(Geometry<1> g, int64_t count, uint64_t first, uint64_t step,
                                 Array x) {
  for (MOONLET_EACH(i, count))
    x.set<int64_t>(offsets(g, i).at[0],
                   static_cast<int64_t>(first + static_cast<uint64_t>(i) * step));
}

void triangle(const char* op, const Tensor& x, int64_t diagonal, bool upper, Tensor& y) {
  if (x.numel() == 0) return;
  const Call call(x, op);
  visit_bytes<Bytes16>(x.dtype(), [&]<class T>() {
    MOONLET_LAUNCH((triangle_kernel<T>), blocks_for(x.numel()), kBlock, 0, call.stream(),
                   geometry(x.sizes(), x.strides()), x.numel(), x.size(-2), x.size(-1), diagonal,
                   upper, static_cast<const T*>(x.elements<T>()), y.elements<T>());
  });
  call.done();
}

}  // namespace

void tril(const Tensor& x, int64_t diagonal, Tensor& y) { triangle("tril", x, diagonal, false, y); }
void triu(const Tensor& x, int64_t diagonal, Tensor& y) { triangle("triu", x, diagonal, true, y); }

void fill_diagonal(Tensor& x, Scalar value, bool wrap) { fill_diagonal_by(fill, x, value, wrap); }

void iota(Tensor& x, Scalar first, Scalar step) {
  const int64_t count = x.numel();
  if (count == 0) return;
  const Call call(x, "iota");
  const Geometry<1> g = geometry(x.sizes(), x.strides());
  if (first.is_int() && step.is_int())
    MOONLET_LAUNCH(iota_ints_kernel, blocks_for(count), kBlock, 0, call.stream(), g, count,
                   static_cast<uint64_t>(first.to_int()), static_cast<uint64_t>(step.to_int()),
                   array(x));
  else
    MOONLET_LAUNCH(iota_floats_kernel, blocks_for(count), kBlock, 0, call.stream(), g, count,
                   first.to_double(), step.to_double(), array(x));
  call.done();
}

}  // namespace moonlet::cuda

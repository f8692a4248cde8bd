// cuda/shape.cu: joining, padding, flipping, laying gradients into views, triangles, diagonals and
// ranges. What is a plain copy into part of the result goes through the copy kernel.
#include <algorithm>

#include "cuda/device.h"
#include "cuda/geometry.cuh"
#include "tensor/kernels_copy.h"
#include "tensor/kernels_create.h"
#include "tensor/kernels_shape.h"
#include "tensor/view_writer.h"
#include "tensor/views.h"

namespace moonlet::cuda {

void cat(const std::vector<Tensor>& tensors, int64_t dim, Tensor& y) {
  if (y.numel() == 0) return;
  const int d = wrapped(dim, y.dim());
  int64_t at = 0;
  for (const Tensor& x : tensors) {
    const int64_t count = x.size(d);
    if (x.numel() > 0) {
      Tensor part = views::slice(y, d, at, at + count, 1);
      copy(part, x);
    }
    at += count;
  }
}

constexpr ViewWriter kWriter{fill, copy};

void select_backward(const Tensor& dy, const Dims&, int64_t dim, int64_t index, Tensor& y) {
  kWriter.select_backward(dy, dim, index, y);
}

void slice_backward(const Tensor& dy, const Dims&, int64_t dim, int64_t start, int64_t stop,
                    int64_t step, Tensor& y) {
  kWriter.slice_backward(dy, dim, start, stop, step, y);
}

void diagonal_backward(const Tensor& dy, const Dims&, int64_t offset, int64_t dim1, int64_t dim2,
                       Tensor& y) {
  kWriter.diagonal_backward(dy, offset, dim1, dim2, y);
}

void constant_pad(const Tensor& x, const std::vector<int64_t>& pad, Scalar value, Tensor& y) {
  kWriter.constant_pad(x, pad, value, y);
}

namespace {

template <class T>
__global__ void flip_kernel(Geometry<1> from, int64_t count, const T* x, T* y) {
  for (MOONLET_EACH(i, count)) y[i] = x[offsets(from, i).at[0]];
}

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

void flip(const Tensor& x, const Dims& dims, Tensor& y) {
  if (x.numel() == 0) return;
  if (x.dim() == 0) return copy(y, x);
  const Call call(x, "flip");
  const Dims reversed = wrap_dims(dims, x.dim(), "flip");
  Dims strides = x.strides();
  int64_t first = 0;
  for (int64_t d : reversed) {
    const int i = static_cast<int>(d);
    first += (x.size(i) - 1) * strides[i];
    strides[i] = -strides[i];
  }
  with_contiguous(y, [&](Tensor& whole) {
    visit_bytes<Bytes16>(x.dtype(), [&]<class T>() {
      MOONLET_LAUNCH((flip_kernel<T>), blocks_for(x.numel()), kBlock, 0, call.stream(),
                     geometry(x.sizes(), strides), x.numel(),
                     static_cast<const T*>(x.elements<T>() + first), whole.elements<T>());
    });
  });
  call.done();
}

void tril(const Tensor& x, int64_t diagonal, Tensor& y) { triangle("tril", x, diagonal, false, y); }
void triu(const Tensor& x, int64_t diagonal, Tensor& y) { triangle("triu", x, diagonal, true, y); }

void diag_embed(const Tensor& x, int64_t offset, Tensor& y) {
  fill(y, Scalar(0));
  if (x.numel() == 0) return;
  Tensor part = views::diagonal(y, offset, 0, 1);
  copy(part, x);
}

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

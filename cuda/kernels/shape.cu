// cuda/kernels/shape.cu: joining, padding, flipping and laying gradients into views. What is a
// plain copy into part of the result goes through the copy kernel.
#include "cuda/kernels/common/geometry.cuh"
#include "cuda/runtime/device.h"
#include "tensor/core/view_writer.h"
#include "tensor/core/views.h"
#include "tensor/kernels_copy.h"
#include "tensor/kernels_shape.h"

namespace moonlet::cuda {

void cat(const std::vector<Tensor>& tensors, int64_t dim, Tensor& y) {
  if (y.numel() == 0) return;
  const int d = wrapped(dim, y.dim());
  int64_t at = 0;
  for (const Tensor& x : tensors) {
    if (x.numel() == 0) continue;
    const int64_t count = x.size(d);
    Tensor part = views::slice(y, d, at, at + count, 1);
    copy(part, x);
    at += count;
  }
}

constexpr ViewWriter kWriter{fill, copy, 1 << 20};

void select_grad_x(const Tensor& grad, const Dims&, int64_t dim, int64_t index, Tensor& y) {
  kWriter.select_grad_x(grad, dim, index, y);
}

void slice_grad_x(const Tensor& grad, const Dims&, int64_t dim, int64_t start, int64_t stop,
                  int64_t step, Tensor& y) {
  kWriter.slice_grad_x(grad, dim, start, stop, step, y);
}

void diagonal_grad_x(const Tensor& grad, const Dims&, int64_t offset, int64_t dim1, int64_t dim2,
                     Tensor& y) {
  kWriter.diagonal_grad_x(grad, offset, dim1, dim2, y);
}

void block_diag(const std::vector<Tensor>& tensors, Tensor& y) { kWriter.block_diag(tensors, y); }

void constant_pad(const Tensor& x, const std::vector<int64_t>& pad, Scalar value, Tensor& y) {
  kWriter.constant_pad(x, pad, value, y);
}

namespace {

template <class T>
__global__ void flip_kernel(Geometry<1> from, int64_t count, const T* x, T* y) {
  for (MOONLET_EACH(i, count)) y[i] = x[offsets(from, i).at[0]];
}

}  // namespace

void flip(const Tensor& x, const Dims& dims, Tensor& y) {
  if (x.numel() == 0) return;
  if (x.dim() == 0) return copy(y, x);
  const Call call(x, "flip");
  Dims strides = x.strides();
  int64_t first = 0;
  for (int64_t d : dims) {
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

}  // namespace moonlet::cuda

// tensor/cpu/copy/shape_kernels.cpp: joining, padding and laying gradients into views on
// the CPU. What is a plain copy into part of the result goes through the copy kernel.
#include <algorithm>

#include "tensor/core/geometry.h"
#include "tensor/core/view_writer.h"
#include "tensor/core/views.h"
#include "tensor/cpu/common/dense_copy.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/copy/convert.h"
#include "tensor/cpu/copy/copy.h"
#include "tensor/kernels_copy.h"
#include "tensor/kernels_shape.h"

namespace moonlet::cpu {

namespace {

constexpr int64_t kBytesPerStep = thresholds::copy::kBytesPerStep;

// Copies a tensor's rows to their positions in the result: `rows` pieces of `bytes` each, the
// result's `pitch` bytes apart.
void copy_rows(char* out, const char* in, int64_t rows, int64_t bytes, int64_t pitch) {
  parallel_for(rows, grain_for(bytes / kBytesPerStep), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      run_blocks(0, bytes, kByteBlock, [&](int64_t first, int64_t last) {
        copy_dense(out + r * pitch + first, in + r * bytes + first,
                   static_cast<size_t>(last - first));
      });
  });
}

}  // namespace

void cat(const std::vector<Tensor>& tensors, int64_t dim, Tensor& y) {
  if (y.numel() == 0) return;
  const int d = wrapped(dim, y.dim());
  int64_t rows = 1, inner = static_cast<int64_t>(size_of(y.dtype()));
  for (int i = 0; i < d; ++i) rows *= y.size(i);
  for (int i = d + 1; i < y.dim(); ++i) inner *= y.size(i);
  int64_t at = 0;
  for (const Tensor& x : tensors) {
    if (x.numel() == 0) continue;
    const int64_t count = x.size(d);
    // One long piece is left to the copy kernel, which shares it among threads, and so are single
    // elements, for which a call each is too much.
    const bool pieces = rows > 1 && count * inner > static_cast<int64_t>(size_of(y.dtype()));
    if (pieces && x.dtype() == y.dtype() && x.is_contiguous() && y.is_contiguous()) {
      copy_rows(y.raw() + at * inner, x.raw(), rows, count * inner, y.size(d) * inner);
    } else {
      Tensor part = views::slice(y, d, at, at + count, 1);
      copy(part, x);
    }
    at += count;
  }
}

constexpr ViewWriter kWriter{fill, copy, 1024};

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

}  // namespace moonlet::cpu

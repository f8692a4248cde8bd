// tensor/cpu/common/contiguous.h: operands as kernels take them: elements one after the other, of
// the dtype that the kernel computes in.
#pragma once

#include "tensor/cpu/copy/copy.h"

namespace moonlet::cpu {

// x in that dtype, with any strides; x itself when it is.
Tensor in_dtype(const Tensor& x, DType dtype);
// x in that dtype and contiguous; x itself when it is, and when it is undefined.
Tensor converted(const Tensor& x, DType dtype);
inline Tensor contiguous(const Tensor& x) { return converted(x, x.dtype()); }

// Where a result is computed in `dtype`: y itself when it is contiguous and of it, else a new
// tensor. `write_back` brings that one's elements to y.
Tensor workspace(const Tensor& y, DType dtype);
void write_back(Tensor& y, const Tensor& work);

// The same of images (n, c, h, w) with channels last.
Tensor channels_last(const Tensor& x, DType dtype);
Tensor channels_last_workspace(const Tensor& y, DType dtype);

// Runs fill(t) with a contiguous t, which is y itself when y is contiguous and otherwise a
// temporary that is copied into y.
template <class Fill>
void with_contiguous(Tensor& y, Fill&& fill) {
  Tensor work = workspace(y, y.dtype());
  fill(work);
  write_back(y, work);
}

}  // namespace moonlet::cpu

// tensor/cpu/contiguous.cpp: copies to and from contiguous operands.
#include "tensor/cpu/contiguous.h"

namespace moonlet::cpu {

namespace {

Tensor copy_of(const Tensor& x, DType dtype) {
  Tensor out = empty_plain(x.sizes(), {dtype, x.device()}, "contiguous");
  copy_into(out, x);
  return out;
}

}  // namespace

Tensor in_dtype(const Tensor& x, DType dtype) { return x.dtype() == dtype ? x : copy_of(x, dtype); }

Tensor converted(const Tensor& x, DType dtype) {
  return !x.defined() || (x.dtype() == dtype && x.is_contiguous()) ? x : copy_of(x, dtype);
}

Tensor workspace(const Tensor& y, DType dtype) {
  if (y.dtype() == dtype && y.is_contiguous()) return y;
  return empty_plain(y.sizes(), {dtype, y.device()}, "contiguous");
}

void write_back(Tensor& y, const Tensor& work) {
  if (!work.is_same(y)) copy_into(y, work);
}

}  // namespace moonlet::cpu

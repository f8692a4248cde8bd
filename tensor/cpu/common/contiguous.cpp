// tensor/cpu/common/contiguous.cpp: copies to and from contiguous operands.
#include "tensor/cpu/common/contiguous.h"

namespace moonlet::cpu {

namespace {

Tensor copy_of(const Tensor& x, DType dtype) {
  Tensor out = empty_plain(x.sizes(), {dtype, x.device()}, "contiguous");
  copy_into(out, x);
  return out;
}

bool is_channels_last(const Tensor& x) {
  return is_contiguous(x.sizes(), x.strides(), MemoryFormat::ChannelsLast);
}

Tensor new_images(const Dims& sizes, DType dtype) {
  return empty_strided(sizes, format_strides(MemoryFormat::ChannelsLast, sizes, "contiguous"),
                       {dtype, {}}, "contiguous");
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

Tensor channels_last(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype && is_channels_last(x)) return x;
  Tensor out = new_images(x.sizes(), dtype);
  copy_into(out, x);
  return out;
}

Tensor channels_last_workspace(const Tensor& y, DType dtype) {
  return y.dtype() == dtype && is_channels_last(y) ? y : new_images(y.sizes(), dtype);
}

void write_back(Tensor& y, const Tensor& work) {
  if (!work.is_same(y)) copy_into(y, work);
}

}  // namespace moonlet::cpu

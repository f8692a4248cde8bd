// tensor/shapes/convert.cpp: argument checks and result shapes of copies and fills.
#include "tensor/shapes_clone.h"
#include "tensor/shapes_convert.h"
#include "tensor/shapes_copy.h"

namespace moonlet::shapes {

void copy(const Tensor& x, const Tensor& source) {
  check(can_expand(source.sizes(), x.sizes()), "copy_: shape ", source.sizes(),
        " does not broadcast to ", x.sizes());
}

void fill(const Tensor& x, Scalar value) { check_fits(value, x.dtype(), "fill"); }

Result laid_out_like(const Tensor& x, MemoryFormat format, Options options, const char* op) {
  Result out{x.sizes(), options};
  if (format == MemoryFormat::Preserve && !x.is_contiguous())
    out.strides = dense_strides(x.sizes(), x.strides());
  else if (format != MemoryFormat::Preserve && format != MemoryFormat::Contiguous)
    out.strides = format_strides(format, x.sizes(), op);
  return out;
}

Result clone(const Tensor& x, std::optional<MemoryFormat> memory_format) {
  return laid_out_like(x, memory_format.value_or(MemoryFormat::Preserve), options_of(x), "clone");
}

Result convert(const Tensor& x, std::optional<DType> dtype, std::optional<Device> device,
               std::optional<MemoryFormat> memory_format) {
  return laid_out_like(x, memory_format.value_or(MemoryFormat::Preserve),
                       {dtype.value_or(x.dtype()), device.value_or(x.device())}, "to");
}

}  // namespace moonlet::shapes

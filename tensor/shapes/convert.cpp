// tensor/shapes/convert.cpp: result shapes of conversions.
#include "tensor/shapes_convert.h"

namespace moonlet::shapes {

Result convert(const Tensor& x, std::optional<DType> dtype, std::optional<Device> device,
               std::optional<MemoryFormat> memory_format) {
  return laid_out_like(x, memory_format.value_or(MemoryFormat::Preserve),
                       {dtype.value_or(x.dtype()), device.value_or(x.device())}, "to");
}

}  // namespace moonlet::shapes

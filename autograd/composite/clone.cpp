// autograd/composite/clone.cpp: copies that may have nothing to do.
#include "autograd/uses_composite_clone.h"

namespace moonlet {

Tensor contiguous_composite(const Tensor& x, std::optional<MemoryFormat> memory_format) {
  const MemoryFormat format = memory_format.value_or(MemoryFormat::Contiguous);
  check(format != MemoryFormat::Preserve,
        "contiguous: memory_format \"preserve_format\" is no order of elements");
  return is_contiguous(x.sizes(), x.strides(), format) ? x : clone(x, format);
}

}  // namespace moonlet

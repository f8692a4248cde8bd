// tensor/shapes/clone.cpp: result shapes of clones.
#include "tensor/shapes_clone.h"

namespace moonlet::shapes {

Result clone(const Tensor& x, std::optional<MemoryFormat> memory_format) {
  return laid_out_like(x, memory_format.value_or(MemoryFormat::Preserve), options_of(x), "clone");
}

}  // namespace moonlet::shapes

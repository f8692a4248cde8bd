// tensor/shapes/result.cpp: results that lie in memory as another tensor does.
#include "tensor/shapes/result.h"

namespace moonlet::shapes {

Result laid_out_like(const Tensor& x, MemoryFormat format, Options options, const char* op) {
  Result out{x.sizes(), options};
  if (format == MemoryFormat::Preserve && !x.is_contiguous())
    out.strides = dense_strides(x.sizes(), x.strides());
  else if (format != MemoryFormat::Preserve && format != MemoryFormat::Contiguous)
    out.strides = format_strides(format, x.sizes(), op);
  return out;
}

}  // namespace moonlet::shapes

// autograd/composite/pointwise.cpp: pointwise ops and conversions made of other ops.
#include "autograd/ops_activation.h"
#include "autograd/ops_clone.h"
#include "autograd/ops_convert.h"
#include "autograd/ops_pointwise.h"
#include "autograd/ops_shape.h"

namespace moonlet {

Tensor div_mode_composite(const Operand& x, const Operand& other, std::string_view rounding_mode) {
  if (rounding_mode == "floor") return floor_divide(x, other);
  if (rounding_mode == "trunc") return trunc_divide(x, other);
  fail("div: rounding_mode is '", rounding_mode, "'; it can be \"floor\" or \"trunc\"");
}

Tensor clamp_composite(const Tensor& x, std::optional<Scalar> min, std::optional<Scalar> max) {
  check(min || max, "clamp: at least one of min and max is wanted");
  if (!max) return clamp_min(x, *min);
  if (!min) return clamp_max(x, *max);
  return clamp_max(clamp_min(x, *min), *max);
}

Tensor conj_composite(const Tensor& x) { return is_complex(x.dtype()) ? conj_physical(x) : x; }

Tensor real_composite(const Tensor& x) {
  return is_complex(x.dtype()) ? select(view_as_real(x), x.dim(), 0) : x;
}

Tensor imag_composite(const Tensor& x) {
  check(is_complex(x.dtype()), "imag: dtype ", x.dtype(), " has no imaginary parts");
  return select(view_as_real(x), x.dim(), 1);
}

Tensor bitwise_not_composite(const Tensor& x) {
  return x.dtype() == DType::Bool ? logical_not(x) : bitwise_invert(x);
}

Tensor gelu_composite(const Tensor& x, std::string_view approximate) {
  if (approximate == "none") return gelu_erf(x);
  if (approximate == "tanh") return gelu_tanh(x);
  fail("gelu: approximate is '", approximate, "'; it can be \"none\" or \"tanh\"");
}

Tensor contiguous_composite(const Tensor& x, std::optional<MemoryFormat> memory_format) {
  const MemoryFormat format = memory_format.value_or(MemoryFormat::Contiguous);
  check(format != MemoryFormat::Preserve,
        "contiguous: memory_format \"preserve_format\" is no order of elements");
  return is_contiguous(x.sizes(), x.strides(), format) ? x : clone(x, format);
}

Tensor to_composite(const Tensor& x, std::optional<DType> dtype, std::optional<Device> device,
                    std::optional<MemoryFormat> memory_format) {
  const MemoryFormat format = memory_format.value_or(MemoryFormat::Preserve);
  const bool lies =
      format == MemoryFormat::Preserve || is_contiguous(x.sizes(), x.strides(), format);
  if (lies && dtype.value_or(x.dtype()) == x.dtype() && device.value_or(x.device()) == x.device())
    return x;
  return convert(x, dtype, device, format);
}

}  // namespace moonlet

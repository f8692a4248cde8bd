// autograd/composite/convert.cpp: conversions that may have nothing to do.
#include <utility>

#include "autograd/uses_composite_convert.h"
#include "tensor/runtime/streams.h"

namespace moonlet {

namespace {

// Whether copies between the host and a device are waited for, in a C++ scope.
class CopyScope {
 public:
  explicit CopyScope(bool waits) : before_(std::exchange(device_state.copies_wait, waits)) {}
  ~CopyScope() { device_state.copies_wait = before_; }
  CopyScope(const CopyScope&) = delete;
  CopyScope& operator=(const CopyScope&) = delete;

 private:
  const bool before_;
};

}  // namespace

Tensor to_composite(const Tensor& x, std::optional<DType> dtype, std::optional<Device> device,
                    std::optional<MemoryFormat> memory_format, bool copy, bool non_blocking) {
  const MemoryFormat format = memory_format.value_or(MemoryFormat::Preserve);
  const bool lies =
      format == MemoryFormat::Preserve || is_contiguous(x.sizes(), x.strides(), format);
  if (!copy && lies && dtype.value_or(x.dtype()) == x.dtype() &&
      device.value_or(x.device()) == x.device())
    return x;
  // A backend knows its own devices and the host.
  const Device from = x.device().real();
  if (device && !from.is_cpu() && !device->real().is_cpu() && device->real().type != from.type)
    return convert(convert(x, std::nullopt, Device{}, format), dtype, device, format);
  const bool crosses = device && device->real().is_cpu() != from.is_cpu();
  const CopyScope scope(!(non_blocking && crosses));
  return convert(x, dtype, device, format);
}

Tensor to_as_composite(const Tensor& x, const Tensor& other,
                       std::optional<MemoryFormat> memory_format, bool copy, bool non_blocking) {
  return to(x, other.dtype(), other.device(), memory_format, copy, non_blocking);
}

Tensor type_as_composite(const Tensor& x, const Tensor& other) {
  return to(x, other.dtype(), other.device());
}

}  // namespace moonlet

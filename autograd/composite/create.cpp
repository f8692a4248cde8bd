// autograd/composite/create.cpp: new tensors made of other ops.
#include <algorithm>

#include "autograd/host_value.h"
#include "autograd/uses_composite_create.h"
#include "tensor/shapes/create.h"

namespace moonlet {

Tensor empty_composite(const Dims& size, Options options) { return empty_plain(size, options); }

Tensor empty_in_format_composite(const Dims& size, MemoryFormat format, Options options) {
  check(format != MemoryFormat::Preserve,
        "empty: memory_format \"preserve_format\" has no tensor to follow; use empty_like");
  return empty_strided(size, format_strides(format, size, "empty"), options, "empty");
}

Tensor zeros_composite(const Dims& size, Options options) {
  return full(size, int64_t{0}, options);
}
Tensor ones_composite(const Dims& size, Options options) { return full(size, int64_t{1}, options); }

Tensor full_composite(const Dims& size, Scalar value, Options options) {
  Tensor y = empty_plain(size, options, "full");
  fill_(y, value);
  return y;
}

Tensor empty_like_composite(const Tensor& x, std::optional<DType> dtype,
                            std::optional<Device> device,
                            std::optional<MemoryFormat> memory_format) {
  return empty_like_plain(x, memory_format.value_or(MemoryFormat::Preserve),
                          {dtype.value_or(x.dtype()), device.value_or(x.device())}, "empty_like");
}

Tensor zeros_like_composite(const Tensor& x, std::optional<DType> dtype,
                            std::optional<Device> device,
                            std::optional<MemoryFormat> memory_format) {
  return full_like(x, int64_t{0}, dtype, device, memory_format);
}

Tensor ones_like_composite(const Tensor& x, std::optional<DType> dtype,
                           std::optional<Device> device,
                           std::optional<MemoryFormat> memory_format) {
  return full_like(x, int64_t{1}, dtype, device, memory_format);
}

Tensor full_like_composite(const Tensor& x, Scalar value, std::optional<DType> dtype,
                           std::optional<Device> device,
                           std::optional<MemoryFormat> memory_format) {
  Tensor y = empty_like(x, dtype, device, memory_format);
  fill_(y, value);
  return y;
}

Tensor arange_composite(Scalar start, std::optional<Scalar> stop, Scalar step,
                        std::optional<DType> dtype, std::optional<Device> device) {
  Tensor y = allocate(shapes::arange(start, stop, step, dtype, device), "arange");
  const Scalar first = shapes::arange_first(start, stop);
  if (const int64_t steps = y.numel() - 1; steps >= 0) {
    check_fits(first, y.dtype(), "arange");
    if (first.is_int() && step.is_int())
      check_fits(
          static_cast<int64_t>(static_cast<uint64_t>(first.to_int()) +
                               static_cast<uint64_t>(steps) * static_cast<uint64_t>(step.to_int())),
          y.dtype(), "arange");
    else
      check_fits(first.to_double() + static_cast<double>(steps) * step.to_double(), y.dtype(),
                 "arange");
  }
  iota_(y, first, step);
  return y;
}

Tensor linspace_composite(Scalar start, Scalar stop, int64_t steps, Options options) {
  check(!start.is_complex() && !stop.is_complex(), "linspace: complex numbers have no order");
  Tensor y = allocate(shapes::linspace(steps, options), "linspace");
  check_fits(start, options.dtype, "linspace");
  check_fits(stop, options.dtype, "linspace");
  const double gap = stop.to_double() - start.to_double();
  iota_(y, start.to_double(), steps > 1 ? gap / static_cast<double>(steps - 1) : 0.0);
  if (steps > 1) {
    Tensor last = narrow(y, 0, steps - 1, 1);
    fill_(last, stop);
  }
  return y;
}

Tensor logspace_composite(double start, double stop, int64_t steps, double base, Options options) {
  const Tensor exponents = linspace(start, stop, steps, {DType::Float64, options.device});
  return to(pow(base, exponents), options.dtype);
}

Tensor eye_composite(int64_t n, std::optional<int64_t> m, Options options) {
  Tensor y = zeros(Dims{n, m.value_or(n)}, options);
  if (y.numel() == 0) return y;
  Tensor middle = diagonal(y, 0, 0, 1);
  fill_(middle, int64_t{1});
  return y;
}

Tensor diag_composite(const Tensor& x, int64_t offset) {
  check(x.dim() == 1 || x.dim() == 2, "diag: x has shape ", x.sizes(),
        "; one or two dimensions wanted");
  return x.dim() == 1 ? diag_embed(x, offset) : clone(diagonal(x, offset, 0, 1));
}

Tensor one_hot_composite(const Tensor& x, int64_t num_classes) {
  check(num_classes >= 0, "one_hot: ", num_classes, " classes");
  check(num_classes > 0 || x.numel() > 0, "one_hot: num_classes is needed when x is empty");
  const int64_t most = x.numel() ? host_value<int64_t>(amax(x)) : 0;
  const int64_t least = x.numel() ? host_value<int64_t>(amin(x)) : 1;
  const int64_t classes = num_classes ? num_classes : std::max<int64_t>(most, 1);
  check(least >= 1, "one_hot: position ", least, ": positions start at 1");
  check(most <= classes, "one_hot: position ", most, " is out of range for size ", classes);
  const Tensor all = arange(int64_t{1}, Scalar(classes), int64_t{1}, DType::Int64, x.device());
  return to(eq(unsqueeze(x, -1), all), DType::Int64);
}

}  // namespace moonlet

// autograd/composite/create.cpp: new tensors, random draws and selections made of other ops.
#include <algorithm>
#include <limits>

#include "autograd/host_value.h"
#include "autograd/ops_arithmetic.h"
#include "autograd/ops_clone.h"
#include "autograd/ops_compare.h"
#include "autograd/ops_convert.h"
#include "autograd/ops_copy.h"
#include "autograd/ops_create.h"
#include "autograd/ops_gather.h"
#include "autograd/ops_logic.h"
#include "autograd/ops_random.h"
#include "autograd/ops_reduce.h"
#include "autograd/ops_scan.h"
#include "autograd/ops_shape.h"
#include "autograd/ops_sort.h"
#include "tensor/shapes/create.h"
#include "tensor/shapes/random.h"

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

Tensor rand_composite(const Dims& size, Generator* generator, Options options) {
  Tensor y = empty_plain(size, options, "rand");
  uniform_(y, 0, 1, generator);
  return y;
}

Tensor randn_composite(const Dims& size, Generator* generator, Options options) {
  Tensor y = empty_plain(size, options, "randn");
  normal_(y, 0, 1, generator);
  return y;
}

Tensor randint_composite(int64_t low, int64_t high, const Dims& size, std::optional<DType> dtype,
                         std::optional<Device> device, Generator* generator) {
  Tensor y =
      empty_plain(size, {dtype.value_or(DType::Int64), device.value_or(Device{})}, "randint");
  random_(y, low, high, generator);
  return y;
}

Tensor randint_to_composite(int64_t high, const Dims& size, std::optional<DType> dtype,
                            std::optional<Device> device, Generator* generator) {
  return randint(1, high, size, dtype, device, generator);
}

Tensor rand_like_composite(const Tensor& x, std::optional<DType> dtype, Generator* generator,
                           std::optional<MemoryFormat> memory_format) {
  Tensor y = empty_like(x, dtype, std::nullopt, memory_format);
  uniform_(y, 0, 1, generator);
  return y;
}

Tensor randn_like_composite(const Tensor& x, std::optional<DType> dtype, Generator* generator,
                            std::optional<MemoryFormat> memory_format) {
  Tensor y = empty_like(x, dtype, std::nullopt, memory_format);
  normal_(y, 0, 1, generator);
  return y;
}

Tensor randperm_composite(int64_t n, std::optional<Device> device, Generator* generator) {
  Tensor keys = allocate(shapes::randperm(n, device.value_or(Device{})), "randperm");
  random_(keys, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(),
          generator);
  return argsort(keys, 0, false, true);
}

// The position of the category that each number of u, (rows, samples), falls into: u is sorted
// among the ends of the categories' intervals, and the ends that stand before it are counted.
static Tensor draw_replaced(const Tensor& probs, int64_t samples, Generator* generator) {
  const int64_t n = probs.size(-1);
  const Tensor ends = cumsum(to(probs, DType::Float64), -1);
  Dims sizes = probs.sizes();
  sizes.back() = samples;
  const Tensor u = mul(rand(sizes, generator, options_of(ends)), narrow(ends, -1, n - 1, 1));
  const auto [values, from] = sort(cat({ends, u}, -1), -1, false, true);
  const Tensor passed = cumsum(to(le(from, n), DType::Int64), -1);
  const Tensor counts = scatter(zeros_like(passed), -1, from, passed);
  return minimum(add(narrow(counts, -1, n, samples), int64_t{1}), n);
}

static Tensor draw_distinct(const Tensor& probs, int64_t samples, Generator* generator) {
  Tensor waiting = empty_like(probs);
  exponential_(waiting, 1, generator);
  // The first to arrive of processes with these rates; a rate of 0 never does.
  const Tensor order = masked_fill(div(probs, waiting), eq(probs, 0.0), -1.0);
  return std::get<1>(topk(order, samples, -1, true, true));
}

Tensor multinomial_composite(const Tensor& given, int64_t num_samples, bool replacement,
                             Generator* generator) {
  const shapes::Result drawn = shapes::multinomial(given, num_samples, replacement);
  const Tensor probs = to(shallow_copy(given), DType::Float64);
  const Tensor counts = count_nonzero(probs, Dims{-1});
  if (counts.numel() == 0) return allocate(drawn, "multinomial");
  check(host_value<bool>(all(logical_and(isfinite(probs), ge(probs, 0.0)))),
        "multinomial: the weights must be finite and not negative");
  const int64_t needed = replacement ? 1 : num_samples;
  check(host_value<int64_t>(amin(counts)) >= needed, "multinomial: ", needed,
        " categories of positive weight wanted in every row");
  return replacement ? draw_replaced(probs, num_samples, generator)
                     : draw_distinct(probs, num_samples, generator);
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

Tensor bincount_composite(const Tensor& x, const Tensor& weights, int64_t minlength) {
  check(x.dim() == 1, "bincount: x has shape ", x.sizes(), "; one dimension wanted");
  check(minlength >= 0, "bincount: minlength ", minlength, " is negative");
  const int64_t most = x.numel() ? host_value<int64_t>(amax(x)) : 0;
  const int64_t length = std::max({most, minlength, int64_t{0}});
  Tensor each = weights.defined() ? weights : ones(x.sizes(), {DType::Int64, x.device()});
  if (weights.defined() && weights.dtype() != DType::Float32) each = to(weights, DType::Float64);
  return index_add(zeros(Dims{length}, options_of(each)), 0, x, each);
}

Tensor masked_select_composite(const Tensor& x, const Tensor& mask) {
  const Dims sizes = broadcast(x.sizes(), mask.sizes(), "masked_select");
  const int64_t count = numel_of(sizes, "masked_select");
  const Tensor found = nonzero(reshape(expand(mask, sizes), Dims{count}));
  return index_select(reshape(expand(x, sizes), Dims{count}), 0,
                      reshape(found, Dims{found.size(0)}));
}

}  // namespace moonlet

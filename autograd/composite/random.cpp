// autograd/composite/random.cpp: random draws made of other ops.
#include <limits>

#include "autograd/host_value.h"
#include "autograd/uses_composite_random.h"
#include "tensor/execution.h"
#include "tensor/shapes/random.h"

namespace moonlet {

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
  Tensor y = empty_plain(
      size, {dtype.value_or(DType::Int64), device.value_or(execution.default_device)}, "randint");
  random_(y, low, high, generator);
  return y;
}

Tensor randint_to_composite(int64_t high, const Dims& size, std::optional<DType> dtype,
                            std::optional<Device> device, Generator* generator) {
  return randint(1, high, size, dtype, device, generator);
}

Tensor rand_like_composite(const Tensor& x, std::optional<DType> dtype,
                           std::optional<Device> device, Generator* generator,
                           std::optional<MemoryFormat> memory_format) {
  Tensor y = empty_like(x, dtype, device, memory_format);
  uniform_(y, 0, 1, generator);
  return y;
}

Tensor randn_like_composite(const Tensor& x, std::optional<DType> dtype,
                            std::optional<Device> device, Generator* generator,
                            std::optional<MemoryFormat> memory_format) {
  Tensor y = empty_like(x, dtype, device, memory_format);
  normal_(y, 0, 1, generator);
  return y;
}

Tensor randperm_composite(int64_t n, std::optional<Device> device, Generator* generator) {
  Tensor keys =
      allocate(shapes::randperm(n, device.value_or(execution.default_device)), "randperm");
  random_(keys, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(),
          generator);
  return argsort(keys, 0, false, true);
}

// The position of the category that each number of u, (rows, samples), falls into: u is sorted
// among the ends of the categories' intervals, and the ends that stand before it are counted.
static Tensor draw_replaced(const Tensor& probs, int64_t samples, Generator* generator) {
  const int64_t n = probs.size(-1);
  const Tensor sums = cumsum(to(probs, DType::Float64), -1);
  const Tensor ends = div(sums, narrow(sums, -1, n - 1, 1));
  Dims sizes = probs.sizes();
  sizes.back() = samples;
  const Tensor u = rand(sizes, generator, options_of(ends));
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

}  // namespace moonlet

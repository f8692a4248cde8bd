// autograd/composite/random.cpp: random draws made of other ops.
#include <cmath>
#include <limits>

#include "autograd/host_value.h"
#include "autograd/uses_composite_random.h"
#include "tensor/program/made_memory.h"
#include "tensor/runtime/execution.h"
#include "tensor/shapes/random.h"

namespace moonlet {

namespace {

// Draws into both parts of complex numbers, or into y itself.
template <class Draw>
void fill_parts(Tensor& y, Draw&& draw) {
  if (!is_complex(y.dtype())) return draw(y);
  Tensor parts = view_as_real(y);
  draw(parts);
}

void fill_uniform(Tensor& y, Generator* generator) {
  fill_parts(y, [&](Tensor& x) { uniform_(x, 0, 1, generator); });
}
// Of variance 1 in all.
void fill_normal(Tensor& y, Generator* generator) {
  const double std = is_complex(y.dtype()) ? std::sqrt(0.5) : 1;
  fill_parts(y, [&](Tensor& x) { normal_(x, 0, std, generator); });
}

}  // namespace

Tensor rand_composite(const Dims& size, Generator* generator, Options options) {
  Tensor y = program::made_memory(empty_plain(size, options, "rand"));
  fill_uniform(y, generator);
  return y;
}

Tensor randn_composite(const Dims& size, Generator* generator, Options options) {
  Tensor y = program::made_memory(empty_plain(size, options, "randn"));
  fill_normal(y, generator);
  return y;
}

Tensor randint_composite(int64_t low, int64_t high, const Dims& size, std::optional<DType> dtype,
                         std::optional<Device> device, Generator* generator) {
  const Options options{dtype.value_or(DType::Int64), device.value_or(execution.default_device)};
  Tensor y = program::made_memory(empty_plain(size, options, "randint"));
  random_(y, low, high, generator);
  return y;
}

Tensor randint_to_composite(int64_t high, const Dims& size, std::optional<DType> dtype,
                            std::optional<Device> device, Generator* generator) {
  return randint(1, high, size, dtype, device, generator);
}

Tensor randint_like_composite(const Tensor& x, int64_t low, std::optional<int64_t> high,
                              std::optional<DType> dtype, std::optional<Device> device,
                              Generator* generator, std::optional<MemoryFormat> memory_format) {
  Tensor y = empty_like(x, dtype, device, memory_format);
  random_(y, low, high, generator);
  return y;
}

Tensor rand_like_composite(const Tensor& x, std::optional<DType> dtype,
                           std::optional<Device> device, Generator* generator,
                           std::optional<MemoryFormat> memory_format) {
  Tensor y = empty_like(x, dtype, device, memory_format);
  fill_uniform(y, generator);
  return y;
}

Tensor randn_like_composite(const Tensor& x, std::optional<DType> dtype,
                            std::optional<Device> device, Generator* generator,
                            std::optional<MemoryFormat> memory_format) {
  Tensor y = empty_like(x, dtype, device, memory_format);
  fill_normal(y, generator);
  return y;
}

Tensor randperm_composite(int64_t n, std::optional<DType> dtype, std::optional<Device> device,
                          Generator* generator) {
  Tensor keys =
      allocate(shapes::randperm(n, dtype, device.value_or(execution.default_device)), "randperm");
  random_(keys, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(),
          generator);
  return to(random_order(keys), dtype.value_or(DType::Int64));
}

namespace {

// A tensor of x's shape in float32, or float64 for one of that dtype: what draws are computed in.
Tensor wide_like(const Tensor& x) {
  return empty_like(x, x.dtype() == DType::Float64 ? DType::Float64 : DType::Float32);
}

// An argument without its history.
Operand detached(const Operand& x) { return x.is_tensor() ? Operand(shallow_copy(x.tensor())) : x; }

}  // namespace

Tensor bernoulli_of_composite(const Tensor& given, std::optional<double> p, Generator* generator) {
  const Tensor x = shallow_copy(given);
  if (p) {
    shapes::check_probability("bernoulli", *p);
    Tensor y = empty_like(x);
    bernoulli_fill_(y, *p, generator);
    return y;
  }
  check(is_floating(x.dtype()), "bernoulli: dtype ", x.dtype(),
        "; probabilities of a floating one expected");
  expect_all(logical_and(ge(x, 0.0), le(x, 1.0)),
             "bernoulli: the probabilities must be between 0 and 1");
  Tensor u = wide_like(x);
  uniform_(u, 0, 1, generator);
  return to(lt(u, to(x, u.dtype())), x.dtype());
}

Tensor bernoulli_composite(const Tensor& x, const Operand& p, Generator* generator) {
  Tensor y = empty_like(x);
  if (!p.is_tensor()) {
    bernoulli_fill_(y, p.scalar().to_double(), generator);
    return y;
  }
  const Tensor each = contiguous(expand(shallow_copy(p.tensor()), x.sizes()));
  return to(bernoulli_of(each, std::nullopt, generator), x.dtype());
}

Tensor cauchy_composite(const Tensor& x, double median, double sigma, Generator* generator) {
  check(sigma > 0, "cauchy_: sigma ", sigma, " is not positive");
  Tensor y = empty_like(x, DType::Float64);
  uniform_(y, -0.5, 0.5, generator);
  return to(add(mul(tan(mul(y, 3.14159265358979323846)), sigma), median), x.dtype());
}

Tensor log_normal_composite(const Tensor& x, double mean, double std, Generator* generator) {
  check(std > 0, "log_normal_: the standard deviation ", std, " is not positive");
  Tensor y = wide_like(x);
  normal_(y, mean, std, generator);
  return to(exp(y), x.dtype());
}

// A time of the exponential distribution, in units of the rate that belongs to p, rounded up.
Tensor geometric_composite(const Tensor& x, double p, Generator* generator) {
  check(p > 0 && p < 1, "geometric_: p = ", p, " is not between 0 and 1");
  Tensor y = empty_like(x, DType::Float64);
  exponential_(y, 1, generator);
  return to(clamp_min(ceil(div(y, -std::log1p(-p))), 1.0), x.dtype());
}

// std z + mean for standard normal z.
Tensor normal_of_composite(const Operand& mean, const Operand& std, Generator* generator) {
  check(mean.is_tensor() || std.is_tensor(),
        "normal: a size is expected where mean and std are numbers");
  if (std.is_tensor())
    expect_all(ge(shallow_copy(std.tensor()), 0.0), "normal: std must not be negative");
  else
    check(std.scalar().to_double() >= 0, "normal: std = ", std.scalar().to_double(),
          " is negative");
  // The shape and the dtype that the two have together.
  Tensor z = empty_like(mean.is_tensor() ? add(shallow_copy(mean.tensor()), detached(std))
                                         : shallow_copy(std.tensor()));
  fill_normal(z, generator);
  return add(mul(z, detached(std)), detached(mean));
}

Tensor normal_sized_composite(double mean, double std, const Dims& size, Generator* generator,
                              Options options) {
  check(std >= 0, "normal: std = ", std, " is negative");
  Tensor y = program::made_memory(empty_plain(size, options, "normal"));
  const double part = is_complex(options.dtype) ? std * std::sqrt(0.5) : std;
  fill_parts(y, [&](Tensor& x) { normal_(x, 0, part, generator); });
  return mean == 0 ? y : add(y, mean);
}

Tensor poisson_composite(const Tensor& rate, Generator* generator) {
  const Tensor x = shallow_copy(rate);
  expect_all(ge(x, 0.0), "poisson: the rates must not be negative");
  return poisson_draw(x, generator);
}

Tensor binomial_composite(const Tensor& count, const Tensor& prob, Generator* generator) {
  const Tensor n = shallow_copy(count), p = shallow_copy(prob);
  expect_all(logical_and(ge(n, 0.0), le(n, 0x1p53)), "binomial: the counts must be from 0 to 2^53");
  expect_all(logical_and(ge(p, 0.0), le(p, 1.0)),
             "binomial: the probabilities must be between 0 and 1");
  const Dims sizes = broadcast(n.sizes(), p.sizes(), "binomial");
  return binomial_draw(expand(n, sizes), expand(p, sizes), generator);
}

// The position of the category that each number of u, (rows, samples), falls into: behind the ends
// of those whose intervals lie below it.
static Tensor draw_replaced(const Tensor& probs, int64_t samples, Generator* generator) {
  const int64_t n = probs.size(-1);
  const Tensor sums = cumsum(to(probs, DType::Float64), -1);
  const Tensor ends = contiguous(div(sums, narrow(sums, -1, n - 1, 1)));
  Dims sizes = probs.sizes();
  sizes.back() = samples;
  const Tensor u = rand(sizes, generator, options_of(ends));
  return minimum(searchsorted(ends, u, false, true), n);
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
  expect_all(logical_and(isfinite(probs), ge(probs, 0.0)),
             "multinomial: the weights must be finite and not negative");
  const int64_t needed = replacement ? 1 : num_samples;
  expect_all(ge(counts, needed),
             text("multinomial: ", needed, " categories of positive weight expected in every row"));
  return replacement ? draw_replaced(probs, num_samples, generator)
                     : draw_distinct(probs, num_samples, generator);
}

}  // namespace moonlet

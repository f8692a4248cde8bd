// autograd/composite/create.cpp: new tensors made of other ops.
#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "autograd/host_value.h"
#include "autograd/tape.h"
#include "autograd/uses_composite_create.h"
#include "tensor/core/plain_copy.h"
#include "tensor/program/made_memory.h"
#include "tensor/runtime/execution.h"
#include "tensor/runtime/interrupt.h"
#include "tensor/shapes/create.h"

namespace moonlet {

Tensor empty_composite(const Dims& size, Options options) {
  return shown_empty(program::made_memory(empty_plain(size, options)), "empty");
}

Tensor empty_in_format_composite(const Dims& size, MemoryFormat format, Options options) {
  check(format != MemoryFormat::Preserve,
        "empty: memory_format \"preserve_format\" has no tensor to follow; use empty_like");
  const Dims strides = format_strides(format, size, "empty");
  return shown_empty(program::made_memory(empty_strided(size, strides, options, "empty")), "empty");
}

Tensor zeros_composite(const Dims& size, Options options) {
  return full(size, int64_t{0}, options);
}
Tensor ones_composite(const Dims& size, Options options) { return full(size, int64_t{1}, options); }

Tensor full_composite(const Dims& size, Scalar value, Options options) {
  Tensor y = program::made_memory(empty_plain(size, options, "full"));
  fill_(y, value);
  return y;
}

Tensor empty_like_composite(const Tensor& x, std::optional<DType> dtype,
                            std::optional<Device> device,
                            std::optional<MemoryFormat> memory_format) {
  const Options options{dtype.value_or(x.dtype()), device.value_or(x.device())};
  return shown_empty(program::made_memory(empty_like_plain(
                         x, memory_format.value_or(MemoryFormat::Preserve), options, "empty_like")),
                     "empty_like");
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

Tensor new_empty_composite(const Tensor& x, const Dims& size, std::optional<DType> dtype,
                           std::optional<Device> device) {
  const Options options{dtype.value_or(x.dtype()), device.value_or(x.device())};
  return shown_empty(program::made_memory(empty_plain(size, options, "new_empty")), "new_empty");
}

Tensor new_full_composite(const Tensor& x, const Dims& size, Scalar value,
                          std::optional<DType> dtype, std::optional<Device> device) {
  Tensor y = new_empty(x, size, dtype, device);
  fill_(y, value);
  return y;
}

Tensor new_zeros_composite(const Tensor& x, const Dims& size, std::optional<DType> dtype,
                           std::optional<Device> device) {
  return new_full(x, size, int64_t{0}, dtype, device);
}

Tensor new_ones_composite(const Tensor& x, const Dims& size, std::optional<DType> dtype,
                          std::optional<Device> device) {
  return new_full(x, size, int64_t{1}, dtype, device);
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

namespace {

// An end of a range, which may be a tensor of one element.
Scalar range_end(const char* op, const Operand& end) {
  if (!end.is_tensor()) {
    check(!end.scalar().is_complex(), op, ": complex numbers have no order");
    return end.scalar();
  }
  const Tensor& x = end.tensor();
  check(x.numel() == 1, op, ": an end of the range has shape ", x.sizes(),
        "; one element expected");
  check(!is_complex(x.dtype()), op, ": complex numbers have no order");
  if (is_floating(x.dtype())) return host_value<double>(shallow_copy(x));
  return host_value<int64_t>(x);
}

}  // namespace

namespace {

bool is_inside_vmap(const Operand& end) { return end.is_tensor() && !has_values(end.tensor()); }

// An end inside vmap, without dimensions, where the result will be. Throws unless those of all
// samples fit its dtype.
Tensor end_of_samples(const char* op, const Operand& end, const Options& options) {
  const Device device = options.device.real();
  if (!end.is_tensor()) return full({}, end.scalar().to_double(), {DType::Float64, device});
  const Tensor& x = end.tensor();
  check(x.numel() == 1, op, ": an end of the range has shape ", x.sizes(),
        "; one element expected");
  check(!is_complex(x.dtype()), op, ": complex numbers have no order");
  const Tensor wide = to(reshape(shallow_copy(x), {}), DType::Float64, device),
               all = all_samples(wide);
  for (const Tensor& extreme : {amin(all), amax(all)})
    check_fits(host_value<double>(extreme), options.dtype, op);
  return wide;
}

// The numbers of each sample.
Tensor own_linspace(const Operand& from, const Operand& end, int64_t steps, Options options) {
  const NoGrad no_grad;
  const Tensor start = end_of_samples("linspace", from, options),
               stop = end_of_samples("linspace", end, options);
  const shapes::Result result = shapes::linspace(steps, {DType::Float64, start.device().real()});
  Tensor number = allocate(result, "linspace");
  iota_(number, 0.0, 1.0);
  const double last = static_cast<double>(steps) - 1;
  const Tensor y = add(start, mul(number, div(sub(stop, start), std::max(last, 1.0))));
  return to(steps > 1 ? where(eq(number, last), stop, y) : y, options.dtype, options.device);
}

}  // namespace

Tensor linspace_composite(const Operand& from, const Operand& to, int64_t steps, Options options) {
  if (is_inside_vmap(from) || is_inside_vmap(to)) return own_linspace(from, to, steps, options);
  const Scalar start = range_end("linspace", from), stop = range_end("linspace", to);
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

Tensor logspace_composite(const Operand& from, const Operand& end, int64_t steps, double base,
                          Options options) {
  const Options wide{DType::Float64, options.device};
  const Tensor exponents =
      is_inside_vmap(from) || is_inside_vmap(end)
          ? linspace(from, end, steps, wide)
          : linspace(range_end("logspace", from), range_end("logspace", end), steps, wide);
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
        "; one or two dimensions expected");
  return x.dim() == 1 ? diag_embed(x, offset) : clone(diagonal(x, offset, 0, 1));
}

namespace {

// How many of rows x cols positions lie on the diagonal `offset`, from -rows to cols, or above it.
int64_t positions_above(int64_t rows, int64_t cols, int64_t offset) {
  const int64_t whole = std::min(rows, std::max<int64_t>(-offset, 0));
  const int64_t parts = std::max<int64_t>(std::min(rows, cols - offset) - whole, 0);
  // Each of these rows has one less than the one before it. The sum is below rows * cols.
  const auto most = static_cast<uint64_t>(cols - offset - whole);
  const auto n = static_cast<uint64_t>(parts);
  return whole * cols + static_cast<int64_t>(n * most - n * (n - 1) / 2);
}

Tensor triangle_positions(const char* op, int64_t rows, int64_t cols, int64_t offset, bool upper,
                          std::optional<DType> dtype, std::optional<Device> device) {
  check(rows >= 0 && cols >= 0, op, ": ", rows, " rows and ", cols,
        " columns; 0 or more of each expected");
  const int64_t all = numel_of({rows, cols}, op), diagonal = std::clamp(offset, -rows, cols);
  const int64_t end =
      std::min(diagonal, cols - 1) + 1;  // of the rest, where this is the lower part
  const int64_t count = upper ? positions_above(rows, cols, diagonal)
                              : all - (cols == 0 ? 0 : positions_above(rows, cols, end));
  Tensor found = empty_plain(Dims{2, count}, {DType::Int64, Device{}}, op);
  int64_t* row_to = found.elements<int64_t>();
  int64_t *const row_end = row_to + count, *col_to = row_end;
  for (int64_t row = upper ? 0 : std::max<int64_t>(-diagonal, 0); row_to != row_end; ++row) {
    if (row % kStopBlock == 0) stop_if_requested();
    const int64_t begin = upper ? std::max<int64_t>(row + diagonal, 0) : 0;
    const int64_t stop = upper ? cols : std::min(row + diagonal + 1, cols);
    row_to = std::fill_n(row_to, stop - begin, row + 1);
    std::iota(col_to, col_to + (stop - begin), begin + 1);
    col_to += stop - begin;
  }
  return to(found, dtype.value_or(DType::Int64), device.value_or(execution.default_device));
}

}  // namespace

Tensor tril_indices_composite(int64_t row, int64_t col, int64_t offset, std::optional<DType> dtype,
                              std::optional<Device> device) {
  return triangle_positions("tril_indices", row, col, offset, false, dtype, device);
}

Tensor triu_indices_composite(int64_t row, int64_t col, int64_t offset, std::optional<DType> dtype,
                              std::optional<Device> device) {
  return triangle_positions("triu_indices", row, col, offset, true, dtype, device);
}

// It is what the gradient of diagonal makes.
Tensor diag_embed_composite(const Tensor& x, int64_t offset, int64_t dim1, int64_t dim2) {
  check(x.dim() > 0, "diag_embed: x has shape (); at least one dimension expected");
  constexpr int64_t kFar = int64_t{1} << 31;
  check(offset > -kFar && offset < kFar, "diag_embed: offset ", offset, " is too large");
  const int first = wrap_dim(dim1, x.dim() + 1, "diag_embed");
  const int second = wrap_dim(dim2, x.dim() + 1, "diag_embed");
  check(first != second, "diag_embed: both dims are ", first + 1, ", and they must differ");
  Dims sizes = x.sizes();
  const int64_t n = checked_add(sizes.back(), std::abs(offset), "diag_embed");
  sizes.erase(x.dim() - 1);
  sizes.insert(std::min(first, second), n);
  sizes.insert(std::max(first, second), n);
  return diagonal_grad_x(x, sizes, offset, first, second);
}

Tensor diagflat_composite(const Tensor& x, int64_t offset) {
  return diag_embed(reshape(x, {x.numel()}), offset);
}

Tensor vander_composite(const Tensor& x, std::optional<int64_t> N, bool increasing) {
  check(x.dim() == 1, "vander: x has shape ", x.sizes(), "; one dimension expected");
  const int64_t n = N.value_or(x.numel());
  check(n >= 0, "vander: N = ", n, "; 0 or more expected");
  if (n == 0) return zeros({x.numel(), 0}, options_of(x));
  const DType dtype = x.dtype() == DType::Bool || is_integral(x.dtype()) ? DType::Int64 : x.dtype();
  const Tensor base = expand(unsqueeze(to(x, dtype), -1), {x.numel(), n - 1});
  const Tensor powers = cat({ones({x.numel(), 1}, {dtype, x.device()}), cumprod(base, -1)}, 1);
  return increasing ? powers : flip(powers, {1});
}

Tensor one_hot_composite(const Tensor& x, int64_t num_classes) {
  check(num_classes >= -1, "one_hot: ", num_classes, " classes");
  check(num_classes > 0 || x.numel() > 0, "one_hot: num_classes is needed when x is empty");
  check(x.dtype() == DType::Int64 || x.dtype() == DType::Int32, "one_hot: positions are ",
        x.dtype(), "; int64 or int32 expected");
  // The write below finds what is out of range.
  const int64_t classes =
      num_classes >= 0 ? num_classes : std::max<int64_t>(host_value<int64_t>(amax(x)), 1);
  Dims sizes = x.sizes();
  sizes.push_back(classes);
  Tensor y = zeros(sizes, {DType::Int64, x.device()});
  return scatter_value_(y, -1, unsqueeze(x, -1), int64_t{1});
}

}  // namespace moonlet

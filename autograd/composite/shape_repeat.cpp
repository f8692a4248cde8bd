// autograd/composite/shape_repeat.cpp: elements several times: whole tensors tiled, or each
// position as often as a number or a tensor says.
#include "autograd/host_value.h"
#include "autograd/uses_composite_shape_repeat.h"

namespace moonlet {

namespace {

// Each block of x after dim `d - 1`, `times` times in a row.
Tensor repeat_blocks(const Tensor& x, int d, int joined, int64_t times) {
  Dims sizes = x.sizes();
  sizes.insert(d, times);
  Dims result = x.sizes();
  result[joined] = checked_mul(result[joined], times, "tile");
  numel_of(result, "tile");
  return reshape(expand(unsqueeze(x, d), sizes), result);
}

}  // namespace

Tensor tile_composite(const Tensor& x, const Dims& reps) {
  for (int64_t times : reps) check(times >= 0, "tile: repetitions cannot be negative, got ", reps);
  Dims sizes = x.sizes();
  while (sizes.size() < reps.size()) sizes.insert(0, 1);
  Tensor out = reshape(x, sizes);
  const int skip = sizes.size() - reps.size();
  for (int i = reps.size() - 1; i >= 0; --i)
    if (reps[i] != 1) out = repeat_blocks(out, skip + i, skip + i, reps[i]);
  return out.is_same(x) || &out.storage() == &x.storage() ? clone(out) : out;
}

namespace {

void check_size(int64_t size, std::optional<int64_t> wanted) {
  check(!wanted || *wanted == size, "repeat_interleave: output_size ", wanted.value_or(0),
        " is given, and the repeats add up to ", size);
}

}  // namespace

Tensor repeat_interleave_composite(const Tensor& x, int64_t repeats, std::optional<int64_t> dim,
                                   std::optional<int64_t> output_size) {
  check(repeats >= 0, "repeat_interleave: repeats cannot be negative, got ", repeats);
  if (!dim || x.dim() == 0)
    return repeat_interleave(reshape(x, {x.numel()}), repeats, 0, output_size);
  const int d = wrap_dim(*dim, x.dim(), "repeat_interleave");
  const Tensor out = repeat_blocks(x, d + 1, d, repeats);
  check_size(out.size(d), output_size);
  return &out.storage() == &x.storage() ? clone(out) : out;
}

namespace {

// Each position (from 1) as often as `repeats` says.
Tensor repeated_positions(const Tensor& repeats, std::optional<int64_t> output_size) {
  check(repeats.dim() == 1, "repeat_interleave: repeats have shape ", repeats.sizes(),
        "; one dimension expected");
  const Options options{DType::Int64, repeats.device()};
  if (repeats.numel() == 0) {
    check_size(0, output_size);
    return empty({0}, options);
  }
  const Tensor counts = to(repeats, DType::Int64);
  const Tensor ends = cumsum(counts, 0);
  int64_t size = output_size.value_or(0);
  check(size >= 0, "repeat_interleave: output_size ", size, " is negative");
  if (!output_size) {
    const int64_t least = host_value<int64_t>(amin(counts));
    check(least >= 0, "repeat_interleave: repeats cannot be negative, got ", least);
    // No sum overflows then.
    checked_mul(host_value<int64_t>(amax(counts)), counts.numel(), "repeat_interleave");
    size = host_value<int64_t>(select(ends, 0, -1));
  }
  // The first position whose repeats reach that far.
  const Tensor positions =
      arange(int64_t{1}, Scalar(size), int64_t{1}, DType::Int64, options.device);
  return searchsorted(ends, positions);
}

}  // namespace

Tensor repeat_interleave_positions_composite(const Tensor& repeats) {
  return repeated_positions(repeats, std::nullopt);
}

Tensor repeat_interleave_each_composite(const Tensor& x, const Tensor& repeats,
                                        std::optional<int64_t> dim,
                                        std::optional<int64_t> output_size) {
  check(is_integral(repeats.dtype()), "repeat_interleave: repeats are ", repeats.dtype(),
        ", and integers are expected");
  if (!dim || x.dim() == 0)
    return repeat_interleave_each(reshape(x, {x.numel()}), repeats, 0, output_size);
  const int d = wrap_dim(*dim, x.dim(), "repeat_interleave");
  check(repeats.dim() <= 1 && (repeats.numel() == 1 || repeats.numel() == x.size(d)),
        "repeat_interleave: repeats have shape ", repeats.sizes(), ", and dim ", d + 1,
        " has size ", x.size(d));
  const Tensor each = expand(reshape(repeats, {repeats.numel()}), {x.size(d)});
  return index_select(x, d, repeated_positions(each, output_size));
}

}  // namespace moonlet

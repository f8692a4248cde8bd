// autograd/composite/pool.cpp: pooling made of pooling in two dimensions, where a line is a plane
// of one row and a body is pooled plane by plane and then along its depth; and pooling by norms, at
// random windows, and undone.
#include <functional>
#include <vector>

#include "autograd/formulas/common.h"
#include "autograd/forward_mode.h"
#include "autograd/tape.h"
#include "autograd/uses_composite_pool.h"
#include "tensor/core/dispatch.h"
#include "tensor/shapes/window.h"

namespace moonlet {

using formulas::widened;

namespace {

using WithIndices = std::tuple<Tensor, Tensor>;

// The last `dims` of x's sizes.
Dims spatial_of(const Tensor& x, int dims) {
  Dims out;
  for (int i = x.dim() - dims; i < x.dim(); ++i) out.push_back(x.size(i));
  return out;
}

int64_t product(const Dims& sizes, const char* op) { return numel_of(sizes, op); }

// How many pieces of `dims` dimensions x holds.
int64_t pieces_of(const Tensor& x, int dims) {
  int64_t count = 1;
  for (int i = 0; i < x.dim() - dims; ++i) count *= x.size(i);
  return count;
}

// `sizes` in place of the last of x's sizes.
Dims with_spatial(const Tensor& x, const Dims& sizes) {
  Dims out;
  for (int i = 0; i < x.dim() - sizes.size(); ++i) out.push_back(x.size(i));
  for (int64_t size : sizes) out.push_back(size);
  return out;
}

Dims planar(const Dims& d) { return {d[1], d[2]}; }
Dims along(const Dims& d, int64_t other) { return {d[0], other}; }
Dims line(const Dims& d, int64_t other) { return {other, d[0]}; }

// A body's pooling from `sizes` to `out`: `planes` pools (pieces, d, h, w) over (h, w), `depth` the
// result as planes (pieces, d, h2 * w2).
Tensor body_values(const Tensor& x, const Dims& out,
                   const std::function<Tensor(const Tensor&)>& planes,
                   const std::function<Tensor(const Tensor&)>& depth) {
  const Dims size = spatial_of(x, 3);
  const int64_t count = pieces_of(x, 3);
  const Tensor y = planes(reshape(widened(x), {count, size[0], size[1], size[2]}));
  const Tensor sums = depth(reshape(y, {count, size[0], out[1] * out[2]}));
  return to(reshape(sums, with_spatial(x, out)), x.dtype());
}

// The elements of the last dimensions of x at the positions of maxima: one step on the tape,
// whatever found them.
WithIndices taken(const Tensor& x, const WithIndices& maxima, int dims) {
  const auto& [values, indices] = maxima;
  if (!is_differentiated(x)) return maxima;
  const int64_t count = pieces_of(x, dims), size = product(spatial_of(x, dims), "maxima");
  const Tensor where = reshape(indices, {count, 1, product(spatial_of(indices, dims), "maxima")});
  const Tensor found = max_pool2d_grad_x_grad_grad(reshape(x, {count, 1, size}), where);
  return {reshape(found, values.sizes()), indices};
}

// The same for maxima, whose positions are put together.
WithIndices body_maxima(const Tensor& x, const Dims& out,
                        const std::function<WithIndices(const Tensor&)>& planes,
                        const std::function<WithIndices(const Tensor&)>& depth) {
  const Dims size = spatial_of(x, 3), result = with_spatial(x, out);
  const int64_t count = pieces_of(x, 3), positions = out[1] * out[2];
  const auto [rows, within] = planes(reshape(x, {count, size[0], size[1], size[2]}));
  const auto [values, at] = depth(reshape(rows, {count, size[0], positions}));
  const Tensor chosen = reshape(at, {count, out[0] * positions});
  const Tensor plane = floor_divide(sub(chosen, 1), positions);
  const Tensor inside = gather(reshape(within, {count, size[0] * positions}), 1, chosen);
  return {reshape(values, result), reshape(add(mul(plane, size[1] * size[2]), inside), result)};
}

// The maxima of windows none of which lies in the padding.
WithIndices inner_maxima(const Tensor& x, const Dims& out,
                         const std::function<WithIndices(const Tensor&)>& planes,
                         const std::function<WithIndices(const Tensor&)>& depth) {
  const auto maxima = [&] {
    const NoGrad unrecorded;
    return body_maxima(x, out, planes, depth);
  };
  return taken(x, maxima(), 3);
}

// The part of pool_sizes that is pooled.
Dims pooled(const char* op, const Tensor& x, const Dims& kernel, const Dims& stride,
            const Dims& padding, const Dims& dilation, bool ceil_mode) {
  const Dims all = shapes::pool_sizes(op, x.sizes(), kernel, stride, padding, dilation, ceil_mode);
  return Dims(all.end() - kernel.size(), kernel.size());
}

Tensor as_planes(const Tensor& lines) { return unsqueeze(lines, -2); }
Tensor as_lines(const Tensor& planes) { return squeeze(planes, {-2}); }

}  // namespace

// Maxima.

Tensor max_pool2d_composite(const Tensor& x, const Dims& kernel_size, const Dims& stride,
                            const Dims& padding, const Dims& dilation, bool ceil_mode) {
  return std::get<0>(max_pool2d_with_indices(x, kernel_size, stride, padding, dilation, ceil_mode));
}

WithIndices max_pool1d_with_indices_composite(const Tensor& x, const Dims& kernel,
                                              const Dims& stride, const Dims& padding,
                                              const Dims& dilation, bool ceil_mode) {
  pooled("max_pool1d", x, kernel, stride, padding, dilation, ceil_mode);
  const auto [values, indices] = max_pool2d_with_indices(
      as_planes(x), line(kernel, 1), line(shapes::pool_stride(kernel, stride), 1), line(padding, 0),
      line(dilation, 1), ceil_mode);
  return {as_lines(values), as_lines(indices)};
}

Tensor max_pool1d_composite(const Tensor& x, const Dims& kernel, const Dims& stride,
                            const Dims& padding, const Dims& dilation, bool ceil_mode) {
  return std::get<0>(max_pool1d_with_indices(x, kernel, stride, padding, dilation, ceil_mode));
}

WithIndices max_pool3d_with_indices_composite(const Tensor& x, const Dims& kernel,
                                              const Dims& stride_given, const Dims& padding,
                                              const Dims& dilation, bool ceil_mode) {
  const Dims out = pooled("max_pool3d", x, kernel, stride_given, padding, dilation, ceil_mode);
  const Dims stride = shapes::pool_stride(kernel, stride_given);
  // Only far apart elements can miss the whole axis.
  const auto maxima = dilation == Dims{1, 1, 1} ? inner_maxima : body_maxima;
  return maxima(
      x, out,
      [&](const Tensor& t) {
        return max_pool2d_with_indices(t, planar(kernel), planar(stride), planar(padding),
                                       planar(dilation), ceil_mode);
      },
      [&](const Tensor& t) {
        return max_pool2d_with_indices(t, along(kernel, 1), along(stride, 1), along(padding, 0),
                                       along(dilation, 1), ceil_mode);
      });
}

Tensor max_pool3d_composite(const Tensor& x, const Dims& kernel, const Dims& stride,
                            const Dims& padding, const Dims& dilation, bool ceil_mode) {
  return std::get<0>(max_pool3d_with_indices(x, kernel, stride, padding, dilation, ceil_mode));
}

namespace {
// The result where an output size is 0: nothing, of which x gets a gradient of zeros.
Tensor pooled_to_nothing(const Tensor& x, const Dims& out) {
  return reshape(narrow(flatten(x), 0, 0, 0), with_spatial(x, out));
}
}  // namespace

WithIndices adaptive_max_pool1d_composite(const Tensor& x, const Dims& output_size) {
  shapes::adaptive_sizes("adaptive_max_pool1d", x.sizes(), output_size);
  const auto [values, indices] = adaptive_max_pool2d(as_planes(x), line(output_size, 1));
  return {as_lines(values), as_lines(indices)};
}

WithIndices adaptive_max_pool3d_composite(const Tensor& x, const Dims& output_size) {
  shapes::adaptive_sizes("adaptive_max_pool3d", x.sizes(), output_size);
  if (output_size.contains(0)) {
    const Tensor values = pooled_to_nothing(x, output_size);
    return {values, empty(values.sizes(), {DType::Int64, x.device()})};
  }
  return inner_maxima(
      x, output_size, [&](const Tensor& t) { return adaptive_max_pool2d(t, planar(output_size)); },
      [&](const Tensor& t) {
        return adaptive_max_pool2d(t, {output_size[0], t.size(-1)});
      });
}

// Averages.

Tensor avg_pool1d_composite(const Tensor& x, const Dims& kernel, const Dims& stride,
                            const Dims& padding, bool ceil_mode, bool count_include_pad) {
  pooled("avg_pool1d", x, kernel, stride, padding, {1}, ceil_mode);
  return as_lines(avg_pool2d(as_planes(x), line(kernel, 1),
                             line(shapes::pool_stride(kernel, stride), 1), line(padding, 0),
                             ceil_mode, count_include_pad, std::nullopt));
}

namespace {

// The sums divided by what the average over ones takes for the number of elements.
Tensor averages_of_integers(const Tensor& x, const Dims& kernel, const Dims& stride,
                            const Dims& padding, bool ceil_mode, bool count_include_pad) {
  const auto sums = [&](const Tensor& t) {
    return avg_pool3d(t, kernel, stride, padding, ceil_mode, count_include_pad, 1);
  };
  Dims body = x.sizes();
  for (int i = 0; i + 3 < body.size(); ++i) body[i] = 1;
  const Tensor ones_there = ones(body, {DType::Float64, x.device()});
  const Tensor mean =
      avg_pool3d(ones_there, kernel, stride, padding, ceil_mode, count_include_pad, std::nullopt);
  const Tensor count = round(div(sums(ones_there), where(eq(mean, 0.0), ones_like(mean), mean)));
  const Tensor total = sums(to(x, DType::Int64));
  return to(div_mode(total, to(clamp_min(count, 1.0), DType::Int64), "trunc"), x.dtype());
}

}  // namespace

// What a window holds is the product of what it holds along its axes, so the average over it is
// that of averages.
Tensor avg_pool3d_composite(const Tensor& x, const Dims& kernel, const Dims& stride_given,
                            const Dims& padding, bool ceil_mode, bool count_include_pad,
                            std::optional<int64_t> divisor) {
  const Dims out = pooled("avg_pool3d", x, kernel, stride_given, padding, {1, 1, 1}, ceil_mode);
  check(!divisor || *divisor != 0, "avg_pool3d: divisor_override is 0");
  const Dims stride = shapes::pool_stride(kernel, stride_given);
  if (is_integral(x.dtype()) && !divisor)
    return averages_of_integers(x, kernel, stride, padding, ceil_mode, count_include_pad);
  const std::optional<int64_t> sum = divisor ? std::optional<int64_t>(1) : std::nullopt;
  return body_values(
      x, out,
      [&](const Tensor& t) {
        return avg_pool2d(t, planar(kernel), planar(stride), planar(padding), ceil_mode,
                          count_include_pad, sum);
      },
      [&](const Tensor& t) {
        return avg_pool2d(t, along(kernel, 1), along(stride, 1), along(padding, 0), ceil_mode,
                          count_include_pad, divisor);
      });
}

Tensor adaptive_avg_pool1d_composite(const Tensor& x, const Dims& output_size) {
  shapes::adaptive_sizes("adaptive_avg_pool1d", x.sizes(), output_size);
  return as_lines(adaptive_avg_pool2d(as_planes(x), line(output_size, 1)));
}

Tensor adaptive_avg_pool3d_composite(const Tensor& x, const Dims& output_size) {
  shapes::adaptive_sizes("adaptive_avg_pool3d", x.sizes(), output_size);
  if (output_size.contains(0)) return pooled_to_nothing(x, output_size);
  return body_values(
      x, output_size, [&](const Tensor& t) { return adaptive_avg_pool2d(t, planar(output_size)); },
      [&](const Tensor& t) {
        return adaptive_avg_pool2d(t, {output_size[0], t.size(-1)});
      });
}

// Norms.

namespace {
// Sums of windows by their averages: average(t, divisor).
using Average = std::function<Tensor(const Tensor&, std::optional<int64_t>)>;

// The norms of windows of `count` elements. With ceil_mode the last windows may hold fewer, and
// count as whole ones of their mean.
Tensor norm_of(const char* op, const Tensor& given, double norm_type, int64_t count, bool ceil_mode,
               const Average& average) {
  check(norm_type != 0, op, ": norm_type is 0, another number is expected");
  const Tensor x = is_integral(given.dtype()) ? to(given, execution.default_dtype) : given;
  const Tensor wide = widened(x);
  const Tensor powers = norm_type == 2 ? square(wide) : pow(wide, norm_type);
  const Tensor sums = ceil_mode ? mul(average(powers, std::nullopt), static_cast<double>(count))
                                : average(powers, 1);
  // The gradient of a root is infinite at zero, from where nothing is passed on.
  const Tensor flat = eq(sums, 0.0), safe = masked_fill(sums, flat, 1.0);
  const Tensor root = norm_type == 2 ? sqrt(safe) : pow(safe, 1.0 / norm_type);
  return to(masked_fill(root, flat, 0.0), x.dtype());
}
}  // namespace

Tensor lp_pool1d_composite(const Tensor& x, double norm_type, const Dims& kernel,
                           const Dims& stride, bool ceil_mode) {
  pooled("lp_pool1d", x, kernel, stride, {0}, {1}, ceil_mode);
  const Dims steps = line(shapes::pool_stride(kernel, stride), 1);
  return norm_of("lp_pool1d", x, norm_type, kernel[0], ceil_mode,
                 [&](const Tensor& t, std::optional<int64_t> divisor) {
                   return as_lines(avg_pool2d(as_planes(t), line(kernel, 1), steps, {0, 0},
                                              ceil_mode, true, divisor));
                 });
}

Tensor lp_pool2d_composite(const Tensor& x, double norm_type, const Dims& kernel,
                           const Dims& stride, bool ceil_mode) {
  const int64_t count = product(kernel, "lp_pool2d");
  pooled("lp_pool2d", x, kernel, stride, {0, 0}, {1, 1}, ceil_mode);
  return norm_of("lp_pool2d", x, norm_type, count, ceil_mode,
                 [&](const Tensor& t, std::optional<int64_t> divisor) {
                   return avg_pool2d(t, kernel, stride, {0, 0}, ceil_mode, true, divisor);
                 });
}

Tensor lp_pool3d_composite(const Tensor& x, double norm_type, const Dims& kernel,
                           const Dims& stride, bool ceil_mode) {
  const int64_t count = product(kernel, "lp_pool3d");
  pooled("lp_pool3d", x, kernel, stride, {0, 0, 0}, {1, 1, 1}, ceil_mode);
  return norm_of("lp_pool3d", x, norm_type, count, ceil_mode,
                 [&](const Tensor& t, std::optional<int64_t> divisor) {
                   return avg_pool3d(t, kernel, stride, {0, 0, 0}, ceil_mode, true, divisor);
                 });
}

// What undoes maxima.

namespace {
Tensor unpool(const char* op, const Tensor& x, const Tensor& indices, const Dims& output_size) {
  const int dims = output_size.size();
  shapes::check_images(op, x.sizes(), dims);
  shapes::check_window(op, "output_size", output_size, dims, 1);
  shapes::check_shape(op, "indices", indices.sizes(), x.sizes());
  const int64_t count = pieces_of(x, dims), positions = product(spatial_of(x, dims), op);
  const Dims result = with_spatial(x, output_size);
  shapes::check_sizes(op, result);
  const Tensor nothing = zeros({count, product(output_size, op)}, Options{x.dtype(), x.device()});
  const Tensor filled =
      scatter(nothing, 1, reshape(indices, {count, positions}), reshape(x, {count, positions}));
  return reshape(filled, result);
}
}  // namespace

Tensor max_unpool1d_composite(const Tensor& x, const Tensor& indices, const Dims& output_size) {
  return unpool("max_unpool1d", x, indices, output_size);
}
Tensor max_unpool2d_composite(const Tensor& x, const Tensor& indices, const Dims& output_size) {
  return unpool("max_unpool2d", x, indices, output_size);
}
Tensor max_unpool3d_composite(const Tensor& x, const Tensor& indices, const Dims& output_size) {
  return unpool("max_unpool3d", x, indices, output_size);
}

// Windows at random.

namespace {

// The 1-based positions along an axis of `size` that the windows of each piece hold: (pieces, out *
// kernel). `samples` (pieces) shifts them; the last window ends where the axis does.
Tensor window_positions(const Tensor& samples, int64_t size, int64_t out, int64_t kernel) {
  const Options options{samples.dtype(), samples.device()};
  const int64_t pieces = samples.size(0);
  const Tensor number = sub(arange(Scalar(out), std::nullopt, 1, options.dtype, options.device), 1);
  const double step = out > 1 ? double(size - kernel) / double(out - 1) : 0;
  const Tensor shift = reshape(samples, {pieces, 1});
  const Tensor begin = sub(floor(mul(add(number, shift), step)), floor(mul(shift, step)));
  const double last = double(size - kernel);
  const Tensor known = where(ge(begin, 0.0), begin, 0.0);  // NaN too begins at the first place
  const Tensor start = to(clamp_max(where(eq(number, out - 1), last, known), last), DType::Int64);
  const Tensor offset = arange(Scalar(kernel), std::nullopt, 1, DType::Int64, options.device);
  return reshape(add(unsqueeze(start, -1), offset), {pieces, out * kernel});
}

// The windows of one axis of x (pieces, before, size, after) as (pieces, before, out, kernel,
// after).
Tensor windows_of(const Tensor& x, const Tensor& positions, int64_t out) {
  const int64_t count = positions.size(1);
  const Dims sizes{x.size(0), x.size(1), count, x.size(3)};
  const Tensor index = expand(reshape(positions, {x.size(0), 1, count, 1}), sizes);
  return reshape(gather(x, 2, index), {x.size(0), x.size(1), out, count / out, x.size(3)});
}

void check_fractional(const char* op, const Tensor& x, const Dims& kernel, const Dims& output_size,
                      const Tensor& samples) {
  const int dims = kernel.size();
  check_dtype(op, "x", x, dtypes::real);
  check_dtype(op, "random_samples", samples, dtypes::floating);
  shapes::check_images(op, x.sizes(), dims);
  shapes::check_window(op, "kernel_size", kernel, dims, 1);
  shapes::check_window(op, "output_size", output_size, dims, 1);
  const Dims wanted{x.dim() == dims + 2 ? x.size(0) : 1, x.size(x.dim() - dims - 1), dims};
  shapes::check_shape(op, "random_samples", samples.sizes(), wanted);
  for (int i = 0; i < dims; ++i)
    check(output_size[i] + kernel[i] - 1 <= x.size(x.dim() - dims + i), op, ": ", output_size[i],
          " windows of ", kernel[i], " do not fit into ", x.size(x.dim() - dims + i));
}

// The 1-based positions along each axis that the windows of the pieces hold.
std::vector<Tensor> positions_of(const Tensor& shifts, const Dims& size, const Dims& out,
                                 const Dims& kernel) {
  std::vector<Tensor> all;
  const int dims = size.size();
  for (int i = 0; i < dims; ++i)
    // The first sample of images is that of their width, of volumes that of their depth.
    all.push_back(
        window_positions(select(shifts, 1, dims == 2 ? 1 - i : i), size[i], out[i], kernel[i]));
  return all;
}

// The largest elements of the windows of pieces (n, elements), each window in one step, and their
// positions: both (n, 1, windows).
WithIndices largest_at_once(const Tensor& x, const std::vector<Tensor>& positions, const Dims& size,
                            const Dims& out, const Dims& kernel) {
  const int64_t pieces = x.size(0);
  Tensor at;  // (pieces, taps, windows), so that windows lie beside each other
  for (int i = 0; i < size.size(); ++i) {
    const Tensor lines =
        contiguous(transpose(reshape(positions[i], {pieces, out[i], kernel[i]}), 1, 2));
    if (!at.defined()) {
      at = lines;
      continue;
    }
    const int64_t taps = at.size(1), windows = at.size(2);
    const Tensor before = reshape(mul(sub(at, 1), size[i]), {pieces, taps, 1, windows, 1});
    const Tensor here = reshape(lines, {pieces, 1, kernel[i], 1, out[i]});
    at = reshape(add(before, here), {pieces, taps * kernel[i], windows * out[i]});
  }
  const Tensor seen = reshape(gather(x, 1, reshape(at, {pieces, -1})), at.sizes());
  const auto [values, chosen] = max_dim(seen, 1, true);
  return {values, gather(at, 1, chosen)};
}

// The largest elements, of equal ones the first in row order. Axis by axis that means from the last
// to the first; their positions go along.
WithIndices fractional(const char* op, const Tensor& x, const Dims& kernel, const Dims& output_size,
                       const Tensor& samples) {
  check_fractional(op, x, kernel, output_size, samples);
  const int dims = kernel.size();
  const Dims size = spatial_of(x, dims), result = with_spatial(x, output_size);
  const int64_t pieces = pieces_of(x, dims), whole = product(size, op);
  if (x.device().real().is_cpu()) {
    Dims sizes = size;
    sizes.insert(0, pieces);
    const auto [best, at] = native_fractional_max_pool(
        reshape(x, sizes), reshape(samples, {pieces, dims}), kernel, output_size);
    return {reshape(best, result), reshape(at, result)};
  }
  const std::vector<Tensor> positions =
      positions_of(widened(reshape(samples, {pieces, dims})), size, output_size, kernel);
  Tensor values = reshape(x, {pieces, whole});
  // Windows that overlap much would be many elements at once.
  if (product(output_size, op) <= 2 * whole / product(kernel, op)) {
    const auto [best, at] = largest_at_once(values, positions, size, output_size, kernel);
    return {reshape(best, result), reshape(at, result)};
  }
  Tensor at =
      expand(arange(Scalar(whole), std::nullopt, 1, DType::Int64, x.device()), {pieces, whole});
  int64_t before = whole, after = 1;
  for (int axis = dims - 1; axis >= 0; --axis) {
    before /= size[axis];
    const Dims blocks{pieces, before, size[axis], after};
    const Tensor seen = windows_of(reshape(values, blocks), positions[axis], output_size[axis]);
    const Tensor candidates = windows_of(reshape(at, blocks), positions[axis], output_size[axis]);
    const auto [best, chosen] = max_dim(seen, 3, true);
    values = best;
    at = gather(candidates, 3, chosen);
    after *= output_size[axis];
  }
  return {reshape(values, result), reshape(at, result)};
}

WithIndices fractional_maxima(const char* op, const Tensor& x, const Dims& kernel,
                              const Dims& output_size, const Tensor& samples) {
  const auto maxima = [&] {
    const NoGrad unrecorded;
    return fractional(op, x, kernel, output_size, samples);
  };
  return taken(x, maxima(), kernel.size());
}

}  // namespace

WithIndices fractional_max_pool2d_composite(const Tensor& x, const Dims& kernel,
                                            const Dims& output_size, const Tensor& samples) {
  return fractional_maxima("fractional_max_pool2d", x, kernel, output_size, samples);
}
WithIndices fractional_max_pool3d_composite(const Tensor& x, const Dims& kernel,
                                            const Dims& output_size, const Tensor& samples) {
  return fractional_maxima("fractional_max_pool3d", x, kernel, output_size, samples);
}

}  // namespace moonlet

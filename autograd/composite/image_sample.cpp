// autograd/composite/image_sample.cpp: images sampled at any position, and the grids of positions.
#include <limits>
#include <vector>

#include "autograd/formulas/common.h"
#include "autograd/forward_mode.h"
#include "autograd/tape.h"
#include "autograd/uses_composite_image_sample.h"
#include "tensor/shapes/window.h"

namespace moonlet {

using formulas::widened;

namespace {

constexpr const char* kSample = "grid_sample";

enum class Border { Zeros, Edge, Reflection };

// One axis of the image: its size, and how a grid's numbers and positions outside are read.
struct Axis {
  int64_t size;
  Border border;
  bool align_corners;
};

// f() as a constant, which no gradient passes.
template <class F>
Tensor constant(F&& f) {
  const NoGrad unrecorded;
  return f();
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The grid's numbers from -1 to 1 as positions from 0 to size - 1. Where the image has a border of
// zeros, positions without end are some outside: all weights are then finite.
Tensor unnormalized(const Axis& axis, const Tensor& grid) {
  const Tensor g = add(replace_nonfinite(grid, -1.0, kInfinity, -kInfinity), 1.0);
  const auto size = static_cast<double>(axis.size);
  const Tensor position =
      axis.align_corners ? mul(g, (size - 1) / 2) : mul(sub(mul(g, size), 1.0), 0.5);
  return axis.border == Border::Zeros ? replace_nonfinite(position, -9.0, -9.0, -9.0) : position;
}

// Positions limited to the axis, beyond which they have no gradient.
Tensor limited(const Axis& axis, const Tensor& position) {
  const auto last = static_cast<double>(axis.size - 1);
  const Tensor inside = logical_and(gt(position, 0.0), lt(position, last));
  return where(inside, position, constant([&] {
                 // An infinite position, reflected, is none.
                 return clamp(where(eq(position, position), position, 0.0), 0.0, last);
               }));
}

// Positions outside mirrored into the axis: at the centres of its last elements or at its edges.
Tensor reflected(const Axis& axis, const Tensor& position) {
  const auto size = static_cast<double>(axis.size);
  const double low = axis.align_corners ? 0.0 : -0.5;
  const double span = axis.align_corners ? size - 1 : size;
  if (span == 0) return mul(position, 0.0);
  const Tensor distance = abs(sub(position, low));
  const Tensor flips = constant([&] { return floor(div(distance, span)); });
  const Tensor extra = sub(distance, mul(flips, span));
  const Tensor odd = ne(remainder(flips, 2.0), 0.0);
  return add(where(odd, sub(span, extra), extra), low);
}

// Positions as the border has them.
Tensor bordered(const Axis& axis, const Tensor& position) {
  if (axis.border == Border::Zeros) return position;
  return limited(axis, axis.border == Border::Edge ? position : reflected(axis, position));
}

// A neighbour of the positions along one axis: its number, from 0, as a float that is infinite
// outside the image, and its weight (none where it is 1).
struct Neighbour {
  Tensor number, weight;
};

// Whole positions as numbers within the axis; what is no number is outside.
Neighbour neighbour(const Axis& axis, const Tensor& whole, const Tensor& weight) {
  const NoGrad unrecorded;
  const Tensor limited = clamp(whole, 0.0, static_cast<double>(axis.size - 1));
  return {where(eq(limited, whole), whole, kInfinity), weight};
}

std::vector<Neighbour> linear_neighbours(const Axis& axis, const Tensor& grid) {
  const Tensor position = bordered(axis, unnormalized(axis, grid));
  const Tensor below = constant([&] { return floor(position); }), part = sub(position, below);
  return {neighbour(axis, below, sub(1.0, part)), neighbour(axis, add(below, 1.0), part)};
}

std::vector<Neighbour> nearest_neighbour(const Axis& axis, const Tensor& grid) {
  const Tensor position = bordered(axis, unnormalized(axis, grid));
  // The weight is 1 wherever the position is: its gradient is zero.
  const Tensor weight =
      is_differentiated_anywhere(grid) ? where(ne(grid, grid), grid, 1.0) : Tensor();
  const Tensor safe = weight.defined() ? where(eq(weight, weight), weight, 1.0) : weight;
  return {neighbour(axis, constant([&] { return round(position); }), safe)};
}

// Keys's cubic (1981) with the parameter -3/4, of distances up to 1 and from 1 to 2.
Tensor cubic_near(const Tensor& x) { return add(mul(mul(sub(mul(x, 1.25), 2.25), x), x), 1.0); }
Tensor cubic_far(const Tensor& x) {
  return mul(sub(mul(add(mul(sub(x, 5.0), x), 8.0), x), 4.0), -0.75);
}

std::vector<Neighbour> cubic_neighbours(const Axis& axis, const Tensor& grid) {
  const Tensor position = unnormalized(axis, grid);
  const Tensor below = constant([&] { return floor(position); }), part = sub(position, below);
  const Tensor weights[] = {cubic_far(add(part, 1.0)), cubic_near(part), cubic_near(sub(1.0, part)),
                            cubic_far(sub(2.0, part))};
  std::vector<Neighbour> out;
  for (int i = 0; i < 4; ++i) {
    // Each neighbour is brought into the image for itself.
    const Tensor whole = round(bordered(axis, add(below, double(i - 1))));
    out.push_back(neighbour(axis, whole, weights[i]));
  }
  return out;
}

std::vector<Neighbour> neighbours(const Axis& axis, const Tensor& grid, std::string_view mode) {
  if (mode == "bilinear") return linear_neighbours(axis, grid);
  return mode == "nearest" ? nearest_neighbour(axis, grid) : cubic_neighbours(axis, grid);
}

// The neighbours along all axes so far, `a`, and along one of that size more, `b`.
std::vector<Neighbour> joined(const std::vector<Neighbour>& a, const std::vector<Neighbour>& b,
                              int64_t size) {
  if (a.empty()) return b;
  std::vector<Neighbour> out;
  for (const Neighbour& u : a) {
    const Tensor line = constant([&] { return mul(u.number, size); });
    for (const Neighbour& v : b) {
      const Tensor weight = !u.weight.defined()   ? v.weight
                            : !v.weight.defined() ? u.weight
                                                  : mul(u.weight, v.weight);
      out.push_back({constant([&] { return add(line, v.number); }), weight});
    }
  }
  return out;
}

// The sums of the weighted neighbours (n, positions) of planes (n, c, size), by rows of channels
// and a row of zeros for what is outside: (n, c, positions).
Tensor sum_of_rows(const Tensor& planes, const std::vector<Neighbour>& all) {
  const int64_t n = planes.size(0), c = planes.size(1), whole = planes.size(2);
  const int64_t positions = all[0].number.size(1);
  const Tensor batch = mul(
      reshape(sub(arange(Scalar(n), std::nullopt, 1, DType::Int64, planes.device()), 1), {n, 1}),
      whole);
  const Tensor lines = transpose(planes, 1, 2);
  const Tensor rows = constant_pad(reshape(lines, {n * whole, c}), {0, 0, 0, 1}, 0);
  Tensor sum;
  for (const Neighbour& b : all) {
    const Tensor number = to(clamp_max(b.number, static_cast<double>(whole)), DType::Int64);
    const Tensor at = where(lt(number, whole), add(add(number, batch), 1), n * whole + 1);
    Tensor part = index_select(rows, 0, reshape(at, {n * positions}));
    if (b.weight.defined()) part = mul(part, reshape(b.weight, {n * positions, 1}));
    sum = sum.defined() ? add(sum, part) : part;
  }
  return transpose(reshape(sum, {n, positions, c}), 1, 2);
}

void check_sample(const Tensor& x, const Tensor& grid, std::string_view mode,
                  std::string_view border) {
  const int dims = x.dim() - 2;
  check(is_floating(x.dtype()) && grid.dtype() == x.dtype(), kSample, ": x has dtype ", x.dtype(),
        " and grid ", grid.dtype(), ", the same floating one is expected");
  check(dims == 2 || dims == 3, kSample, ": x has shape ", x.sizes(),
        ", (n, c, h, w) or (n, c, d, h, w) is expected");
  check(grid.dim() == x.dim() && grid.size(0) == x.size(0) && grid.size(-1) == dims, kSample,
        ": grid has shape ", grid.sizes(), ", for x of shape ", x.sizes(), " expected is (",
        x.size(0), dims == 2 ? ", h, w, 2)" : ", d, h, w, 3)");
  shapes::check_images(kSample, x.sizes(), dims);
  check(mode == "bilinear" || mode == "nearest" || mode == "bicubic", kSample,
        ": mode is \"bilinear\", \"nearest\" or \"bicubic\", got \"", mode, "\"");
  check(border == "zeros" || border == "border" || border == "reflection", kSample,
        ": padding_mode is \"zeros\", \"border\" or \"reflection\", got \"", border, "\"");
}

}  // namespace

namespace {

Border border_of(std::string_view padding_mode) {
  return padding_mode == "zeros"    ? Border::Zeros
         : padding_mode == "border" ? Border::Edge
                                    : Border::Reflection;
}

// The image's axis d as the numbers of `grids` (n, positions, dims) are read, and these numbers:
// the grid names the last axis first.
struct NamedAxis {
  NamedAxis(const Tensor& grids, const Dims& image, int d, std::string_view padding_mode,
            bool align_corners)
      : axis{image[d], border_of(padding_mode), align_corners},
        numbers(select(grids, 2, image.size() - 1 - d)) {}
  Axis axis;
  Tensor numbers;
};

// The same sums by ops that have derivatives on every device.
Tensor sum_of_neighbours(const Tensor& planes, const Tensor& grids, const Dims& image,
                         std::string_view mode, std::string_view padding_mode, bool align_corners) {
  // Float32 counts to this.
  constexpr int64_t kExact = 1 << 24;
  std::vector<Neighbour> all;
  for (int d = 0; d < image.size(); ++d) {
    const NamedAxis named(grids, image, d, padding_mode, align_corners);
    std::vector<Neighbour> next = neighbours(named.axis, named.numbers, mode);
    for (Neighbour& b : next)
      if (planes.size(2) >= kExact) b.number = to(b.number, DType::Float64);
    all = joined(all, next, named.axis.size);
  }
  return sum_of_rows(planes, all);
}

// The derivatives of an axis's weights by the grid's numbers, as its neighbours' weights.
std::vector<Neighbour> weight_gradients(const NamedAxis& named, std::string_view mode,
                                        std::string_view padding_mode) {
  const Axis& axis = named.axis;
  const Tensor& numbers = named.numbers;
  std::vector<Neighbour> out = neighbours(axis, numbers, mode);
  if (mode == "bilinear") {
    // That of a position is one number between two neighbours.
    const Tensor by_position = constant([&] {
      const Tensor one = ones_like(detach(numbers)), second = stack({zeros_like(one), one}, 1);
      return select(grid_neighbours_grads(second, unsqueeze(detach(numbers), 2), {axis.size}, mode,
                                          padding_mode, axis.align_corners),
                    2, 0);
    });
    out[0].weight = neg(by_position);
    out[1].weight = by_position;
    return out;
  }
  const Tensor position = unnormalized(axis, numbers);
  const Tensor part = sub(position, constant([&] { return floor(position); }));
  const auto size = static_cast<double>(axis.size);
  const double scale = axis.align_corners ? (size - 1) / 2 : size / 2;
  // The positions that unnormalized replaces have no derivative.
  const Tensor by_position = constant([&] {
    const Tensor known = logical_and(eq(numbers, numbers), lt(abs(position), kInfinity));
    return mul(to(known, numbers.dtype()), scale);
  });
  const auto near = [](const Tensor& x) { return mul(sub(mul(x, 3.75), 4.5), x); };
  const auto far = [](const Tensor& x) {
    return mul(add(mul(sub(mul(x, 3.0), 10.0), x), 8.0), -0.75);
  };
  out[0].weight = mul(by_position, far(add(part, 1.0)));
  out[1].weight = mul(by_position, near(part));
  out[2].weight = neg(mul(by_position, near(sub(1.0, part))));
  out[3].weight = neg(mul(by_position, far(sub(2.0, part))));
  return out;
}

}  // namespace

Tensor grid_neighbours_grad_grid_composite(const Tensor& grad, const Tensor& grid, const Dims& size,
                                           std::string_view mode, std::string_view padding_mode,
                                           bool align_corners) {
  if (!derivatives_wanted() || mode == "nearest")
    return constant([&] {
      return grid_neighbours_grads(detach(grad), detach(grid), size, mode, padding_mode,
                                   align_corners);
    });
  const Tensor grids = widened(grid);
  std::vector<Tensor> gradients;
  for (int d = size.size() - 1; d >= 0; --d) {
    std::vector<Neighbour> all;
    for (int e = 0; e < size.size(); ++e) {
      const NamedAxis named(grids, size, e, padding_mode, align_corners);
      all = joined(all,
                   e == d ? weight_gradients(named, mode, padding_mode)
                          : neighbours(named.axis, named.numbers, mode),
                   named.axis.size);
    }
    std::vector<Tensor> weights;
    for (const Neighbour& b : all) weights.push_back(b.weight);
    gradients.push_back(sum(mul(grad, stack(weights, 1)), Dims{1}, false, {}));
  }
  return to(stack(gradients, -1), grid.dtype());
}

Tensor grid_sample_composite(const Tensor& x, const Tensor& grid, std::string_view mode,
                             std::string_view padding_mode, bool align_corners) {
  check_sample(x, grid, mode, padding_mode);
  const int dims = x.dim() - 2;
  const int64_t n = x.size(0), c = x.size(1), positions = n == 0 ? 0 : grid.numel() / dims / n;
  Dims image, out{n, c};
  for (int i = 0; i < dims; ++i) {
    image.push_back(x.size(2 + i));
    out.push_back(grid.size(1 + i));
  }
  const Tensor planes = reshape(widened(x), {n, c, numel_of(image, kSample)});
  const Tensor grids = reshape(grid, {n, positions, dims});
  Tensor y;
  if (!x.device().real().is_cpu()) {
    y = sum_of_neighbours(planes, widened(grids), image, mode, padding_mode, align_corners);
  } else {
    const auto [at, weight] = grid_neighbours(grids, image, mode, padding_mode, align_corners);
    y = sample_planes(planes, at, weight);
  }
  return reshape(contiguous(to(y, x.dtype())), out);
}

Tensor affine_grid_composite(const Tensor& theta, const std::vector<int64_t>& size,
                             bool align_corners) {
  const char* op = "affine_grid";
  const int dims = static_cast<int>(size.size()) - 2;
  check(dims == 2 || dims == 3, op, ": size has ", size.size(),
        " numbers, (n, c, h, w) or (n, c, d, h, w) is expected");
  for (int64_t v : size) check(v >= 1, op, ": a size is ", v, ", at least 1 is expected");
  shapes::check_shape(op, "theta", theta.sizes(), {size[0], dims, dims + 1});
  const Tensor matrix = widened(theta);
  const Options options{matrix.dtype(), theta.device()};
  Dims grid;
  for (int i = 0; i < dims; ++i) grid.push_back(size[2 + i]);
  std::vector<Tensor> coordinates;
  for (int i = dims - 1; i >= 0; --i) {
    const auto count = static_cast<double>(grid[i]);
    const double end = grid[i] == 1 ? 0.0 : align_corners ? 1.0 : (count - 1) / count;
    Dims shape = Dims::filled(dims, 1);
    shape[i] = grid[i];
    coordinates.push_back(expand(reshape(linspace(-end, end, grid[i], options), shape), grid));
  }
  coordinates.push_back(ones(grid, options));
  const int64_t positions = numel_of(grid, op);
  const Tensor base = reshape(stack(coordinates, -1), {positions, dims + 1});
  grid.insert(0, size[0]);
  grid.push_back(dims);
  return to(reshape(matmul(base, transpose(matrix, 1, 2)), grid), theta.dtype());
}

}  // namespace moonlet

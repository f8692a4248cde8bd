// tensor/shapes/image.cpp: argument checks and result shapes of columns of windows and of resizing.
#include <cmath>

#include "tensor/shapes/window.h"
#include "tensor/shapes_image.h"

namespace moonlet::shapes {

namespace {

// How many windows an image of those sizes has.
int64_t windows_in(const char* op, const Dims& image, const Dims& kernel, const Dims& dilation,
                   const Dims& padding, const Dims& stride) {
  check_window(op, "kernel_size", kernel, 2, 1);
  check_window(op, "dilation", dilation, 2, 1);
  check_window(op, "padding", padding, 2, 0);
  check_window(op, "stride", stride, 2, 1);
  int64_t count = 1;
  for (int i = 0; i < 2; ++i) {
    check(image[i] >= 1, op, ": images of ", image, " are empty");
    const int64_t windows =
        window_count(op, image[i], kernel[i], stride[i], padding[i], dilation[i], false);
    count = checked_mul(count, windows, op);
  }
  return count;
}

// Checks a resizing from sizes `from` to `to`.
void check_resample(const char* op, const Dims& from, const Dims& to, int64_t dim,
                    std::string_view filter, bool align_corners, bool antialias,
                    std::optional<double> scale) {
  check(filter == "linear" || filter == "cubic" || filter == "lanczos", op,
        ": filter is \"linear\", \"cubic\" or \"lanczos\", got \"", filter, "\"");
  check(filter != "lanczos" || (antialias && !align_corners), op,
        ": the filter \"lanczos\" wants antialias and no align_corners");
  check_sizes(op, to);
  check(from.size() == to.size() && !from.empty(), op, ": sizes ", to, " are not those of ", from,
        " resized");
  const int at = static_cast<int>(dim);
  for (int i = 0; i < from.size(); ++i)
    check(i == at || from[i] == to[i], op, ": sizes ", to, " differ from ", from,
          " in more than dim ", dim + 1);
  check(from[at] >= 1 && to[at] >= 1, op, ": dim ", dim + 1, " goes from size ", from[at], " to ",
        to[at], ", at least 1 each is expected");
  check(!scale || (std::isfinite(*scale) && *scale > 0), op, ": scale is ", scale.value_or(0),
        ", a positive number is expected");
}

}  // namespace

Result im2col(const Tensor& x, const Dims& kernel, const Dims& dilation, const Dims& padding,
              const Dims& stride) {
  const char* op = "im2col";
  check_images(op, x.sizes(), 2);
  const int64_t windows =
      windows_in(op, {x.size(-2), x.size(-1)}, kernel, dilation, padding, stride);
  const int64_t taps = checked_mul(checked_mul(x.size(-3), kernel[0], op), kernel[1], op);
  Dims out{taps, windows};
  if (x.dim() == 4) out.insert(0, x.size(0));
  check_sizes(op, out);
  return {out, options_of(x)};
}

Result col2im(const Tensor& x, const Dims& size, const Dims& kernel, const Dims& dilation,
              const Dims& padding, const Dims& stride) {
  const char* op = "col2im";
  check(x.dim() == 2 || x.dim() == 3, op, ": x has shape ", x.sizes(),
        ", (n, c * kh * kw, windows) or that without n is expected");
  check_window(op, "output_size", size, 2, 1);
  const int64_t windows = windows_in(op, size, kernel, dilation, padding, stride);
  const int64_t taps = checked_mul(kernel[0], kernel[1], op);
  check(x.size(-2) % taps == 0, op, ": x has shape ", x.sizes(), ", columns of windows of ", kernel,
        " have a multiple of ", taps, " elements");
  check(x.size(-1) == windows, op, ": x has shape ", x.sizes(), ", images of ", size, " have ",
        windows, " windows");
  Dims out{x.size(-2) / taps, size[0], size[1]};
  if (x.dim() == 3) out.insert(0, x.size(0));
  check_sizes(op, out);
  return {out, options_of(x)};
}

Result resample(const Tensor& x, const Dims& size, int64_t dim, std::string_view filter,
                bool align_corners, bool antialias, std::optional<double> scale) {
  check_resample("resample", x.sizes(), size, dim, filter, align_corners, antialias, scale);
  return {size, options_of(x)};
}

Result resample_grad_x(const Tensor& grad, const Dims& size, int64_t dim, std::string_view filter,
                       bool align_corners, bool antialias, std::optional<double> scale) {
  check_resample("resample_grad_x", size, grad.sizes(), dim, filter, align_corners, antialias,
                 scale);
  return {size, options_of(grad)};
}

namespace {
// Checks positions (n, taps, results) in n entries of planes, and weights of that shape.
void check_sampling(const char* op, const Tensor& planes, const Tensor& at, const Tensor& weight) {
  check(planes.dim() == 3 && at.dim() == 3 && at.size(0) == planes.size(0), op,
        ": the planes have shape ", planes.sizes(), " and the positions ", at.sizes(),
        ", (n, c, size) and (n, taps, results) are expected");
  if (weight.defined()) check_shape(op, "weight", weight.sizes(), at.sizes());
}
}  // namespace

Result sample_planes(const Tensor& x, const Tensor& at, const Tensor& weight) {
  check_sampling("sample_planes", x, at, weight);
  return {{x.size(0), x.size(1), at.size(2)}, options_of(x)};
}

Result sample_planes_grad_x(const Tensor& grad, const Tensor& at, const Tensor& weight,
                            int64_t size) {
  const char* op = "sample_planes_grad_x";
  check_sampling(op, grad, at, weight);
  check_shape(op, "grad", grad.sizes(), {at.size(0), grad.size(1), at.size(2)});
  check(size >= 0, op, ": size is ", size, ", at least 0 is expected");
  const Dims sizes{grad.size(0), grad.size(1), size};
  check_sizes(op, sizes);
  return {sizes, options_of(grad)};
}

Result sample_planes_grad_weight(const Tensor& grad, const Tensor& x, const Tensor& at) {
  const char* op = "sample_planes_grad_weight";
  check_sampling(op, x, at, Tensor());
  check_shape(op, "grad", grad.sizes(), {x.size(0), x.size(1), at.size(2)});
  return {at.sizes(), options_of(x)};
}

DType grid_position_dtype(const Dims& size) {
  constexpr int64_t kShort = int64_t{1} << 30;
  return numel_of(size, "grid_neighbours") <= kShort ? DType::Int32 : DType::Int64;
}

namespace {
// The sizes of the weights of the positions that a grid names in images of sizes `size`.
Dims grid_weight_sizes(const char* op, const Tensor& grid, const Dims& size, std::string_view mode,
                       std::string_view padding_mode) {
  const int dims = size.size();
  check(dims >= 1 && dims <= 3 && grid.dim() == 3 && grid.size(2) == dims, op, ": grid has shape ",
        grid.sizes(), " for images of ", size, ", (n, positions, 1 to 3 dimensions) is expected");
  check_sizes(op, size);
  for (int64_t v : size) check(v >= 1, op, ": images of ", size, " are empty");
  check(mode == "bilinear" || mode == "nearest" || mode == "bicubic", op,
        ": mode is \"bilinear\", \"nearest\" or \"bicubic\", got \"", mode, "\"");
  check(padding_mode == "zeros" || padding_mode == "border" || padding_mode == "reflection", op,
        ": padding_mode is \"zeros\", \"border\" or \"reflection\", got \"", padding_mode, "\"");
  int64_t taps = 1;
  for (int d = 0; d < dims; ++d) taps *= mode == "bilinear" ? 2 : mode == "nearest" ? 1 : 4;
  const Dims sizes{grid.size(0), taps, grid.size(1)};
  check_sizes(op, sizes);
  return sizes;
}
}  // namespace

std::array<Result, 2> grid_neighbours(const Tensor& grid, const Dims& size, std::string_view mode,
                                      std::string_view padding_mode, bool) {
  const Dims sizes = grid_weight_sizes("grid_neighbours", grid, size, mode, padding_mode);
  return {Result{sizes, {grid_position_dtype(size), grid.device()}},
          Result{sizes, {compute_dtype(grid.dtype()), grid.device()}}};
}

Result grid_neighbours_grads(const Tensor& grad, const Tensor& grid, const Dims& size,
                             std::string_view mode, std::string_view padding_mode, bool) {
  const char* op = "grid_neighbours_grads";
  check_shape(op, "grad", grad.sizes(), grid_weight_sizes(op, grid, size, mode, padding_mode));
  return {grid.sizes(), options_of(grid)};
}

}  // namespace moonlet::shapes

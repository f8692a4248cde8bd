// autograd/composite/image.cpp: resizing, axis by axis, and the channels that become positions.
#include <algorithm>
#include <cmath>

#include "autograd/formulas/common.h"
#include "autograd/uses_composite_image.h"
#include "tensor/shapes/window.h"

namespace moonlet {

using formulas::widened;

namespace {

constexpr const char* kInterpolate = "interpolate";

// The distance of two results in elements of the input, in float32 as PyTorch has it: what is
// nearest depends on how it is rounded.
float nearest_step(int64_t in, int64_t out, std::optional<double> scale) {
  return scale ? static_cast<float>(1.0 / *scale)
               : static_cast<float>(in) / static_cast<float>(out);
}

// x with the element nearest to each result along `dim`.
Tensor nearest_along(const Tensor& x, int64_t dim, int64_t size, std::optional<double> scale,
                     bool centred) {
  const int64_t in = x.size(static_cast<int>(dim));
  const Tensor number =
      sub(arange(Scalar(size), std::nullopt, 1, DType::Float32, x.device()), centred ? 0.5 : 1.0);
  const Tensor scaled = floor(mul(number, static_cast<double>(nearest_step(in, size, scale))));
  const Tensor position = clamp(add(to(scaled, DType::Int64), 1), 1, in);
  return index_select(x, dim, position);
}

// How a mode resizes: its filter, and the number of dimensions it is for (0: any).
struct Mode {
  std::string_view name, filter;
  int dims;
  bool antialias;
};
constexpr Mode kModes[] = {{"linear", "linear", 1, false},
                           {"bilinear", "linear", 2, true},
                           {"trilinear", "linear", 3, false},
                           {"bicubic", "cubic", 2, true},
                           {"lanczos", "lanczos", 2, true}};

void check_mode(const Mode& mode, int dims, bool align_corners, bool antialias) {
  check(mode.dims == dims, kInterpolate, ": mode \"", mode.name, "\" is for ", mode.dims,
        mode.dims == 1 ? " dimension" : " dimensions", " besides n and c, x has ", dims);
  check(!antialias || mode.antialias, kInterpolate,
        ": antialias is for the modes \"bilinear\", \"bicubic\" and \"lanczos\", got \"", mode.name,
        "\"");
  check(mode.name != "lanczos" || (antialias && !align_corners), kInterpolate,
        ": mode \"lanczos\" wants antialias and no align_corners");
}

// Of each result along an axis the first element it is made of, and the weights of those.
struct Taps {
  int64_t first = 0;
  std::vector<double> weights;
};

double filter_at(std::string_view filter, bool antialias, double x) {
  x = std::abs(x);
  if (filter == "linear") return x < 1 ? 1 - x : 0;
  if (filter == "cubic") {
    const double a = antialias ? -0.5 : -0.75;
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
  }
  const auto sinc = [](double v) { return v == 0 ? 1 : std::sin(v) / v; };
  constexpr double kPi = 3.14159265358979323846;
  return x < 3 ? sinc(kPi * x) * sinc(kPi * x / 3) : 0;
}

// A filter as wide as the distance of two results.
Taps wide_taps(std::string_view filter, int64_t i, int64_t in, double scale) {
  const double half = filter == "linear" ? 1 : filter == "cubic" ? 2 : 3;
  const double width = std::max(scale, 1.0), support = half * width;
  const auto most = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
  const double center = scale * (static_cast<double>(i) + 0.5);
  Taps taps;
  taps.first = std::max<int64_t>(static_cast<int64_t>(center - support + 0.5), 0);
  const int64_t end = std::min(static_cast<int64_t>(center + support + 0.5), in);
  double total = 0;
  for (int64_t j = 0; j < std::clamp<int64_t>(end - taps.first, 0, most); ++j) {
    const double at = static_cast<double>(j + taps.first) - center + 0.5;
    taps.weights.push_back(filter_at(filter, true, at / width));
    total += taps.weights.back();
  }
  if (total != 0)
    for (double& w : taps.weights) w /= total;
  return taps;
}

// The elements beside it; what would come from beyond an end comes from the element there.
Taps near_taps(std::string_view filter, int64_t i, int64_t in, double scale, bool align_corners) {
  const int64_t count = filter == "linear" ? 2 : 4, half = count / 2;
  const auto number = static_cast<double>(i);
  double position = align_corners ? scale * number : scale * (number + 0.5) - 0.5;
  if (count == 2) position = std::max(position, 0.0);
  const int64_t before = std::min(static_cast<int64_t>(std::floor(position)), in - 1);
  const double part = std::clamp(position - static_cast<double>(before), 0.0, 1.0);
  const int64_t from = before - half + 1, end = std::min(before + half + 1, in);
  Taps taps;
  taps.first = std::max<int64_t>(from, 0);
  taps.weights.resize(static_cast<size_t>(std::clamp<int64_t>(end - taps.first, 1, count)));
  for (int64_t j = 0; j < count; ++j) {
    const int64_t at = std::clamp<int64_t>(from + j, taps.first, end - 1) - taps.first;
    const double distance = static_cast<double>(j + 1 - half) - part;
    taps.weights[static_cast<size_t>(at)] += filter_at(filter, false, distance);
  }
  return taps;
}

// Rounds the weights to integers that fit 16 bits, with as many binary digits as all can have.
int round_weights(std::vector<Taps>& all) {
  constexpr int kMostDigits = 22;
  double most = 0;
  for (const Taps& taps : all)
    for (const double w : taps.weights) most = std::max(most, w);
  int digits = 0;
  while (digits < kMostDigits && static_cast<int64_t>(0.5 + std::ldexp(most, digits + 1)) < 1 << 15)
    ++digits;
  for (Taps& taps : all)
    for (double& w : taps.weights) {
      const double scaled = std::ldexp(w, digits);
      w = std::trunc(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
    }
  return digits;
}

// The bytes x resized along `dim` in integers, as PyTorch and Pillow do it.
Tensor resampled_bytes(const Tensor& x, int64_t dim, int64_t out, std::string_view filter,
                       bool align_corners, bool antialias, std::optional<double> step) {
  const int64_t in = x.size(static_cast<int>(dim));
  double scale = step.value_or(static_cast<double>(in) / static_cast<double>(out));
  if (align_corners)
    scale = out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
  std::vector<Taps> all;
  size_t most = 0;
  for (int64_t i = 0; i < out; ++i) {
    all.push_back(antialias ? wide_taps(filter, i, in, scale)
                            : near_taps(filter, i, in, scale, align_corners));
    most = std::max(most, all.back().weights.size());
  }
  const int digits = round_weights(all);
  Dims along = Dims::filled(x.dim(), 1), sizes = x.sizes();
  along[static_cast<int>(dim)] = sizes[static_cast<int>(dim)] = out;
  Tensor sum = full(sizes, int64_t{1} << digits >> 1, Options{DType::Int32, x.device()});
  for (size_t j = 0; j < most; ++j) {
    Tensor at = empty({out}, {DType::Int64, {}}), weight = empty(along, {DType::Int32, {}});
    for (int64_t i = 0; i < out; ++i) {
      const Taps& taps = all[static_cast<size_t>(i)];
      const bool has = j < taps.weights.size();
      at.data<int64_t>()[i] = 1 + (has ? taps.first + static_cast<int64_t>(j) : 0);
      weight.data<int32_t>()[i] = has ? static_cast<int32_t>(taps.weights[j]) : 0;
    }
    const Tensor part = to(index_select(x, dim, to(at, std::nullopt, x.device())), DType::Int32);
    add_(sum, mul(part, to(weight, std::nullopt, x.device())));
  }
  const Tensor rounded = bitwise_right_shift(sum, int64_t{digits});
  return to(clamp(rounded, int64_t{0}, int64_t{255}), DType::UInt8);
}

Tensor filtered(const Tensor& x, const std::vector<int64_t>& size, const Mode& mode,
                bool align_corners, bool antialias,
                const std::vector<std::optional<double>>& scales) {
  const int dims = static_cast<int>(size.size());
  check_mode(mode, dims, align_corners, antialias);
  const bool bytes = x.dtype() == DType::UInt8 && mode.antialias;
  check(is_floating(x.dtype()) || bytes, kInterpolate, ": mode \"", mode.name, "\" takes ",
        mode.antialias ? "uint8 and floating dtypes" : "floating dtypes", ", got ",
        name(x.dtype()));
  Tensor out = widened(x);
  Dims sizes = x.sizes();
  // From the last axis on, which has the most to gain from a smaller image.
  for (int i = dims - 1; i >= 0; --i) {
    sizes[2 + i] = size[i];
    // As in PyTorch an axis that keeps its size stays, whatever the scale, but by the plain cubic.
    if (size[i] == x.size(2 + i) && (mode.filter == "linear" || antialias)) continue;
    const auto step = scales[i] ? std::optional<double>(1.0 / *scales[i]) : std::nullopt;
    if (bytes && size[i] == x.size(2 + i)) continue;
    out = bytes ? resampled_bytes(out, 2 + i, size[i], mode.filter, align_corners, antialias, step)
                : resample(out, sizes, 2 + i, mode.filter, align_corners, antialias, step);
  }
  out = to(out, x.dtype());
  return &out.storage() == &x.storage() ? clone(out) : out;
}

Tensor averaged(const Tensor& x, const std::vector<int64_t>& size) {
  if (size.size() == 1) return adaptive_avg_pool1d(x, {size[0]});
  if (size.size() == 2) return adaptive_avg_pool2d(x, {size[0], size[1]});
  return adaptive_avg_pool3d(x, {size[0], size[1], size[2]});
}

}  // namespace

Tensor interpolate_composite(const Tensor& x, const std::vector<int64_t>& size,
                             std::string_view mode, bool align_corners, bool antialias,
                             std::optional<double> scale_d, std::optional<double> scale_h,
                             std::optional<double> scale_w) {
  const int dims = x.dim() - 2;
  check(dims >= 1 && dims <= 3, kInterpolate, ": x has shape ", x.sizes(),
        ", (n, c, l), (n, c, h, w) or (n, c, d, h, w) is expected");
  shapes::check_images(kInterpolate, x.sizes(), dims);
  check(size.size() == static_cast<size_t>(dims), kInterpolate, ": size has ", size.size(),
        " numbers, ", dims, " are expected for x of shape ", x.sizes());
  std::vector<std::optional<double>> scales{scale_d, scale_h, scale_w};
  scales.erase(scales.begin(), scales.end() - dims);
  for (int64_t v : size) check(v >= 1, kInterpolate, ": a size is ", v, ", at least 1 is expected");
  for (const auto& scale : scales)
    check(!scale || (std::isfinite(*scale) && *scale > 0 && std::isfinite(1 / *scale)),
          kInterpolate, ": a scale is ", scale.value_or(0), ", a positive number is expected");
  for (const Mode& m : kModes)
    if (mode == m.name) return filtered(x, size, m, align_corners, antialias, scales);
  const bool exact = mode == "nearest-exact";
  check(exact || mode == "nearest" || mode == "area", kInterpolate,
        ": mode is \"nearest\", \"nearest-exact\", \"linear\", \"bilinear\", \"trilinear\", "
        "\"bicubic\", \"lanczos\" or \"area\", got \"",
        mode, "\"");
  check(!align_corners && !antialias, kInterpolate, ": mode \"", mode,
        "\" has no align_corners and no antialias");
  if (mode == "area") return averaged(x, size);
  Tensor out = x;
  for (int i = dims - 1; i >= 0; --i) out = nearest_along(out, 2 + i, size[i], scales[i], exact);
  return out;
}

namespace {

void check_blocks(const char* op, const Tensor& x, const char* argument, int64_t factor) {
  check(x.dim() >= 3, op, ": x has shape ", x.sizes(), ", (..., c, h, w) is expected");
  check(factor >= 1 && factor <= shapes::kWindowLimit, op, ": ", argument, " is ", factor,
        ", at least 1 is expected");
}

// `sizes` without the last three, and `last` after them.
Dims with_last(const Dims& sizes, std::initializer_list<int64_t> last) {
  Dims out(sizes.begin(), sizes.size() - 3);
  for (int64_t v : last) out.push_back(v);
  return out;
}

}  // namespace

Tensor pixel_shuffle_composite(const Tensor& x, int64_t r) {
  const char* op = "pixel_shuffle";
  check_blocks(op, x, "upscale_factor", r);
  const int64_t channels = x.size(-3), h = x.size(-2), w = x.size(-1);
  check(channels % (r * r) == 0, op, ": ", channels, " channels of shape ", x.sizes(),
        " are no multiple of ", r, " * ", r);
  const int64_t c = channels / (r * r);
  const int64_t n = numel_of(with_last(x.sizes(), {}), op);
  const Tensor blocks = reshape(x, {n, c, r, r, h, w});
  return reshape(permute(blocks, {0, 1, 4, 2, 5, 3}), with_last(x.sizes(), {c, h * r, w * r}));
}

Tensor pixel_unshuffle_composite(const Tensor& x, int64_t r) {
  const char* op = "pixel_unshuffle";
  check_blocks(op, x, "downscale_factor", r);
  const int64_t c = x.size(-3), h = x.size(-2) / r, w = x.size(-1) / r;
  check(x.size(-2) % r == 0 && x.size(-1) % r == 0, op, ": images of shape ", x.sizes(),
        " do not divide into blocks of ", r);
  const int64_t n = numel_of(with_last(x.sizes(), {}), op);
  const Tensor blocks = reshape(x, {n, c, h, r, w, r});
  return reshape(permute(blocks, {0, 1, 3, 5, 2, 4}), with_last(x.sizes(), {c * r * r, h, w}));
}

Tensor channel_shuffle_composite(const Tensor& x, int64_t groups) {
  const char* op = "channel_shuffle";
  check(x.dim() >= 3, op, ": x has shape ", x.sizes(), ", (n, c, ...) is expected");
  check(groups >= 1 && x.size(1) % groups == 0, op, ": ", x.size(1), " channels of shape ",
        x.sizes(), " do not divide into ", groups, " groups");
  int64_t rest = 1;
  for (int i = 2; i < x.dim(); ++i) rest *= x.size(i);
  const Tensor grouped = reshape(x, {x.size(0), groups, x.size(1) / groups, rest});
  return reshape(transpose(grouped, 1, 2), x.sizes());
}

}  // namespace moonlet

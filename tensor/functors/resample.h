// tensor/functors/resample.h: which elements of a line an element of the resized line is made of,
// and their weights, shared by all devices.
#pragma once

#include <cmath>
#include <optional>
#include <string_view>

#include "tensor/core/dims.h"
#include "tensor/core/half.h"  // MOONLET_HD

namespace moonlet {

enum class Filter : int { Linear, Cubic, Lanczos };

// A line of `in` elements that becomes one of `out`. `scale` is the distance of two results in
// elements of the input. With `antialias` the filter is as wide as that distance.
struct Resample {
  int64_t in, out;
  double scale;
  Filter filter;
  bool align_corners, antialias;
};

// The geometry of a resizing along `dim`, from the arguments of the op `resample`.
inline Resample resample_of(const Dims& from, const Dims& to, int64_t dim, std::string_view filter,
                            bool align_corners, bool antialias, std::optional<double> scale) {
  const int64_t in = from[static_cast<int>(dim)], out = to[static_cast<int>(dim)];
  Resample r{in,
             out,
             static_cast<double>(in) / static_cast<double>(out),
             filter == "linear"  ? Filter::Linear
             : filter == "cubic" ? Filter::Cubic
                                 : Filter::Lanczos,
             align_corners,
             antialias};
  if (align_corners)
    r.scale = out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0.0;
  else if (scale)
    r.scale = *scale;
  return r;
}

// The taps [begin, end) of a result around `center`. Those outside the line stand for its ends.
struct ResampleSpan {
  int64_t begin, end;
  double center;
};

MOONLET_HD double half_width(Filter filter) {
  return filter == Filter::Linear ? 1.0 : filter == Filter::Cubic ? 2.0 : 3.0;
}

MOONLET_HD double limited(double v, double low, double high) {
  return v < low ? low : v > high ? high : v;
}

MOONLET_HD ResampleSpan resample_span(const Resample& r, int64_t at) {
  const double size = static_cast<double>(r.in), position = static_cast<double>(at);
  if (r.antialias) {
    const double center = r.scale * (position + 0.5);
    const double reach = half_width(r.filter) * (r.scale >= 1.0 ? r.scale : 1.0);
    const auto begin = static_cast<int64_t>(limited(center - reach + 0.5, 0.0, size - 1));
    const auto end = static_cast<int64_t>(limited(center + reach + 0.5, 0.0, size));
    return {begin, end > begin ? end : begin + 1, center};
  }
  double center = r.align_corners ? r.scale * position : r.scale * (position + 0.5) - 0.5;
  if (r.filter == Filter::Linear && center < 0) center = 0;
  center = limited(center, -2.0, size + 1);
  const auto below = static_cast<int64_t>(floor(center));
  if (r.filter == Filter::Linear) return {below, below + 2, center};
  return {below - 1, below + 3, center};
}

// Keys's cubic (Cubic convolution interpolation, 1981) with the parameter `a`, at distance `x`.
MOONLET_HD double cubic(double x, double a) {
  x = fabs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0.0;
}

// sin(pi x) / (pi x)
MOONLET_HD double sinc(double x) {
  const double angle = 3.14159265358979323846 * x;
  return x == 0 ? 1.0 : sin(angle) / angle;
}

// The weight of tap `tap` before they are divided by their sum.
MOONLET_HD double tap_weight(const Resample& r, const ResampleSpan& span, int64_t tap) {
  double x = static_cast<double>(tap) - span.center;
  if (r.antialias) x = (x + 0.5) / (r.scale >= 1.0 ? r.scale : 1.0);
  if (r.filter == Filter::Linear) return fabs(x) < 1 ? 1 - fabs(x) : 0.0;
  if (r.filter == Filter::Cubic) return cubic(x, r.antialias ? -0.5 : -0.75);
  return fabs(x) < 3 ? sinc(x) * sinc(x / 3) : 0.0;
}

// What the weights of a result are divided by.
MOONLET_HD double weight_sum(const Resample& r, const ResampleSpan& span) {
  if (!r.antialias) return 1.0;
  double sum = 0;
  for (int64_t tap = span.begin; tap < span.end; ++tap) sum += tap_weight(r, span, tap);
  return sum != 0 ? sum : 1.0;
}

// The element that tap `tap` names.
MOONLET_HD int64_t tap_position(const Resample& r, int64_t tap) {
  return tap < 0 ? 0 : tap < r.in ? tap : r.in - 1;
}

// The first result whose taps reach element `at`; those of later ones begin and end no earlier.
MOONLET_HD int64_t first_result(const Resample& r, int64_t at) {
  int64_t low = 0, high = r.out;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (resample_span(r, middle).end > at)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

}  // namespace moonlet

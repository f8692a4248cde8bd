// cuda/emulated/cudnn_loops.cpp: the three kinds of convolutions by one loop over dense numbers,
// summed in double.
#include "cudnn_loops.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>
#include <vector>

#include "half.h"

namespace moonlet::emulated {

namespace {

/// The factor as TF32 holds it: 10 bits of mantissa, to the nearest.
float as_tf32(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if (!std::isfinite(x)) return x;
  return std::bit_cast<float>((bits + 0xfffu + (bits >> 13 & 1)) & ~0x1fffu);
}

}  // namespace

double load(const void* from, cudnnDataType_t type, std::int64_t at, bool tf32) {
  switch (type) {
    case CUDNN_DATA_DOUBLE: return static_cast<const double*>(from)[at];
    case CUDNN_DATA_HALF: return from_f16(static_cast<const std::uint16_t*>(from)[at]);
    case CUDNN_DATA_BFLOAT16: return from_bf16(static_cast<const std::uint16_t*>(from)[at]);
    case CUDNN_DATA_INT32: return static_cast<const std::int32_t*>(from)[at];
    default: break;
  }
  const float x = static_cast<const float*>(from)[at];
  return tf32 ? as_tf32(x) : x;
}

void store(double x, void* to, cudnnDataType_t type, std::int64_t at) {
  const auto narrow = static_cast<float>(x);
  switch (type) {
    case CUDNN_DATA_DOUBLE: static_cast<double*>(to)[at] = x; return;
    case CUDNN_DATA_HALF: static_cast<std::uint16_t*>(to)[at] = to_f16(narrow); return;
    case CUDNN_DATA_BFLOAT16: static_cast<std::uint16_t*>(to)[at] = to_bf16(narrow); return;
    default: static_cast<float*>(to)[at] = narrow;
  }
}

namespace {

/// Calls f(position among dense elements, position in memory).
template <class F>
void each(const View& v, F&& f) {
  std::int64_t dense = 0;
  for (std::int64_t a = 0; a < v.size[0]; ++a)
    for (std::int64_t b = 0; b < v.size[1]; ++b)
      for (std::int64_t c = 0; c < v.size[2]; ++c)
        for (std::int64_t d = 0; d < v.size[3]; ++d)
          for (std::int64_t e = 0; e < v.size[4]; ++e)
            f(dense++, a * v.stride[0] + b * v.stride[1] + c * v.stride[2] + d * v.stride[3] +
                           e * v.stride[4]);
}

std::vector<double> unpack(const View& v, const void* from, bool tf32) {
  std::vector<double> out(static_cast<std::size_t>(v.elements()));
  each(v, [&](std::int64_t dense, std::int64_t at) {
    out[static_cast<std::size_t>(dense)] = load(from, v.type, at, tf32);
  });
  return out;
}

/// The first and past the last output along the innermost axis that a tap sees inside of x.
std::pair<std::int64_t, std::int64_t> seen(const Shape& s, std::int64_t tap) {
  const std::int64_t shift = tap * s.conv.dilation[2] - s.conv.padding[2], step = s.conv.stride[2];
  const std::int64_t first = shift < 0 ? (-shift + step - 1) / step : 0;
  const std::int64_t last = s.x.size[4] - 1 - shift;
  return {first, last < 0 ? 0 : std::min(s.y.size[4], last / step + 1)};
}

/// One tap of one filter over one image: rows of x beside rows of y.
template <Kind kind>
void slide(const Shape& s, const std::array<std::int64_t, 3>& tap, double* x, double* w,
           double* y) {
  const auto [first, end] = seen(s, tap[2]);
  for (std::int64_t d = 0; d < s.y.size[2]; ++d) {
    const std::int64_t xd = d * s.conv.stride[0] - s.conv.padding[0] + tap[0] * s.conv.dilation[0];
    if (xd < 0 || xd >= s.x.size[2]) continue;
    for (std::int64_t h = 0; h < s.y.size[3]; ++h) {
      const std::int64_t xh =
          h * s.conv.stride[1] - s.conv.padding[1] + tap[1] * s.conv.dilation[1];
      if (xh < 0 || xh >= s.x.size[3]) continue;
      double* row = x + (xd * s.x.size[3] + xh) * s.x.size[4] - s.conv.padding[2] +
                    tap[2] * s.conv.dilation[2];
      double* out = y + (d * s.y.size[3] + h) * s.y.size[4];
      double sum = 0;
      for (std::int64_t i = first; i < end; ++i) {
        double& seen_there = row[i * s.conv.stride[2]];
        if constexpr (kind == Kind::Forward) out[i] += *w * seen_there;
        if constexpr (kind == Kind::Data) seen_there += *w * out[i];
        if constexpr (kind == Kind::Filter) sum += seen_there * out[i];
      }
      if constexpr (kind == Kind::Filter) *w += sum;
    }
  }
}

template <Kind kind>
void convolve(const Shape& s, double* x, double* w, double* y) {
  const std::int64_t volume = s.x.size[2] * s.x.size[3] * s.x.size[4];
  const std::int64_t positions = s.y.size[2] * s.y.size[3] * s.y.size[4];
  const std::int64_t window = s.w.size[2] * s.w.size[3] * s.w.size[4];
  const std::int64_t outputs = s.w.size[0] / s.conv.groups;
  for (std::int64_t n = 0; n < s.x.size[0]; ++n)
    for (std::int64_t o = 0; o < s.w.size[0]; ++o)
      for (std::int64_t c = 0; c < s.w.size[1]; ++c)
        for (std::int64_t k = 0; k < window; ++k) {
          const std::int64_t channel = o / outputs * s.w.size[1] + c;
          slide<kind>(
              s, {k / s.w.size[4] / s.w.size[3], k / s.w.size[4] % s.w.size[3], k % s.w.size[4]},
              x + (n * s.x.size[1] + channel) * volume, w + (o * s.w.size[1] + c) * window + k,
              y + (n * s.y.size[1] + o) * positions);
        }
}

}  // namespace

void compute(Kind kind, const Shape& s, const Data& at, double alpha, double beta) {
  const bool tf32 = s.x.type == CUDNN_DATA_FLOAT && s.conv.math != CUDNN_FMA_MATH;
  const auto operand = [&](const View& v, const void* from, bool written) {
    return written ? std::vector<double>(static_cast<std::size_t>(v.elements()))
                   : unpack(v, from, tf32);
  };
  std::vector<double> x = operand(s.x, at.x, kind == Kind::Data),
                      w = operand(s.w, at.w, kind == Kind::Filter),
                      y = operand(s.y, at.y, kind == Kind::Forward);
  switch (kind) {
    case Kind::Forward: convolve<Kind::Forward>(s, x.data(), w.data(), y.data()); break;
    case Kind::Data: convolve<Kind::Data>(s, x.data(), w.data(), y.data()); break;
    case Kind::Filter: convolve<Kind::Filter>(s, x.data(), w.data(), y.data()); break;
  }
  const std::vector<double>& result = kind == Kind::Forward ? y : kind == Kind::Data ? x : w;
  const View& v = kind == Kind::Forward ? s.y : kind == Kind::Data ? s.x : s.w;
  void* to = const_cast<void*>(kind == Kind::Forward ? at.y : kind == Kind::Data ? at.x : at.w);
  each(v, [&](std::int64_t dense, std::int64_t position) {
    const double before = beta == 0 ? 0 : beta * load(to, v.type, position, false);
    store(alpha * result[static_cast<std::size_t>(dense)] + before, to, v.type, position);
  });
}

}  // namespace moonlet::emulated

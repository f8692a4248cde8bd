// cuda/kernels/common/conv_shape.cuh: the shapes of a convolution as its kernels take them, and
// which positions of images and results see each other.
#pragma once

#include <algorithm>

#include "cuda/kernels/common/divide.cuh"
#include "cuda/kernels/common/elements.cuh"
#include "tensor/core/dims.h"

namespace moonlet::cuda {

// The axes are depth, height and width; of images and lines the first ones have size 1.
inline constexpr int kAxes = 3;
struct Axes {
  int64_t of[kAxes];
  __host__ __device__ int64_t volume() const { return of[0] * of[1] * of[2]; }
  // The position of coordinates.
  __host__ __device__ int64_t position(const Axes& at) const {
    return (at.of[0] * of[1] + at.of[1]) * of[2] + at.of[2];
  }
};

// Division by a number that the host knows; `narrow` says that what is divided is below 2^31.
struct Split {
  int64_t by = 1;
  Divider fast;
  bool narrow = false;
  Split() = default;
  Split(int64_t divisor, bool is_narrow) : by(divisor), narrow(is_narrow) {
    if (narrow) fast = Divider(by);
  }
  __device__ __forceinline__ int64_t operator()(int64_t n, int64_t& rest) const {
    const int64_t quotient = narrow ? fast.quotient(static_cast<uint32_t>(n)) : n / by;
    rest = n - quotient * by;
    return quotient;
  }
};

// Positions and their coordinates.
struct Grid3 {
  Axes sizes;
  int64_t volume = 1;
  Split all, width, height;
  Grid3(const Axes& a, bool narrow)
      : sizes(a),
        volume(a.volume()),
        all(volume, narrow),
        width(a.of[2], narrow),
        height(a.of[1], narrow) {}
  __device__ __forceinline__ Axes at(int64_t position) const {
    Axes out;
    const int64_t rows = width(position, out.of[2]);
    out.of[0] = height(rows, out.of[1]);
    return out;
  }
};

// The last of `given` from `first` on as axes, with `fill` before them.
inline Axes axes_of(const Dims& given, int first, int64_t fill) {
  Axes out{{fill, fill, fill}};
  for (int i = first; i < given.size(); ++i) out.of[kAxes - given.size() + i] = given[i];
  return out;
}

// `ins` and `outs` are the channels of a group.
struct ConvShape {
  int64_t batch, groups, ins, outs;
  Grid3 in, out, kernel;
  Axes stride, pad, dilation;
  Split step[kAxes];
  __host__ __device__ int64_t taps() const { return ins * kernel.volume; }
  // Few channels in each of several groups: products would be of zeros mostly.
  bool is_thin() const { return groups > 1 && std::max(ins, outs) <= 4; }
};

inline ConvShape shape_of(const Dims& x, const Dims& weight, const Dims& y, const Dims& stride,
                          const Dims& padding, const Dims& dilation, int64_t groups) {
  const Axes in = axes_of(x, 2, 1), out = axes_of(y, 2, 1), kernel = axes_of(weight, 2, 1),
             steps = axes_of(stride, 0, 1), pad = axes_of(padding, 0, 0),
             dilated = axes_of(dilation, 0, 1);
  int64_t most =
      std::max({x[0] * in.volume(), x[0] * out.volume(), std::max(x[1], y[1]) * kernel.volume()});
  for (int d = 0; d < kAxes; ++d)
    most = std::max({most, steps.of[d], in.of[d] + pad.of[d], kernel.of[d]});
  const bool narrow = most < kDividerLimit;
  ConvShape s{x[0],
              groups,
              x[1] / groups,
              y[1] / groups,
              Grid3(in, narrow),
              Grid3(out, narrow),
              Grid3(kernel, narrow),
              steps,
              pad,
              dilated,
              {}};
  for (int d = 0; d < kAxes; ++d) s.step[d] = Split(steps.of[d], narrow);
  return s;
}

// The position in the image that an output sees through a tap, or -1 outside.
__device__ __forceinline__ int64_t seen_position(const ConvShape& s, const Axes& out,
                                                 const Axes& tap) {
  Axes at;
  bool inside = true;
  MOONLET_UNROLL
  for (int d = 0; d < kAxes; ++d) {
    at.of[d] = out.of[d] * s.stride.of[d] - s.pad.of[d] + tap.of[d] * s.dilation.of[d];
    inside = inside && at.of[d] >= 0 && at.of[d] < s.in.sizes.of[d];
  }
  return inside ? s.in.sizes.position(at) : -1;
}

// The position of the output that sees a position of the image through a tap, or -1.
__device__ __forceinline__ int64_t seeing_position(const ConvShape& s, const Axes& in,
                                                   const Axes& tap) {
  Axes at;
  bool inside = true;
  MOONLET_UNROLL
  for (int d = 0; d < kAxes; ++d) {
    const int64_t from = in.of[d] + s.pad.of[d] - tap.of[d] * s.dilation.of[d];
    int64_t rest = 0;
    at.of[d] = s.step[d](from < 0 ? 0 : from, rest);
    inside = inside && from >= 0 && rest == 0 && at.of[d] < s.out.sizes.of[d];
  }
  return inside ? s.out.sizes.position(at) : -1;
}

}  // namespace moonlet::cuda

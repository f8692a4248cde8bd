// tensor/cpu/image_grid.cpp: the neighbours, with their weights, of the places in images that a
// grid names, and the gradient of the weights. One dimension after the other, by blocks of places
// that are computed without branches.
#include <algorithm>
#include <cmath>

#include "tensor/cpu/contiguous.h"
#include "tensor/cpu/parallel.h"
#include "tensor/kernels_image.h"
#include "tensor/shapes/window.h"

namespace moonlet::cpu {
namespace {

enum class Border { Zeros, Edge, Reflection };
enum class Mode { Linear, Nearest, Cubic };

constexpr int64_t kBlock = 128;
constexpr int kMostTaps = 4, kMostDims = 3;

// One dimension of the image: how many elements it has, how far apart they are, and how the grid's
// numbers and places outside are read.
struct Axis {
  int64_t size, stride;
  Border border;
  bool align_corners;
};

// A place from 0 to size - 1 and its derivative by the grid's number.
template <class T>
struct Point {
  T place, slope;
};

// A grid's number from -1 to 1; NaN counts as -1. Beyond a border of zeros all places are one.
template <class T>
Point<T> unnormalized(const Axis& axis, T given) {
  const auto size = static_cast<T>(axis.size);
  const bool known = given == given;
  const T g = known ? given + T(1) : T(0);
  const T scale = axis.align_corners ? (size - 1) / 2 : size * T(0.5);
  const T place = axis.align_corners ? g * scale : (g * size - T(1)) * T(0.5);
  if (axis.border != Border::Zeros) return {place, known ? scale : T(0)};
  constexpr T kFar = 9;
  const bool near = (place > -kFar) & (place < size + kFar);
  return {near ? place : -kFar, near & known ? scale : T(0)};
}

// Limited to the axis, beyond which a place has no gradient; NaN, an infinite place reflected, is
// at its beginning.
template <class T>
Point<T> limited(const Axis& axis, Point<T> p) {
  const auto last = static_cast<T>(axis.size - 1);
  const bool inside = (p.place > 0) & (p.place < last);
  const T end = p.place >= last ? last : T(0);
  return {inside ? p.place : end, inside ? p.slope : T(0)};
}

// A place outside mirrored into the axis: at the centres of its last elements or at its edges.
template <class T>
Point<T> reflected(const Axis& axis, Point<T> p) {
  const T low = axis.align_corners ? T(0) : T(-0.5);
  const auto span = static_cast<T>(axis.align_corners ? axis.size - 1 : axis.size);
  if (span == 0) return {T(0), T(0)};
  const T side = p.place < low ? T(-1) : p.place > low ? T(1) : T(0);
  const T distance = std::abs(p.place - low), flips = std::floor(distance / span);
  const T extra = distance - flips * span;
  const bool odd = flips != 2 * std::floor(flips / 2);
  return {(odd ? span - extra : extra) + low, p.slope * (odd ? -side : side)};
}

template <class T>
Point<T> bordered(const Axis& axis, Point<T> p) {
  if (axis.border == Border::Zeros) return p;
  return limited(axis, axis.border == Border::Edge ? p : reflected(axis, p));
}

// Of a block of places the neighbours along one axis: their offsets, -1 outside the image, their
// weights and the derivatives of these.
template <class T, class I>
struct AxisTaps {
  T weight[kMostTaps][kBlock], slope[kMostTaps][kBlock];
  I offset[kMostTaps][kBlock];
};

// The offset of a whole place.
template <class I>
I offset_of(const Axis& axis, I number) {
  const bool inside = (number >= 0) & (number < static_cast<I>(axis.size));
  return inside ? number * static_cast<I>(axis.stride) : I(-1);
}

// The largest whole number that is not above `place`, whose size is that of a place.
template <class T, class I>
I floor_of(T place) {
  const auto whole = static_cast<I>(place);
  return whole - (static_cast<T>(whole) > place ? 1 : 0);
}

template <class T, class I>
void linear_taps(const Axis& axis, const T* grid, int64_t step, int64_t count, AxisTaps<T, I>& to) {
  for (int64_t i = 0; i < count; ++i) {
    const Point<T> p = bordered(axis, unnormalized(axis, grid[i * step]));
    const I below = floor_of<T, I>(p.place);
    const T part = p.place - static_cast<T>(below);
    to.weight[0][i] = T(1) - part;
    to.weight[1][i] = part;
    to.slope[0][i] = -p.slope;
    to.slope[1][i] = p.slope;
    to.offset[0][i] = offset_of(axis, below);
    to.offset[1][i] = offset_of(axis, static_cast<I>(below + 1));
  }
}

template <class T, class I>
void nearest_taps(const Axis& axis, const T* grid, int64_t step, int64_t count,
                  AxisTaps<T, I>& to) {
  for (int64_t i = 0; i < count; ++i) {
    const Point<T> p = bordered(axis, unnormalized(axis, grid[i * step]));
    to.weight[0][i] = T(1);
    to.slope[0][i] = T(0);
    to.offset[0][i] = offset_of(axis, static_cast<I>(std::nearbyint(p.place)));
  }
}

// Keys's cubic (1981) with the parameter -3/4, of distances up to 1 and from 1 to 2, and its
// derivatives.
template <class T>
Point<T> cubic_near(T x) {
  return {(T(1.25) * x - T(2.25)) * x * x + T(1), (T(3.75) * x - T(4.5)) * x};
}
template <class T>
Point<T> cubic_far(T x) {
  return {(((x - T(5)) * x + T(8)) * x - T(4)) * T(-0.75),
          ((T(3) * x - T(10)) * x + T(8)) * T(-0.75)};
}

template <class T, class I>
void cubic_taps(const Axis& axis, const T* grid, int64_t step, int64_t count, AxisTaps<T, I>& to) {
  for (int64_t i = 0; i < count; ++i) {
    const Point<T> p = unnormalized(axis, grid[i * step]);
    const T below = std::floor(p.place), part = p.place - below;
    const Point<T> taps[] = {cubic_far(part + T(1)), cubic_near(part), cubic_near(T(1) - part),
                             cubic_far(T(2) - part)};
    for (int k = 0; k < 4; ++k) {
      to.weight[k][i] = taps[k].place;
      to.slope[k][i] = (k < 2 ? p.slope : -p.slope) * taps[k].slope;
      // Each neighbour is brought into the image for itself.
      const T whole = bordered(axis, Point<T>{below + static_cast<T>(k - 1), T(0)}).place;
      to.offset[k][i] = offset_of(axis, static_cast<I>(std::nearbyint(whole)));
    }
  }
}

int taps_of(Mode mode) { return mode == Mode::Linear ? 2 : mode == Mode::Nearest ? 1 : 4; }

// How a grid (n, places, dims) names places in images of some sizes.
struct Naming {
  Naming(const Dims& size, std::string_view given, std::string_view padding, bool align_corners)
      : dims(size.size()),
        mode(given == "bilinear"  ? Mode::Linear
             : given == "nearest" ? Mode::Nearest
                                  : Mode::Cubic) {
    const Border border = padding == "zeros"    ? Border::Zeros
                          : padding == "border" ? Border::Edge
                                                : Border::Reflection;
    for (int d = dims - 1; d >= 0; --d) {
      axes[d] = {size[d], whole, border, align_corners};
      whole *= size[d];
      taps *= taps_of(mode);
    }
  }
  // Fills `to` with the neighbours of `count` places; the grid names the last dimension first.
  template <class T, class I>
  void find(const T* grid, int64_t count, AxisTaps<T, I>* to) const {
    for (int d = 0; d < dims; ++d) {
      const T* numbers = grid + (dims - 1 - d);
      if (mode == Mode::Linear)
        linear_taps(axes[d], numbers, dims, count, to[d]);
      else if (mode == Mode::Nearest)
        nearest_taps(axes[d], numbers, dims, count, to[d]);
      else
        cubic_taps(axes[d], numbers, dims, count, to[d]);
    }
  }
  // Which of its neighbours along axis `d` neighbour `k` is.
  int digit(int64_t k, int d) const {
    for (int e = dims - 1; e > d; --e) k /= taps_of(mode);
    return static_cast<int>(k % taps_of(mode));
  }
  int dims;
  Mode mode;
  Axis axes[kMostDims];
  int64_t whole = 1, taps = 1;
};

// Positions (from 1; the one behind the image stands for what is outside) and weights of neighbour
// k of a block of places.
template <class T, class I>
void write_tap(const Naming& naming, const AxisTaps<T, I>* all, int64_t k, int64_t count, I* at,
               T* weight) {
  const auto nothing = static_cast<I>(naming.whole);
  for (int d = 0; d < naming.dims; ++d) {
    const int j = naming.digit(k, d);
    const T* w = all[d].weight[j];
    const I* offset = all[d].offset[j];
    if (d == 0) {
      for (int64_t i = 0; i < count; ++i) at[i] = offset[i], weight[i] = w[i];
      continue;
    }
    for (int64_t i = 0; i < count; ++i) {
      at[i] = (at[i] | offset[i]) < 0 ? I(-1) : at[i] + offset[i];
      weight[i] *= w[i];
    }
  }
  for (int64_t i = 0; i < count; ++i) at[i] = (at[i] < 0 ? nothing : at[i]) + 1;
}

// Adds the derivative of neighbour k's weight along axis d, times `slope`, to `sums`.
template <class T, class I>
void add_slope(const Naming& naming, const AxisTaps<T, I>* all, int64_t k, int d, int64_t count,
               const T* slope, T* sums) {
  T product[kBlock];
  for (int64_t i = 0; i < count; ++i) product[i] = slope[i];
  for (int e = 0; e < naming.dims; ++e) {
    const int j = naming.digit(k, e);
    const T* factor = e == d ? all[e].slope[j] : all[e].weight[j];
    for (int64_t i = 0; i < count; ++i) product[i] *= factor[i];
  }
  for (int64_t i = 0; i < count; ++i) sums[i] += product[i];
}

// Calls body(entry, first place, count) for blocks of the places of all entries.
template <class Body>
void each_block(int64_t n, int64_t places, const Naming& naming, const Body& body) {
  const int64_t blocks = (places + kBlock - 1) / kBlock;
  parallel_for(n * blocks, grain_for(kBlock * naming.taps * 8), [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = b % blocks * kBlock;
      body(b / blocks, first, std::min(kBlock, places - first));
    }
  });
}

// Calls f.operator()<T, I>() with the types of numbers and of positions.
template <class F>
void visit_sizes(DType number, DType position, F&& f) {
  visit<bit(DType::Float32) | bit(DType::Float64)>(number, [&]<class T>() {
    visit<bit(DType::Int32) | bit(DType::Int64)>(position,
                                                 [&]<class I>() { f.template operator()<T, I>(); });
  });
}

}  // namespace

void grid_neighbours(const Tensor& grid, const Dims& size, std::string_view mode,
                     std::string_view padding_mode, bool align_corners, Tensor& at,
                     Tensor& weight) {
  const Naming naming(size, mode, padding_mode, align_corners);
  const Tensor numbers = converted(grid, weight.dtype());
  const int64_t places = grid.size(1);
  if (weight.numel() == 0) return;
  visit_sizes(weight.dtype(), at.dtype(), [&]<class T, class I>() {
    each_block(grid.size(0), places, naming, [&](int64_t b, int64_t first, int64_t count) {
      AxisTaps<T, I> all[kMostDims];
      naming.find(numbers.elements<T>() + (b * places + first) * naming.dims, count, all);
      for (int64_t k = 0; k < naming.taps; ++k) {
        const int64_t start = (b * naming.taps + k) * places + first;
        write_tap(naming, all, k, count, at.elements<I>() + start, weight.elements<T>() + start);
      }
    });
  });
}

void grid_weights_grad_grid(const Tensor& grad, const Tensor& grid, const Dims& size,
                            std::string_view mode, std::string_view padding_mode,
                            bool align_corners, Tensor& y) {
  const Naming naming(size, mode, padding_mode, align_corners);
  const DType dtype = compute_dtype(grid.dtype());
  const Tensor numbers = converted(grid, dtype), slopes = converted(grad, dtype);
  Tensor out = workspace(y, dtype);
  const int64_t places = grid.size(1);
  visit_sizes(dtype, shapes::grid_position_dtype(size), [&]<class T, class I>() {
    each_block(grid.size(0), places, naming, [&](int64_t b, int64_t first, int64_t count) {
      AxisTaps<T, I> all[kMostDims];
      const int64_t start = (b * places + first) * naming.dims;
      naming.find(numbers.elements<T>() + start, count, all);
      for (int d = 0; d < naming.dims; ++d) {
        T sums[kBlock] = {};
        for (int64_t k = 0; k < naming.taps; ++k)
          add_slope(naming, all, k, d, count,
                    slopes.elements<T>() + (b * naming.taps + k) * places + first, sums);
        T* to = out.elements<T>() + start + (naming.dims - 1 - d);
        for (int64_t i = 0; i < count; ++i) to[i * naming.dims] = sums[i];
      }
    });
  });
  write_back(y, out);
}

}  // namespace moonlet::cpu

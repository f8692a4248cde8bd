// tensor/cpu/image_grid_simd.cpp: the neighbours of blocks of places in images, without branches:
// the compiler makes vectors of these loops, one version per instruction set, chosen when the
// program runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/image_grid_simd.cpp"
//
#include "tensor/cpu/pointwise_targets.h"
//
#include "hwy/foreach_target.h"
//
#include <cmath>

#include "hwy/highway.h"
#include "tensor/cpu/image_grid.h"

HWY_BEFORE_NAMESPACE();
namespace moonlet::cpu {
namespace HWY_NAMESPACE {

// A place from 0 to size - 1 and its derivative by the grid's number.
template <class T>
struct Point {
  T place, slope;
};

// A grid's number from -1 to 1; NaN counts as -1. Beyond a border of zeros all places are one. The
// choices are those that compilers know as the larger and the smaller of two numbers.
template <GridBorder kBorder, class T>
Point<T> unnormalized(const GridAxis& axis, T given) {
  constexpr T kFar = 9;
  const auto size = static_cast<T>(axis.size);
  const T scale = (axis.align_corners ? size - 1 : size) * T(0.5);
  const T shift = axis.align_corners ? T(0) : T(0.5), end = size + kFar, raised = given + T(1);
  const T above = raised > 0 ? raised : T(0), below = raised < 0 ? raised : T(0);
  const T place = (above + below) * scale - shift;
  const T known = given == given ? scale : T(0);
  if constexpr (kBorder != GridBorder::Zeros) return {place, known};
  const T least = place > -kFar ? place : -kFar, limited = least < end ? least : end;
  return {limited, limited == place ? known : T(0)};
}

// Limited to the axis, beyond which a place has no gradient; NaN, an infinite place reflected, is
// at its beginning.
template <class T>
Point<T> limited(const GridAxis& axis, Point<T> p) {
  const auto last = static_cast<T>(axis.size - 1);
  const bool inside = (p.place > 0) & (p.place < last);
  const T end = p.place >= last ? last : T(0);
  return {inside ? p.place : end, inside ? p.slope : T(0)};
}

// A place outside mirrored into the axis: at the centres of its last elements or at its edges.
template <class T>
Point<T> reflected(const GridAxis& axis, Point<T> p) {
  const T low = axis.align_corners ? T(0) : T(-0.5);
  const auto span = static_cast<T>(axis.align_corners ? axis.size - 1 : axis.size);
  if (span == 0) return {T(0), T(0)};
  const T offset = p.place - low, distance = std::abs(offset), flips = std::floor(distance / span);
  const T extra = distance - flips * span, rest = span - extra;
  const bool odd = flips != 2 * std::floor(flips * T(0.5));
  const T forth = offset > 0 ? p.slope : T(0), back = offset < 0 ? p.slope : T(0);
  const T slope = forth - back, place = (odd ? rest : extra) + low, turned = -slope;
  return {place, odd ? turned : slope};
}

template <GridBorder kBorder, class T>
Point<T> bordered(const GridAxis& axis, Point<T> p) {
  if constexpr (kBorder == GridBorder::Zeros) return p;
  if constexpr (kBorder == GridBorder::Edge) return limited(axis, p);
  return limited(axis, reflected(axis, p));
}

// The offset of a whole place.
template <class I>
I offset_of(const GridAxis& axis, I number) {
  const auto size = static_cast<I>(axis.size), stride = static_cast<I>(axis.stride);
  const bool inside = (number >= 0) & (number < size);
  // Outside the product may have no meaning, and must not overflow.
  return (inside ? number : I(0)) * stride - (inside ? I(0) : I(1));
}

// The largest whole number that is not above `place`, whose size is that of a place.
template <class T, class I>
I floor_of(T place) {
  const auto whole = static_cast<I>(place);
  return whole - (static_cast<T>(whole) > place ? 1 : 0);
}

template <GridBorder kBorder, class T, class I>
void linear_taps(const GridAxis& axis, const T* grid, int64_t count, GridTaps<T, I>& to) {
  for (int64_t i = 0; i < count; ++i) {
    const Point<T> p = bordered<kBorder>(axis, unnormalized<kBorder>(axis, grid[i]));
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

template <GridBorder kBorder, class T, class I>
void nearest_taps(const GridAxis& axis, const T* grid, int64_t count, GridTaps<T, I>& to) {
  for (int64_t i = 0; i < count; ++i) {
    const Point<T> p = bordered<kBorder>(axis, unnormalized<kBorder>(axis, grid[i]));
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

template <GridBorder kBorder, class T, class I>
void cubic_taps(const GridAxis& axis, const T* grid, int64_t count, GridTaps<T, I>& to) {
  for (int64_t i = 0; i < count; ++i) {
    const Point<T> p = unnormalized<kBorder>(axis, grid[i]);
    const T below = std::floor(p.place), part = p.place - below;
    const Point<T> taps[] = {cubic_far(part + T(1)), cubic_near(part), cubic_near(T(1) - part),
                             cubic_far(T(2) - part)};
    for (int k = 0; k < 4; ++k) {
      to.weight[k][i] = taps[k].place;
      to.slope[k][i] = (k < 2 ? p.slope : -p.slope) * taps[k].slope;
      // Each neighbour is brought into the image for itself.
      const T whole = bordered<kBorder>(axis, Point<T>{below + static_cast<T>(k - 1), T(0)}).place;
      to.offset[k][i] = offset_of(axis, static_cast<I>(std::nearbyint(whole)));
    }
  }
}

template <GridBorder kBorder, class T, class I>
void taps_along(GridMode mode, const GridAxis& axis, const T* numbers, int64_t count,
                GridTaps<T, I>& to) {
  if (mode == GridMode::Linear)
    linear_taps<kBorder>(axis, numbers, count, to);
  else if (mode == GridMode::Nearest)
    nearest_taps<kBorder>(axis, numbers, count, to);
  else
    cubic_taps<kBorder>(axis, numbers, count, to);
}

template <class T, class I>
void find_taps(const GridNaming& naming, const T* grid, int64_t count, GridTaps<T, I>* to) {
  T numbers[kGridBlock];
  for (int d = 0; d < naming.dims; ++d) {
    const GridAxis& axis = naming.axes[d];
    const T* from = grid + (naming.dims - 1 - d);
    for (int64_t i = 0; i < count; ++i) numbers[i] = from[i * naming.dims];
    if (axis.border == GridBorder::Zeros)
      taps_along<GridBorder::Zeros>(naming.mode, axis, numbers, count, to[d]);
    else if (axis.border == GridBorder::Edge)
      taps_along<GridBorder::Edge>(naming.mode, axis, numbers, count, to[d]);
    else
      taps_along<GridBorder::Reflection>(naming.mode, axis, numbers, count, to[d]);
  }
}

// Positions (from 1; the one behind the image stands for what is outside) and weights of neighbour
// k of a block of places.
template <class T, class I>
void write_tap(const GridNaming& naming, const GridTaps<T, I>* all, int64_t k, int64_t count, I* at,
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
void add_slope(const GridNaming& naming, const GridTaps<T, I>* all, int64_t k, int d, int64_t count,
               const T* slope, T* sums) {
  T product[kGridBlock];
  for (int64_t i = 0; i < count; ++i) product[i] = slope[i];
  for (int e = 0; e < naming.dims; ++e) {
    const int j = naming.digit(k, e);
    const T* factor = e == d ? all[e].slope[j] : all[e].weight[j];
    for (int64_t i = 0; i < count; ++i) product[i] *= factor[i];
  }
  for (int64_t i = 0; i < count; ++i) sums[i] += product[i];
}

void FindF32I32(const GridNaming& naming, const float* grid, int64_t count,
                GridTaps<float, int32_t>* to) {
  find_taps(naming, grid, count, to);
}
void WriteF32I32(const GridNaming& naming, const GridTaps<float, int32_t>* all, int64_t k,
                 int64_t count, int32_t* at, float* weight) {
  write_tap(naming, all, k, count, at, weight);
}
void SlopeF32I32(const GridNaming& naming, const GridTaps<float, int32_t>* all, int64_t k, int d,
                 int64_t count, const float* slope, float* sums) {
  add_slope(naming, all, k, d, count, slope, sums);
}
void FindF32I64(const GridNaming& naming, const float* grid, int64_t count,
                GridTaps<float, int64_t>* to) {
  find_taps(naming, grid, count, to);
}
void WriteF32I64(const GridNaming& naming, const GridTaps<float, int64_t>* all, int64_t k,
                 int64_t count, int64_t* at, float* weight) {
  write_tap(naming, all, k, count, at, weight);
}
void SlopeF32I64(const GridNaming& naming, const GridTaps<float, int64_t>* all, int64_t k, int d,
                 int64_t count, const float* slope, float* sums) {
  add_slope(naming, all, k, d, count, slope, sums);
}
void FindF64I32(const GridNaming& naming, const double* grid, int64_t count,
                GridTaps<double, int32_t>* to) {
  find_taps(naming, grid, count, to);
}
void WriteF64I32(const GridNaming& naming, const GridTaps<double, int32_t>* all, int64_t k,
                 int64_t count, int32_t* at, double* weight) {
  write_tap(naming, all, k, count, at, weight);
}
void SlopeF64I32(const GridNaming& naming, const GridTaps<double, int32_t>* all, int64_t k, int d,
                 int64_t count, const double* slope, double* sums) {
  add_slope(naming, all, k, d, count, slope, sums);
}
void FindF64I64(const GridNaming& naming, const double* grid, int64_t count,
                GridTaps<double, int64_t>* to) {
  find_taps(naming, grid, count, to);
}
void WriteF64I64(const GridNaming& naming, const GridTaps<double, int64_t>* all, int64_t k,
                 int64_t count, int64_t* at, double* weight) {
  write_tap(naming, all, k, count, at, weight);
}
void SlopeF64I64(const GridNaming& naming, const GridTaps<double, int64_t>* all, int64_t k, int d,
                 int64_t count, const double* slope, double* sums) {
  add_slope(naming, all, k, d, count, slope, sums);
}

}  // namespace HWY_NAMESPACE
}  // namespace moonlet::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moonlet::cpu {

HWY_EXPORT(FindF32I32);
HWY_EXPORT(WriteF32I32);
HWY_EXPORT(SlopeF32I32);
template <>
void find_grid_taps(const GridNaming& naming, const float* grid, int64_t count,
                    GridTaps<float, int32_t>* to) {
  HWY_DYNAMIC_DISPATCH(FindF32I32)(naming, grid, count, to);
}
template <>
void write_grid_tap(const GridNaming& naming, const GridTaps<float, int32_t>* all, int64_t k,
                    int64_t count, int32_t* at, float* weight) {
  HWY_DYNAMIC_DISPATCH(WriteF32I32)(naming, all, k, count, at, weight);
}
template <>
void add_grid_slope(const GridNaming& naming, const GridTaps<float, int32_t>* all, int64_t k, int d,
                    int64_t count, const float* slope, float* sums) {
  HWY_DYNAMIC_DISPATCH(SlopeF32I32)(naming, all, k, d, count, slope, sums);
}
HWY_EXPORT(FindF32I64);
HWY_EXPORT(WriteF32I64);
HWY_EXPORT(SlopeF32I64);
template <>
void find_grid_taps(const GridNaming& naming, const float* grid, int64_t count,
                    GridTaps<float, int64_t>* to) {
  HWY_DYNAMIC_DISPATCH(FindF32I64)(naming, grid, count, to);
}
template <>
void write_grid_tap(const GridNaming& naming, const GridTaps<float, int64_t>* all, int64_t k,
                    int64_t count, int64_t* at, float* weight) {
  HWY_DYNAMIC_DISPATCH(WriteF32I64)(naming, all, k, count, at, weight);
}
template <>
void add_grid_slope(const GridNaming& naming, const GridTaps<float, int64_t>* all, int64_t k, int d,
                    int64_t count, const float* slope, float* sums) {
  HWY_DYNAMIC_DISPATCH(SlopeF32I64)(naming, all, k, d, count, slope, sums);
}
HWY_EXPORT(FindF64I32);
HWY_EXPORT(WriteF64I32);
HWY_EXPORT(SlopeF64I32);
template <>
void find_grid_taps(const GridNaming& naming, const double* grid, int64_t count,
                    GridTaps<double, int32_t>* to) {
  HWY_DYNAMIC_DISPATCH(FindF64I32)(naming, grid, count, to);
}
template <>
void write_grid_tap(const GridNaming& naming, const GridTaps<double, int32_t>* all, int64_t k,
                    int64_t count, int32_t* at, double* weight) {
  HWY_DYNAMIC_DISPATCH(WriteF64I32)(naming, all, k, count, at, weight);
}
template <>
void add_grid_slope(const GridNaming& naming, const GridTaps<double, int32_t>* all, int64_t k,
                    int d, int64_t count, const double* slope, double* sums) {
  HWY_DYNAMIC_DISPATCH(SlopeF64I32)(naming, all, k, d, count, slope, sums);
}
HWY_EXPORT(FindF64I64);
HWY_EXPORT(WriteF64I64);
HWY_EXPORT(SlopeF64I64);
template <>
void find_grid_taps(const GridNaming& naming, const double* grid, int64_t count,
                    GridTaps<double, int64_t>* to) {
  HWY_DYNAMIC_DISPATCH(FindF64I64)(naming, grid, count, to);
}
template <>
void write_grid_tap(const GridNaming& naming, const GridTaps<double, int64_t>* all, int64_t k,
                    int64_t count, int64_t* at, double* weight) {
  HWY_DYNAMIC_DISPATCH(WriteF64I64)(naming, all, k, count, at, weight);
}
template <>
void add_grid_slope(const GridNaming& naming, const GridTaps<double, int64_t>* all, int64_t k,
                    int d, int64_t count, const double* slope, double* sums) {
  HWY_DYNAMIC_DISPATCH(SlopeF64I64)(naming, all, k, d, count, slope, sums);
}

}  // namespace moonlet::cpu
#endif

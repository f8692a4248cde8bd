// tensor/cpu/image/image_grid_simd.cpp: the neighbours of blocks of positions in images by whole
// vectors, one version per instruction set, chosen when the program runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/image/image_grid_simd.cpp"
//
#include "tensor/cpu/pointwise/pointwise_targets.h"
//
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "tensor/cpu/image/image_grid.h"

HWY_BEFORE_NAMESPACE();
namespace moonlet::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Positions from 0 to size - 1 and their derivatives by the grid's numbers.
template <class V>
struct Point {
  V position, gradient;
};

// An axis as numbers of vectors of D.
template <class D>
struct Axis {
  using T = hn::TFromD<D>;
  using V = hn::Vec<D>;
  using I = hn::TFromD<hn::RebindToSigned<D>>;
  Axis(D tag, const GridAxis& axis)
      : d(tag),
        count(static_cast<I>(axis.size)),
        size(static_cast<T>(axis.size)),
        is_aligned(axis.align_corners) {}
  V scale() const { return hn::Set(d, (is_aligned ? size - 1 : size) * T(0.5)); }
  V shift() const { return hn::Set(d, is_aligned ? T(0) : T(0.5)); }
  V last() const { return hn::Set(d, size - 1); }
  D d;
  I count;
  T size;
  bool is_aligned;
};

// Grid numbers from -1 to 1; NaN counts as -1. Beyond a border of zeros all positions are one.
template <GridBorder kBorder, class D, class V = hn::Vec<D>>
HWY_INLINE Point<V> unnormalized(const Axis<D>& axis, V given) {
  using T = hn::TFromD<D>;
  constexpr T kFar = 9;
  const D d = axis.d;
  const auto is_number = hn::Not(hn::IsNaN(given));
  const V raised = hn::IfThenElseZero(is_number, hn::Add(given, hn::Set(d, T(1))));
  const V position = hn::MulSub(raised, axis.scale(), axis.shift());
  const V known = hn::IfThenElseZero(is_number, axis.scale());
  if constexpr (kBorder != GridBorder::Zeros) return {position, known};
  const V low = hn::Set(d, -kFar), end = hn::Set(d, axis.size + kFar);
  const V least = hn::IfThenElse(hn::Gt(position, low), position, low);
  const V limited = hn::IfThenElse(hn::Lt(least, end), least, end);
  return {limited, hn::IfThenElseZero(hn::Eq(limited, position), known)};
}

// Limited to the axis, beyond which a position has no gradient; NaN, an infinite position
// reflected, is at its beginning.
template <class D, class V>
HWY_INLINE Point<V> limited(const Axis<D>& axis, Point<V> p) {
  const V last = axis.last();
  const auto inside = hn::And(hn::Gt(p.position, hn::Zero(axis.d)), hn::Lt(p.position, last));
  const V end = hn::IfThenElseZero(hn::Ge(p.position, last), last);
  return {hn::IfThenElse(inside, p.position, end), hn::IfThenElseZero(inside, p.gradient)};
}

// Positions outside mirrored into the axis: at the centres of its last elements or at its edges.
template <class D, class V>
HWY_INLINE Point<V> reflected(const Axis<D>& axis, Point<V> p) {
  using T = hn::TFromD<D>;
  const D d = axis.d;
  const V zero = hn::Zero(d), low = hn::Set(d, axis.is_aligned ? T(0) : T(-0.5));
  const T length = axis.is_aligned ? axis.size - 1 : axis.size;
  if (length == 0) return {zero, zero};
  const V span = hn::Set(d, length), offset = hn::Sub(p.position, low), distance = hn::Abs(offset);
  const V flips = hn::Floor(hn::Div(distance, span));
  const V extra = hn::NegMulAdd(flips, span, distance), rest = hn::Sub(span, extra);
  const V even = hn::Mul(hn::Set(d, T(2)), hn::Floor(hn::Mul(flips, hn::Set(d, T(0.5)))));
  const auto odd = hn::Not(hn::Eq(flips, even));
  const V forth = hn::IfThenElseZero(hn::Gt(offset, zero), p.gradient);
  const V gradient = hn::Sub(forth, hn::IfThenElseZero(hn::Lt(offset, zero), p.gradient));
  return {hn::Add(hn::IfThenElse(odd, rest, extra), low),
          hn::IfThenElse(odd, hn::Neg(gradient), gradient)};
}

template <GridBorder kBorder, class D, class V>
HWY_INLINE Point<V> bordered(const Axis<D>& axis, Point<V> p) {
  if constexpr (kBorder == GridBorder::Zeros) return p;
  if constexpr (kBorder == GridBorder::Edge) return limited(axis, p);
  return limited(axis, reflected(axis, p));
}

// Stores whole positions as they count on the axis, -1 outside. They are compared as integers: a
// float may not have the size of a long axis.
template <class D, class V, class I>
HWY_INLINE void store_positions(const Axis<D>& axis, V whole, I* to) {
  const hn::RebindToSigned<D> di;
  const auto position = hn::ConvertTo(di, whole), none = hn::Set(di, I(-1));
  const auto inside = hn::And(hn::Gt(position, none), hn::Lt(position, hn::Set(di, axis.count)));
  hn::StoreU(hn::IfThenElse(inside, position, none), di, to);
}

// Stores a neighbour's weights and their derivatives.
template <class D, class V, class T>
HWY_INLINE void store_weights(D d, V weight, V gradient, int k, int64_t i, GridTaps<T>& to) {
  hn::StoreU(weight, d, to.weight[k] + i);
  hn::StoreU(gradient, d, to.gradient[k] + i);
}

template <GridBorder kBorder>
struct LinearTaps {
  template <class D, class V, class T>
  HWY_INLINE void operator()(const Axis<D>& axis, V given, int64_t i, GridTaps<T>& to) const {
    const Point<V> p = bordered<kBorder>(axis, unnormalized<kBorder>(axis, given));
    const V one = hn::Set(axis.d, T(1)), below = hn::Floor(p.position),
            part = hn::Sub(p.position, below);
    store_weights(axis.d, hn::Sub(one, part), hn::Neg(p.gradient), 0, i, to);
    store_weights(axis.d, part, p.gradient, 1, i, to);
    store_positions(axis, below, to.position[0] + i);
    store_positions(axis, hn::Add(below, one), to.position[1] + i);
  }
};

template <GridBorder kBorder>
struct NearestTaps {
  template <class D, class V, class T>
  HWY_INLINE void operator()(const Axis<D>& axis, V given, int64_t i, GridTaps<T>& to) const {
    const Point<V> p = bordered<kBorder>(axis, unnormalized<kBorder>(axis, given));
    store_weights(axis.d, hn::Set(axis.d, T(1)), hn::Zero(axis.d), 0, i, to);
    store_positions(axis, hn::Round(p.position), to.position[0] + i);
  }
};

// (((a * x + b) * x + c) * x + e)
template <class D, class V = hn::Vec<D>>
HWY_INLINE V polynomial(D d, V x, double a, double b, double c, double e) {
  using T = hn::TFromD<D>;
  V out = hn::MulAdd(hn::Set(d, T(a)), x, hn::Set(d, T(b)));
  out = hn::MulAdd(out, x, hn::Set(d, T(c)));
  return hn::MulAdd(out, x, hn::Set(d, T(e)));
}

// Keys's cubic (1981) with the parameter -3/4, of distances up to 1 and from 1 to 2, and its
// derivatives.
template <class D, class V>
HWY_INLINE Point<V> cubic_near(D d, V x) {
  return {polynomial(d, x, 1.25, -2.25, 0.0, 1.0), polynomial(d, x, 0.0, 3.75, -4.5, 0.0)};
}
template <class D, class V>
HWY_INLINE Point<V> cubic_far(D d, V x) {
  return {polynomial(d, x, -0.75, 3.75, -6.0, 3.0), polynomial(d, x, 0.0, -2.25, 7.5, -6.0)};
}

template <GridBorder kBorder>
struct CubicTaps {
  template <class D, class V, class T>
  HWY_INLINE void operator()(const Axis<D>& axis, V given, int64_t i, GridTaps<T>& to) const {
    const D d = axis.d;
    const Point<V> p = unnormalized<kBorder>(axis, given);
    const V one = hn::Set(d, T(1)), below = hn::Floor(p.position),
            part = hn::Sub(p.position, below);
    const Point<V> taps[] = {cubic_far(d, hn::Add(part, one)), cubic_near(d, part),
                             cubic_near(d, hn::Sub(one, part)),
                             cubic_far(d, hn::Sub(hn::Set(d, T(2)), part))};
    for (int k = 0; k < 4; ++k) {
      const V gradient = k < 2 ? p.gradient : hn::Neg(p.gradient);
      store_weights(d, taps[k].position, hn::Mul(gradient, taps[k].gradient), k, i, to);
      // Each neighbour is brought into the image for itself.
      const V whole = hn::Add(below, hn::Set(d, static_cast<T>(k - 1)));
      const Point<V> there = bordered<kBorder>(axis, Point<V>{whole, hn::Zero(d)});
      store_positions(axis, hn::Round(there.position), to.position[k] + i);
    }
  }
};

// The neighbours along an axis of a block of `numbers`, by vectors to the end of the last one.
template <class Taps, class T>
void taps_along(const Taps& taps, const GridAxis& given, const T* numbers, int64_t count,
                GridTaps<T>& to) {
  const hn::ScalableTag<T> d;
  const Axis<hn::ScalableTag<T>> axis(d, given);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < count; i += lanes) taps(axis, hn::LoadU(d, numbers + i), i, to);
}

template <GridBorder kBorder, class T>
void bordered_taps(GridMode mode, const GridAxis& axis, const T* numbers, int64_t count,
                   GridTaps<T>& to) {
  if (mode == GridMode::Linear)
    taps_along(LinearTaps<kBorder>(), axis, numbers, count, to);
  else if (mode == GridMode::Nearest)
    taps_along(NearestTaps<kBorder>(), axis, numbers, count, to);
  else
    taps_along(CubicTaps<kBorder>(), axis, numbers, count, to);
}

// The numbers that a grid has for axis d of a block of positions.
template <class T>
void numbers_of(const GridNaming& naming, const T* grid, int d, int64_t count, T* to) {
  const int at = naming.dims - 1 - d;
  int64_t i = 0;
  if (naming.dims == 2) {
    const hn::ScalableTag<T> tag;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(tag));
    for (; i + lanes <= count; i += lanes) {
      hn::Vec<decltype(tag)> first, second;
      hn::LoadInterleaved2(tag, grid + 2 * i, first, second);
      hn::StoreU(at == 0 ? first : second, tag, to + i);
    }
  }
  for (; i < count; ++i) to[i] = grid[i * naming.dims + at];
}

template <class T>
void find_taps(const GridNaming& naming, const T* grid, int64_t count, GridTaps<T>* to) {
  T numbers[kGridBlock] = {};
  for (int d = 0; d < naming.dims; ++d) {
    const GridAxis& axis = naming.axes[d];
    numbers_of(naming, grid, d, count, numbers);
    if (axis.border == GridBorder::Zeros)
      bordered_taps<GridBorder::Zeros>(naming.mode, axis, numbers, count, to[d]);
    else if (axis.border == GridBorder::Edge)
      bordered_taps<GridBorder::Edge>(naming.mode, axis, numbers, count, to[d]);
    else
      bordered_taps<GridBorder::Reflection>(naming.mode, axis, numbers, count, to[d]);
  }
}

// Positions (from 1; the one behind the image stands for what is outside) and weights of neighbour
// k of a block of positions.
template <class T, class I>
void write_tap(const GridNaming& naming, const GridTaps<T>* all, int64_t k, int64_t count,
               I* HWY_RESTRICT at, T* HWY_RESTRICT weight) {
  const auto nothing = static_cast<I>(naming.whole);
  for (int d = 0; d < naming.dims; ++d) {
    const int j = naming.digit(k, d);
    const T* HWY_RESTRICT w = all[d].weight[j];
    const auto* HWY_RESTRICT position = all[d].position[j];
    const auto stride = static_cast<I>(naming.axes[d].stride);
    if (d == 0) {
      for (int64_t i = 0; i < count; ++i) weight[i] = w[i];
      for (int64_t i = 0; i < count; ++i)
        at[i] = static_cast<I>(position[i]) * (position[i] < 0 ? I(1) : stride);
      continue;
    }
    for (int64_t i = 0; i < count; ++i) weight[i] *= w[i];
    for (int64_t i = 0; i < count; ++i) {
      const I more = static_cast<I>(position[i]);
      at[i] = (at[i] | more) < 0 ? I(-1) : at[i] + more * stride;
    }
  }
  for (int64_t i = 0; i < count; ++i) at[i] = (at[i] < 0 ? nothing : at[i]) + 1;
}

// Adds the derivative of neighbour k's weight along axis d, times `gradient`, to `sums`.
template <class T>
void add_gradient(const GridNaming& naming, const GridTaps<T>* all, int64_t k, int d, int64_t count,
                  const T* gradient, T* sums) {
  T product[kGridBlock];
  for (int64_t i = 0; i < count; ++i) product[i] = gradient[i];
  for (int e = 0; e < naming.dims; ++e) {
    const int j = naming.digit(k, e);
    const T* factor = e == d ? all[e].gradient[j] : all[e].weight[j];
    for (int64_t i = 0; i < count; ++i) product[i] *= factor[i];
  }
  for (int64_t i = 0; i < count; ++i) sums[i] += product[i];
}

#define MOONLET_GRID(T, suffix)                                                                \
  void Find##suffix(const GridNaming& naming, const T* grid, int64_t count, GridTaps<T>* to) { \
    find_taps(naming, grid, count, to);                                                        \
  }                                                                                            \
  void Gradient##suffix(const GridNaming& naming, const GridTaps<T>* all, int64_t k, int d,    \
                        int64_t count, const T* gradient, T* sums) {                           \
    add_gradient(naming, all, k, d, count, gradient, sums);                                    \
  }
#define MOONLET_GRID_POSITIONS(T, I, suffix)                                                     \
  void Write##suffix(const GridNaming& naming, const GridTaps<T>* all, int64_t k, int64_t count, \
                     I* at, T* weight) {                                                         \
    write_tap(naming, all, k, count, at, weight);                                                \
  }
MOONLET_GRID(float, F32)
MOONLET_GRID(double, F64)
MOONLET_GRID_POSITIONS(float, int32_t, F32I32)
MOONLET_GRID_POSITIONS(double, int32_t, F64I32)
MOONLET_GRID_POSITIONS(double, int64_t, F64I64)

}  // namespace HWY_NAMESPACE
}  // namespace moonlet::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moonlet::cpu {

#define MOONLET_GRID_TABLE(T, suffix)                                                            \
  HWY_EXPORT(Find##suffix);                                                                      \
  HWY_EXPORT(Gradient##suffix);                                                                  \
  template <>                                                                                    \
  void find_grid_taps(const GridNaming& naming, const T* grid, int64_t count, GridTaps<T>* to) { \
    HWY_DYNAMIC_DISPATCH(Find##suffix)(naming, grid, count, to);                                 \
  }                                                                                              \
  template <>                                                                                    \
  void add_grid_gradient(const GridNaming& naming, const GridTaps<T>* all, int64_t k, int d,     \
                         int64_t count, const T* gradient, T* sums) {                            \
    HWY_DYNAMIC_DISPATCH(Gradient##suffix)(naming, all, k, d, count, gradient, sums);            \
  }
#define MOONLET_GRID_POSITIONS_TABLE(T, I, suffix)                                                \
  HWY_EXPORT(Write##suffix);                                                                      \
  template <>                                                                                     \
  void write_grid_tap(const GridNaming& naming, const GridTaps<T>* all, int64_t k, int64_t count, \
                      I* at, T* weight) {                                                         \
    HWY_DYNAMIC_DISPATCH(Write##suffix)(naming, all, k, count, at, weight);                       \
  }
MOONLET_GRID_TABLE(float, F32)
MOONLET_GRID_TABLE(double, F64)
MOONLET_GRID_POSITIONS_TABLE(float, int32_t, F32I32)
MOONLET_GRID_POSITIONS_TABLE(double, int32_t, F64I32)
MOONLET_GRID_POSITIONS_TABLE(double, int64_t, F64I64)

}  // namespace moonlet::cpu
#endif

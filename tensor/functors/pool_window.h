// tensor/functors/pool_window.h: which part of a plane (h, w) an output of a pooling op is made of,
// shared by all devices.
#pragma once

#include <algorithm>

#include "tensor/core/dims.h"
#include "tensor/core/half.h"  // MOONLET_HD

namespace moonlet {

// The geometry of one axis, in numbers of type I.
template <class I>
struct PoolAxisOf {
  I size, out, kernel, stride, pad, dilation;
};
template <class I>
struct PoolWindowOf {
  PoolAxisOf<I> y, x;
  bool adaptive = false;      // windows that divide the plane as evenly as they can, not all alike
  bool count_padding = true;  // an average divides by what it holds of the padding, too
  int64_t divisor = 0;        // what an average divides by, unless 0
};
using PoolAxis = PoolAxisOf<int64_t>;
using PoolWindow = PoolWindowOf<int64_t>;

inline PoolWindow pool_window(const Dims& in, const Dims& out, const Dims& kernel,
                              const Dims& stride_given, const Dims& padding, const Dims& dilation) {
  const Dims& stride = stride_given.empty() ? kernel : stride_given;
  const auto axis = [&](int i) {
    return PoolAxis{in[in.size() - 2 + i],
                    out[out.size() - 2 + i],
                    kernel[i],
                    stride[std::min(i, stride.size() - 1)],
                    padding[i],
                    dilation[i]};
  };
  return {axis(0), axis(1)};
}
inline PoolWindow adaptive_window(const Dims& in, const Dims& out) {
  PoolWindow w = pool_window(in, out, {1, 1}, {}, {0, 0}, {1, 1});
  const auto divides = [](const PoolAxis& a) {
    return a.out > 0 && a.size > 0 && a.size % a.out == 0;
  };
  w.adaptive = !divides(w.y) || !divides(w.x);
  if (w.adaptive) return w;
  for (PoolAxis* axis : {&w.y, &w.x}) axis->kernel = axis->stride = axis->size / axis->out;
  return w;
}

// The positions [begin, end) of an axis that one window holds, and how many it has with the
// padding.
template <class I>
struct PoolSpanOf {
  I begin, end, padded;
};
using PoolSpan = PoolSpanOf<int64_t>;

// The window of output `at` where the windows divide the axis.
template <class I>
MOONLET_HD PoolSpanOf<I> adaptive_span(const PoolAxisOf<I>& a, I at) {
  const I begin = at * a.size / a.out, end = ((at + 1) * a.size + a.out - 1) / a.out;
  return {begin, end, end - begin};
}

// The window of output `at` of an average.
template <class I>
MOONLET_HD PoolSpanOf<I> average_span(const PoolWindowOf<I>& w, const PoolAxisOf<I>& a, I at) {
  if (w.adaptive) return adaptive_span(a, at);
  const I begin = at * a.stride - a.pad, last = begin + a.kernel;
  const I end = last < a.size + a.pad ? last : a.size + a.pad;
  return {begin > 0 ? begin : 0, end < a.size ? end : a.size, end - begin};
}

// How many elements a window holds at most.
inline int64_t taps_of(const PoolWindow& w) {
  const auto most = [&](const PoolAxis& a) { return w.adaptive ? a.size / a.out + 2 : a.kernel; };
  return most(w.y) * most(w.x);
}

// Whether two spans hold nothing of the plane, and by how much the average over them divides.
template <class I>
MOONLET_HD bool is_empty(const PoolSpanOf<I>& y, const PoolSpanOf<I>& x) {
  return y.end <= y.begin || x.end <= x.begin;
}
template <class I>
MOONLET_HD int64_t average_count(const PoolWindowOf<I>& w, const PoolSpanOf<I>& y,
                                 const PoolSpanOf<I>& x) {
  if (w.divisor != 0) return w.divisor;
  if (w.count_padding) return y.padded * x.padded;
  return is_empty(y, x) ? 0 : (y.end - y.begin) * (x.end - x.begin);
}

// The window of output `at` of a maximum: every `dilation`-th position from `begin`, which is the
// first inside the axis.
template <class I>
MOONLET_HD PoolSpanOf<I> maximum_span(const PoolWindowOf<I>& w, const PoolAxisOf<I>& a, I at) {
  if (w.adaptive) return adaptive_span(a, at);
  const I start = at * a.stride - a.pad, last = start + (a.kernel - 1) * a.dilation + 1;
  const I begin = start >= 0 ? start : start + (-start + a.dilation - 1) / a.dilation * a.dilation;
  return {begin, last < a.size ? last : a.size, a.kernel};
}

}  // namespace moonlet

// tensor/cpu/pool/pool_channels.cpp: pooling of images whose channels lie beside each other
// (channels_last): each output is made of whole runs of channels, which the compiler makes vectors
// of, one version per instruction set, chosen when the program runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/pool/pool_channels.cpp"
//
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/pointwise/pointwise_targets.h"
//
#include "hwy/foreach_target.h"
//
#include <algorithm>
#include <type_traits>

#include "hwy/highway.h"
#include "tensor/cpu/common/contiguous.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/pool/pool.h"
#include "tensor/functors/pool_window.h"
#include "tensor/shapes/index.h"
#include "tensor/shapes/window.h"

HWY_BEFORE_NAMESPACE();
namespace moonlet::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kRun = thresholds::pool::kChannelRun;

// Looks at the stop flag before a row of a window that is long.
inline void before_row(const PoolSpan& xs, int64_t count) {
  if ((xs.end - xs.begin) * count >= kGrain) stop_if_requested();
}

// A position in the plane, as wide as an element, so that one vector of each goes together.
template <class T>
using Position = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;

template <class T>
void max_window(const PoolWindow& w, const PoolSpan& ys, const PoolSpan& xs, const T* in,
                int64_t channels, int64_t count, T* HWY_RESTRICT values,
                int64_t* HWY_RESTRICT positions) {
  T best[kRun];
  Position<T> at[kRun];
  const int64_t first = ys.begin * w.x.size + xs.begin;
  std::copy_n(in + first * channels, count, best);
  std::fill_n(at, count, static_cast<Position<T>>(first + 1));
  for (int64_t y = ys.begin; y < ys.end; y += w.y.dilation) {
    before_row(xs, count);
    for (int64_t x = xs.begin; x < xs.end; x += w.x.dilation) {
      const T* HWY_RESTRICT v = in + (y * w.x.size + x) * channels;
      const auto position = static_cast<Position<T>>(y * w.x.size + x + 1);
      for (int64_t c = 0; c < count; ++c) {
        const bool larger = (v[c] > best[c]) | (v[c] != v[c]);
        best[c] = larger ? v[c] : best[c];
        at[c] = larger ? position : at[c];
      }
    }
  }
  std::copy_n(best, count, values);
  std::copy_n(at, count, positions);
}

template <class T>
void max_pixel(const PoolWindow& w, const PoolSpan& ys, const PoolSpan& xs, T nothing, const T* in,
               int64_t channels, T* values, int64_t* positions) {
  if (is_empty(ys, xs)) {
    const int64_t y = std::min(ys.begin, w.y.size - 1), x = std::min(xs.begin, w.x.size - 1);
    std::fill_n(values, channels, nothing);
    std::fill_n(positions, channels, y * w.x.size + x + 1);
    return;
  }
  for (int64_t c = 0; c < channels; c += kRun)
    max_window(w, ys, xs, in + c, channels, std::min(kRun, channels - c), values + c,
               positions + c);
}

// The means of the channels of kVectors vectors; the sums of the rows of a window are added up
// apart, so that rounding errors stay small.
template <size_t kVectors, class D, class T>
HWY_INLINE void mean_window(D d, const PoolWindow& w, const PoolSpan& ys, const PoolSpan& xs,
                            const T* in, int64_t channels, T divisor, T* HWY_RESTRICT means) {
  hn::Vec<D> total[kVectors], row[kVectors];
  for (auto& sum : total) sum = hn::Zero(d);
  for (int64_t y = ys.begin; y < ys.end; ++y) {
    before_row(xs, kVectors * static_cast<int64_t>(hn::Lanes(d)));
    for (auto& sum : row) sum = hn::Zero(d);
    const T* HWY_RESTRICT v = in + (y * w.x.size + xs.begin) * channels;
    for (int64_t x = xs.begin; x < xs.end; ++x, v += channels)
      for (size_t i = 0; i < kVectors; ++i)
        row[i] = hn::Add(row[i], hn::LoadU(d, v + i * hn::Lanes(d)));
    for (size_t i = 0; i < kVectors; ++i) total[i] = hn::Add(total[i], row[i]);
  }
  for (size_t i = 0; i < kVectors; ++i)
    hn::StoreU(hn::Div(total[i], hn::Set(d, divisor)), d, means + i * hn::Lanes(d));
}

template <class T>
void mean_pixel(const PoolWindow& w, const PoolSpan& ys, const PoolSpan& xs, const T* in,
                int64_t channels, T* means) {
  constexpr size_t kVectors = thresholds::pool::kMeanVectors;
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d)), run = lanes * int64_t{kVectors};
  const auto divisor = is_empty(ys, xs) ? T(1) : static_cast<T>(average_count(w, ys, xs));
  int64_t c = 0;
  for (; c + run <= channels; c += run)
    mean_window<kVectors>(d, w, ys, xs, in + c, channels, divisor, means + c);
  for (; c + lanes <= channels; c += lanes)
    mean_window<1>(d, w, ys, xs, in + c, channels, divisor, means + c);
  if (c < channels && channels >= lanes) {  // the last vector begins early
    c = channels - lanes;
    return mean_window<1>(d, w, ys, xs, in + c, channels, divisor, means + c);
  }
  for (; c < channels; ++c) mean_window<1>(one, w, ys, xs, in + c, channels, divisor, means + c);
}

// Adds the shares of one output's `count` channels to the elements of its window.
template <class T>
void spread_pixel(const PoolWindow& w, const PoolSpan& ys, const PoolSpan& xs, const T* grad,
                  int64_t channels, int64_t count, T* out) {
  T share[kRun];
  const auto divisor = static_cast<T>(average_count(w, ys, xs));
  for (int64_t c = 0; c < count; ++c) share[c] = grad[c] / divisor;
  for (int64_t y = ys.begin; y < ys.end; ++y) {
    before_row(xs, count);
    for (int64_t x = xs.begin; x < xs.end; ++x) {
      T* HWY_RESTRICT to = out + (y * w.x.size + x) * channels;
      for (int64_t c = 0; c < count; ++c) to[c] += share[c];
    }
  }
}

#define MOONLET_POOL_LOOPS(T, suffix)                                                              \
  void max_row_##suffix(const PoolWindow& w, int64_t oy, T nothing, const T* in, int64_t channels, \
                        T* values, int64_t* positions) {                                           \
    const PoolSpan ys = maximum_span(w, w.y, oy);                                                  \
    for (int64_t ox = 0; ox < w.x.out; ++ox, values += channels, positions += channels)            \
      max_pixel(w, ys, maximum_span(w, w.x, ox), nothing, in, channels, values, positions);        \
  }
MOONLET_POOL_LOOPS(float, f32)
MOONLET_POOL_LOOPS(double, f64)
MOONLET_POOL_LOOPS(int64_t, i64)
#undef MOONLET_POOL_LOOPS
#define MOONLET_POOL_LOOPS(T, suffix)                                                        \
  void mean_row_##suffix(const PoolWindow& w, int64_t oy, const T* in, int64_t channels,     \
                         T* means) {                                                         \
    const PoolSpan ys = average_span(w, w.y, oy);                                            \
    for (int64_t ox = 0; ox < w.x.out; ++ox, means += channels)                              \
      mean_pixel(w, ys, average_span(w, w.x, ox), in, channels, means);                      \
  }                                                                                          \
  void spread_row_##suffix(const PoolWindow& w, int64_t oy, const T* grad, int64_t channels, \
                           int64_t count, T* out) {                                          \
    const PoolSpan ys = average_span(w, w.y, oy);                                            \
    for (int64_t ox = 0; ox < w.x.out; ++ox, grad += channels) {                             \
      const PoolSpan xs = average_span(w, w.x, ox);                                          \
      if (!is_empty(ys, xs)) spread_pixel(w, ys, xs, grad, channels, count, out);            \
    }                                                                                        \
  }
MOONLET_POOL_LOOPS(float, f32)
MOONLET_POOL_LOOPS(double, f64)
#undef MOONLET_POOL_LOOPS

}  // namespace HWY_NAMESPACE
}  // namespace moonlet::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moonlet::cpu {
namespace {

HWY_EXPORT(max_row_f32);
HWY_EXPORT(max_row_f64);
HWY_EXPORT(max_row_i64);
HWY_EXPORT(mean_row_f32);
HWY_EXPORT(mean_row_f64);
HWY_EXPORT(spread_row_f32);
HWY_EXPORT(spread_row_f64);

template <class T>
auto max_row_loop() {
  if constexpr (std::is_same_v<T, float>)
    return HWY_DYNAMIC_DISPATCH(max_row_f32);
  else if constexpr (std::is_same_v<T, double>)
    return HWY_DYNAMIC_DISPATCH(max_row_f64);
  else
    return HWY_DYNAMIC_DISPATCH(max_row_i64);
}
template <class T>
auto mean_row_loop() {
  if constexpr (std::is_same_v<T, float>)
    return HWY_DYNAMIC_DISPATCH(mean_row_f32);
  else
    return HWY_DYNAMIC_DISPATCH(mean_row_f64);
}
template <class T>
auto spread_row_loop() {
  if constexpr (std::is_same_v<T, float>)
    return HWY_DYNAMIC_DISPATCH(spread_row_f32);
  else
    return HWY_DYNAMIC_DISPATCH(spread_row_f64);
}

constexpr int64_t kChannels = thresholds::pool::kThreadChannels;

int64_t plane(const Tensor& x) { return x.size(2) * x.size(3); }

// body(image, row) for the rows of all images, of which one costs so much.
template <class Body>
void each_row(const Tensor& images, int64_t work, Body&& body) {
  const int64_t rows = images.size(2);
  parallel_for(images.size(0) * rows, grain_for(work), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      stop_if_requested();
      body(i / rows, i % rows);
    }
  });
}

// body(image, first channel, channels) for parts of the images that share no element, of which one
// costs so much.
template <class Body>
void each_part(const Tensor& images, int64_t work, Body&& body) {
  const int64_t channels = images.size(1), parts = (channels + kChannels - 1) / kChannels;
  parallel_for(images.size(0) * parts, grain_for(work), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % parts * kChannels;
      body(i / parts, first, std::min(kChannels, channels - first));
    }
  });
}

// Zeroes `count` channels of the pixels of a plane.
template <class T>
void zero_channels(T* out, int64_t pixels, int64_t channels, int64_t count) {
  serial_for(pixels, count, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) std::fill_n(out + i * channels, count, T(0));
  });
}

}  // namespace

bool pools_channels(const Tensor& images) { return shapes::lies_channels_last(images); }

template <class T>
void max_channels(const Tensor& x, const PoolWindow& w, T nothing, Tensor& result,
                  Tensor& indices) {
  const Tensor source = channels_last(x, dtype_of<T>);
  Tensor values = channels_last_workspace(result, dtype_of<T>),
         positions = channels_last_workspace(indices, DType::Int64);
  const int64_t channels = x.size(1), row = w.x.out * channels;
  const auto loop = max_row_loop<T>();
  each_row(values, row * taps_of(w), [&](int64_t image, int64_t oy) {
    const int64_t at = image * plane(values) * channels + oy * row;
    loop(w, oy, nothing, source.elements<T>() + image * plane(x) * channels, channels,
         values.elements<T>() + at, positions.elements<int64_t>() + at);
  });
  write_back(result, values);
  write_back(indices, positions);
}
template void max_channels(const Tensor&, const PoolWindow&, float, Tensor&, Tensor&);
template void max_channels(const Tensor&, const PoolWindow&, double, Tensor&, Tensor&);
template void max_channels(const Tensor&, const PoolWindow&, int64_t, Tensor&, Tensor&);

void max_channels_grad(const Tensor& grad, const Tensor& indices, Tensor& result) {
  const DType dtype = compute_dtype(grad.dtype());
  const Tensor gradient = channels_last(grad, dtype),
               positions = channels_last(indices, DType::Int64);
  Tensor y = channels_last_workspace(result, dtype);
  const int64_t channels = y.size(1), pixels = plane(y), windows = plane(grad);
  visit_compute<dtypes::real>(dtype, [&]<class T>() {
    each_part(y, (pixels + windows) * kChannels, [&](int64_t image, int64_t first, int64_t count) {
      T* sums = y.elements<T>() + image * pixels * channels + first;
      zero_channels(sums, pixels, channels, count);
      const int64_t from = image * windows * channels + first;
      const T* add = gradient.elements<T>() + from;
      const int64_t* at = positions.elements<int64_t>() + from;
      serial_for(windows, count, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          for (int64_t c = 0; c < count; ++c) {
            const int64_t position = at[i * channels + c];
            if (position < 1 || position > pixels) [[unlikely]]
              shapes::fail_position("max_pool2d_grad_x", position, pixels);
            sums[(position - 1) * channels + c] += add[i * channels + c];
          }
      });
    });
  });
  write_back(result, y);
}

void mean_channels(const Tensor& x, const PoolWindow& w, Tensor& result) {
  const DType dtype = compute_dtype(x.dtype());
  const Tensor source = channels_last(x, dtype);
  Tensor y = channels_last_workspace(result, dtype);
  const int64_t channels = x.size(1), row = w.x.out * channels;
  visit_compute<dtypes::floating>(dtype, [&]<class T>() {
    const auto loop = mean_row_loop<T>();
    each_row(y, row * taps_of(w), [&](int64_t image, int64_t oy) {
      loop(w, oy, source.elements<T>() + image * plane(x) * channels, channels,
           y.elements<T>() + image * plane(y) * channels + oy * row);
    });
  });
  write_back(result, y);
}

void mean_channels_grad(const Tensor& grad, const PoolWindow& w, Tensor& result) {
  const DType dtype = compute_dtype(grad.dtype());
  const Tensor source = channels_last(grad, dtype);
  Tensor y = channels_last_workspace(result, dtype);
  const int64_t channels = y.size(1), pixels = plane(y);
  visit_compute<dtypes::floating>(dtype, [&]<class T>() {
    const auto loop = spread_row_loop<T>();
    each_part(y, 2 * pixels * kChannels, [&](int64_t image, int64_t first, int64_t count) {
      T* out = y.elements<T>() + image * pixels * channels + first;
      const T* from = source.elements<T>() + image * plane(grad) * channels + first;
      zero_channels(out, pixels, channels, count);
      for (int64_t oy = 0; oy < w.y.out; ++oy) {
        stop_if_requested();
        loop(w, oy, from + oy * w.x.out * channels, channels, count, out);
      }
    });
  });
  write_back(result, y);
}

}  // namespace moonlet::cpu
#endif

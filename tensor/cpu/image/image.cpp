// tensor/cpu/image/image.cpp: the CPU kernels of windows as columns and of resizing along one
// dimension.
#include <array>
#include <limits>
#include <vector>

#include "tensor/cpu/common/contiguous.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/image/image.h"
#include "tensor/functors/resample.h"
#include "tensor/kernels_image.h"
#include "tensor/shapes/window.h"

namespace moonlet::cpu {

namespace {

constexpr DTypeSet kSummed = dtypes::floating | dtypes::complex;

// Planes (h, w) and their windows; element (tap, window) of the columns lies at tap * windows +
// window.
struct Windows {
  int64_t height, width, kernel_y, kernel_x, out_height, out_width;
  int64_t stride_y, stride_x, pad_y, pad_x, dilation_y, dilation_x;
  int64_t taps() const { return kernel_y * kernel_x; }
  int64_t positions() const { return out_height * out_width; }

  // Calls body(first element of the row of the plane, output column, input column) for what tap
  // `tap` sees of the rows of windows, where it lies in the plane: `body` gets whole runs.
  template <class Body>
  void each_run(int64_t tap, Body&& body) const {
    const int64_t shift_y = tap / kernel_x * dilation_y - pad_y;
    const int64_t shift_x = tap % kernel_x * dilation_x - pad_x;
    // The windows of a row whose tap lies in it.
    const int64_t first = shift_x >= 0 ? 0 : (-shift_x + stride_x - 1) / stride_x;
    const int64_t last = shift_x >= width ? 0 : (width - 1 - shift_x) / stride_x + 1;
    const int64_t end = std::min(last, out_width);
    for (int64_t oy = 0; oy < out_height; ++oy) {
      if (oy % 64 == 63 || out_width > kGrain) stop_if_requested();
      const int64_t iy = oy * stride_y + shift_y;
      if (iy < 0 || iy >= height || first >= end) continue;
      body(oy * out_width + first, iy * width + first * stride_x + shift_x, end - first);
    }
  }
};

Windows windows_of(const Dims& image, const Dims& kernel, const Dims& dilation, const Dims& padding,
                   const Dims& stride) {
  std::array<int64_t, 2> out;
  for (int i = 0; i < 2; ++i)
    out[i] = shapes::window_count("im2col", image[i], kernel[i], stride[i], padding[i], dilation[i],
                                  false);
  return {image[0],  image[1],  kernel[0],  kernel[1],  out[0],      out[1],
          stride[0], stride[1], padding[0], padding[1], dilation[0], dilation[1]};
}

// One row of columns from its plane.
template <class T>
void unfold_row(const Windows& w, int64_t tap, const T* plane, T* row) {
  zero_bytes(row, w.positions() * static_cast<int64_t>(sizeof(T)));
  w.each_run(tap, [&](int64_t to, int64_t from, int64_t count) {
    if (w.stride_x == 1) return copy_bytes(row + to, plane + from, count * int64_t{sizeof(T)});
    for (int64_t i = 0; i < count; ++i) row[to + i] = plane[from + i * w.stride_x];
  });
}

// The plane that the columns of its windows add up to.
template <class T>
void fold_plane(const Windows& w, const T* columns, T* plane) {
  using Sum = sum_t<T>;
  const int64_t size = w.height * w.width;
  std::vector<Sum> wide(std::is_same_v<T, Sum> ? 0 : static_cast<size_t>(size), Sum(0));
  Sum* sums;
  if constexpr (std::is_same_v<T, Sum>) {
    zero_bytes(plane, size * static_cast<int64_t>(sizeof(T)));
    sums = plane;
  } else {
    sums = wide.data();
  }
  for (int64_t tap = 0; tap < w.taps(); ++tap) {
    stop_if_requested();
    const T* row = columns + tap * w.positions();
    w.each_run(tap, [&](int64_t from, int64_t to, int64_t count) {
      for (int64_t i = 0; i < count; ++i)
        sums[to + i * w.stride_x] += static_cast<Sum>(row[from + i]);
    });
  }
  if constexpr (!std::is_same_v<T, Sum>)
    for (int64_t i = 0; i < size; ++i) plane[i] = static_cast<T>(sums[i]);
}

// Sums of weighted elements: those of result i are the entries [first[i], first[i + 1]).
struct Taps {
  std::vector<int64_t> first{0}, at;
  std::vector<double> weight;
};

Taps taps_of(const Resample& r) {
  Taps taps;
  for (int64_t i = 0; i < r.out; ++i) {
    if (i % 1024 == 1023) stop_if_requested();
    const ResampleSpan span = resample_span(r, i);
    const double sum = weight_sum(r, span);
    for (int64_t tap = span.begin; tap < span.end; ++tap) {
      taps.at.push_back(tap_position(r, tap));
      taps.weight.push_back(tap_weight(r, span, tap) / sum);
    }
    taps.first.push_back(static_cast<int64_t>(taps.at.size()));
  }
  return taps;
}

// The same sums the other way: what each of `count` elements adds to the results.
Taps transposed(const Taps& taps, int64_t count) {
  Taps out;
  out.first.assign(static_cast<size_t>(count) + 1, 0);
  for (int64_t at : taps.at) ++out.first[at + 1];
  for (int64_t i = 0; i < count; ++i) out.first[i + 1] += out.first[i];
  std::vector<int64_t> next(out.first.begin(), out.first.end() - 1);
  out.at.resize(taps.at.size());
  out.weight.resize(taps.at.size());
  for (size_t i = 0; i + 1 < taps.first.size(); ++i)
    for (int64_t e = taps.first[i]; e < taps.first[i + 1]; ++e) {
      const int64_t position = next[taps.at[e]]++;
      out.at[position] = static_cast<int64_t>(i);
      out.weight[position] = taps.weight[e];
    }
  return out;
}

// Rows of `inner` elements: (outer, in, inner) to (outer, out, inner).
struct Lines {
  int64_t outer, in, out, inner;
};

// One row of results from the rows of its block.
template <class T>
void weigh_row(const Taps& taps, const std::vector<sum_t<T>>& weight, int64_t row, int64_t inner,
               const T* x, T* y) {
  constexpr int64_t kColumns = thresholds::image::kColumns;
  sum_t<T> sums[kColumns];
  for (int64_t begin = 0; begin < inner; begin += kColumns) {
    stop_if_requested();
    const int64_t count = std::min(kColumns, inner - begin);
    std::fill_n(sums, count, sum_t<T>(0));
    for (int64_t e = taps.first[row]; e < taps.first[row + 1]; ++e) {
      const T* from = x + taps.at[e] * inner + begin;
      const sum_t<T> factor = weight[e];
      for (int64_t j = 0; j < count; ++j) sums[j] += factor * static_cast<sum_t<T>>(from[j]);
    }
    for (int64_t j = 0; j < count; ++j) y[begin + j] = static_cast<T>(sums[j]);
  }
}

// How many taps each result has, or 0 where they differ.
int64_t uniform_taps(const Taps& taps) {
  const int64_t count = taps.first[1] - taps.first[0];
  for (size_t i = 1; i + 1 < taps.first.size(); ++i)
    if (taps.first[i + 1] - taps.first[i] != count) return 0;
  return count;
}

// Lines of elements beside each other, each result of which has as many taps.
template <class T>
void weigh_lines(const Taps& taps, int64_t count, const Lines& lines, const T* x, T* y) {
  using I = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  std::vector<I> at(taps.at.size());
  std::vector<T> weight(taps.at.size());
  for (int64_t i = 0; i < lines.out; ++i)
    for (int64_t k = 0; k < count; ++k) {
      const auto from = static_cast<size_t>(i * count + k),
                 to = static_cast<size_t>(k * lines.out + i);
      at[to] = static_cast<I>(taps.at[from]);
      weight[to] = static_cast<T>(taps.weight[from]);
    }
  const LineTaps<T, I> line{count, lines.out, at.data(), weight.data()};
  parallel_for(lines.outer, grain_for(lines.out * count), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      serial_for(lines.out, count, [&](int64_t first, int64_t last) {
        weigh_line(line, x + r * lines.in, first, last, y + r * lines.out);
      });
  });
}

template <class T>
void weigh(const Taps& taps, const Lines& lines, const T* x, T* y) {
  if constexpr (std::is_same_v<T, sum_t<T>>) {
    const int64_t count = uniform_taps(taps);
    if (lines.inner == 1 && count > 0 && lines.in <= std::numeric_limits<int32_t>::max())
      return weigh_lines(taps, count, lines, x, y);
  }
  const std::vector<sum_t<T>> weight(taps.weight.begin(), taps.weight.end());
  const int64_t work = static_cast<int64_t>(weight.size()) / lines.out + 1;
  parallel_for(lines.outer * lines.out, grain_for(work * lines.inner),
               [&](int64_t begin, int64_t end) {
                 for (int64_t r = begin; r < end; ++r) {
                   const int64_t row = r % lines.out;
                   const T* block = x + r / lines.out * lines.in * lines.inner;
                   if (lines.inner > 1) {
                     weigh_row(taps, weight, row, lines.inner, block, y + r * lines.inner);
                     continue;
                   }
                   sum_t<T> sum(0);
                   for (int64_t e = taps.first[row]; e < taps.first[row + 1]; ++e)
                     sum += weight[e] * static_cast<sum_t<T>>(block[taps.at[e]]);
                   y[r] = static_cast<T>(sum);
                 }
               });
}

// y along `dim` as the weighted sums of x.
void weigh(const Taps& taps, const Tensor& x, int64_t dim, Tensor& y) {
  Lines lines{1, x.size(static_cast<int>(dim)), y.size(static_cast<int>(dim)), 1};
  for (int i = 0; i < x.dim(); ++i)
    if (i != dim) (i < dim ? lines.outer : lines.inner) *= x.size(i);
  const Tensor source = contiguous(x);
  visit<dtypes::floating>(
      y.dtype(), [&]<class T>() { weigh(taps, lines, source.elements<T>(), y.elements<T>()); });
}

}  // namespace

void im2col(const Tensor& x, const Dims& kernel, const Dims& dilation, const Dims& padding,
            const Dims& stride, Tensor& y) {
  if (y.numel() == 0) return;
  const Windows w = windows_of({x.size(-2), x.size(-1)}, kernel, dilation, padding, stride);
  const Tensor source = contiguous(x);
  visit_bytes(y.dtype(), [&]<class T>() {
    parallel_for(
        y.numel() / w.positions(), grain_for(w.positions()), [&](int64_t begin, int64_t end) {
          for (int64_t r = begin; r < end; ++r)
            unfold_row(w, r % w.taps(), source.elements<T>() + r / w.taps() * w.height * w.width,
                       y.elements<T>() + r * w.positions());
        });
  });
}

void col2im(const Tensor& x, const Dims& size, const Dims& kernel, const Dims& dilation,
            const Dims& padding, const Dims& stride, Tensor& y) {
  if (y.numel() == 0) return;
  const Windows w = windows_of(size, kernel, dilation, padding, stride);
  const Tensor source = contiguous(x);
  const int64_t plane = w.height * w.width, column = w.taps() * w.positions();
  visit<kSummed>(y.dtype(), [&]<class T>() {
    parallel_for(y.numel() / plane, grain_for(column), [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p)
        fold_plane(w, source.elements<T>() + p * column, y.elements<T>() + p * plane);
    });
  });
}

void resample(const Tensor& x, const Dims& size, int64_t dim, std::string_view filter,
              bool align_corners, bool antialias, std::optional<double> scale, Tensor& y) {
  if (y.numel() == 0) return;
  weigh(taps_of(resample_of(x.sizes(), size, dim, filter, align_corners, antialias, scale)), x, dim,
        y);
}

void resample_grad_x(const Tensor& grad, const Dims& size, int64_t dim, std::string_view filter,
                     bool align_corners, bool antialias, std::optional<double> scale, Tensor& y) {
  if (y.numel() == 0) return;
  const Resample r = resample_of(size, grad.sizes(), dim, filter, align_corners, antialias, scale);
  weigh(transposed(taps_of(r), r.in), grad, dim, y);
}

}  // namespace moonlet::cpu

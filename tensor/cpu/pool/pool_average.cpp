// tensor/cpu/pool/pool_average.cpp: the CPU kernels of average pooling and of its gradients.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "tensor/core/plain_copy.h"
#include "tensor/core/views.h"
#include "tensor/cpu/common/contiguous.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/copy/convert.h"
#include "tensor/cpu/pool/pool.h"
#include "tensor/cpu/pool/pool_planes.h"
#include "tensor/cpu/reduce/reduce.h"
#include "tensor/functors/pool_window.h"
#include "tensor/kernels_reduce.h"
#include "tensor/shapes/index.h"

namespace moonlet::cpu {
namespace {

template <class T>
T sum_of(const T* x, int64_t n) {
  T sum = 0;
  if (n < kLongRun) {
    for (int64_t i = 0; i < n; ++i) sum += x[i];
    return sum;
  }
  run_blocks(0, n, kRunLength, [&](int64_t first, int64_t last) {
    sum += fold_run(Fold::Sum, x + first, last - first);
  });
  return sum;
}

template <class T>
T window_sum(const PoolWindow& w, const PoolSpan& ys, const PoolSpan& xs, const T* in) {
  const int64_t rows = ys.end - ys.begin, cols = xs.end - xs.begin;
  const T* first = in + ys.begin * w.x.size + xs.begin;
  if (cols == w.x.size) return sum_of(first, rows * cols);
  T sum = 0;
  if (cols < kLongRun && rows < kLongRun) {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j) sum += first[i * w.x.size + j];
    return sum;
  }
  serial_for(rows, cols, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) sum += sum_of(first + i * w.x.size, cols);
  });
  return sum;
}

// The averages of outputs [begin, end) of a row, one by one.
template <class T>
void average_windows(const PoolWindow& w, const PoolSpan& ys, int64_t begin, int64_t end,
                     const T* in, T* means) {
  for (int64_t ox = begin; ox < end; ++ox) {
    const PoolSpan xs = average_span(w, w.x, ox);
    const auto count = static_cast<T>(average_count(w, ys, xs));
    means[ox] = is_empty(ys, xs) ? T(0) : window_sum(w, ys, xs, in) / count;
  }
}

template <class T>
void average_plane(const PoolWindow& w, const T* in, T* out) {
  const Inside whole = w.x.kernel < kLongRun ? inside(w) : Inside{w.x.out, w.x.out};
  for (int64_t oy = 0; oy < w.y.out; ++oy) {
    stop_if_requested();
    const PoolSpan ys = average_span(w, w.y, oy);
    const Inside here = ys.begin < ys.end ? whole : Inside{w.x.out, w.x.out};
    T* means = out + oy * w.x.out;
    average_windows(w, ys, 0, here.begin, in, means);
    serial_for(here.end - here.begin, taps_of(w), [&](int64_t begin, int64_t end) {
      const int64_t ox = here.begin + begin;
      const int64_t count = average_count(w, ys, average_span(w, w.x, ox));
      mean_row(row_of(w, in, ys, ox, end - begin), static_cast<T>(count), means + ox);
    });
    average_windows(w, ys, here.end, w.x.out, in, means);
  }
}

// Sums of integers, divided toward zero.
void average_integers(const Tensor& x, const PoolWindow& w, Tensor& result) {
  const Tensor source = contiguous(x);
  Tensor y = workspace(result, result.dtype());
  visit<dtypes::integral>(x.dtype(), [&]<class T>() {
    const T* in = source.elements<T>();
    T* out = y.elements<T>();
    const int64_t from = plane_size(x), to = plane_size(y);
    parallel_for(planes_of(y), grain_for(to * taps_of(w)), [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        for (int64_t e = 0; e < to; ++e) {
          const PoolSpan ys = average_span(w, w.y, e / w.x.out),
                         xs = average_span(w, w.x, e % w.x.out);
          uint64_t sum = 0;  // wraps as the other sums of integers
          for (int64_t i = ys.begin; i < ys.end; ++i)
            for (int64_t j = xs.begin; j < xs.end; ++j)
              sum += static_cast<uint64_t>(in[p * from + i * w.x.size + j]);
          out[p * to + e] =
              is_empty(ys, xs)
                  ? T(0)
                  : static_cast<T>(static_cast<int64_t>(sum) / average_count(w, ys, xs));
        }
      }
    });
  });
  write_back(result, y);
}

Tensor turned(const Tensor& x) { return views::transpose(x, x.dim() - 2, x.dim() - 1); }

void average_planes(const Tensor& x, const PoolWindow& w, Tensor& result) {
  const Tensor source = contiguous(x);
  Tensor y = workspace(result, result.dtype());
  visit_compute<dtypes::floating>(x.dtype(), [&]<class T>() {
    each_plane<T>(source, y, plane_size(x),
                  [&] { return [&](const T* in, T* out, int64_t) { average_plane(w, in, out); }; });
  });
  write_back(result, y);
}

void average(const Tensor& x, const PoolWindow& w, Tensor& result) {
  if (is_integral(x.dtype())) return average_integers(x, w, result);
  if (pools_channels(x)) return mean_channels(x, w, result);
  const Tensor columns = turned(x);
  if (x.is_contiguous() || !columns.is_contiguous() || 2 * result.numel() > x.numel())
    return average_planes(x, w, result);
  // The fewer elements of the result are turned instead.
  PoolWindow across = w;
  std::swap(across.x, across.y);
  Tensor means = empty_plain(turned(result).sizes(), {x.dtype(), x.device()}, "avg_pool2d");
  average_planes(columns, across, means);
  copy_into(result, turned(means));
}

// The sums along rows of the shares that outputs give the columns of their windows.
template <class T>
class Spread {
 public:
  explicit Spread(const PoolWindow& w)
      : w_(w),
        whole_(w.x.kernel < kLongRun ? inside(w) : Inside{w.x.out, w.x.out}),
        line_(static_cast<size_t>(w.x.size)),
        shares_(static_cast<size_t>(w.x.out)) {}

  // Writes the line that one row of outputs, whose windows are the rows `ys`, gives each of these.
  void write_line(const PoolSpan& ys, const T* in, T* line) {
    const int64_t windows = whole_.end - whole_.begin;
    if (windows == 0) return one_by_one(ys, in, line);
    std::fill_n(line, w_.x.size, T(0));
    add_windows(ys, in, 0, whole_.begin, line);
    serial_for(windows, w_.x.kernel, [&](int64_t begin, int64_t end) {
      together(ys, in, whole_.begin + begin, whole_.begin + end, line);
    });
    add_windows(ys, in, whole_.end, w_.x.out, line);
  }
  // Room for a line.
  T* line() { return line_.data(); }

 private:
  T share_of(const PoolSpan& ys, const PoolSpan& xs, T value) const {
    return value / static_cast<T>(average_count(w_, ys, xs));
  }

  void add_windows(const PoolSpan& ys, const T* in, int64_t begin, int64_t end, T* line) {
    serial_for(end - begin, w_.x.kernel, [&](int64_t first, int64_t last) {
      for (int64_t ox = begin + first; ox < begin + last; ++ox) {
        const PoolSpan xs = average_span(w_, w_.x, ox);
        const T share = share_of(ys, xs, in[ox]);
        for (int64_t j = xs.begin; j < xs.end; ++j) line[j] += share;
      }
    });
  }

  // Windows begin and end further on each time: the columns from `fresh` on are still to be made.
  void one_by_one(const PoolSpan& ys, const T* in, T* line) {
    int64_t fresh = 0;
    serial_for(w_.x.out, w_.x.size / std::max<int64_t>(w_.x.out, 1) + 4,
               [&](int64_t first, int64_t last) {
                 for (int64_t ox = first; ox < last; ++ox) {
                   const PoolSpan xs = average_span(w_, w_.x, ox);
                   if (xs.begin >= xs.end) continue;
                   const T share = share_of(ys, xs, in[ox]);
                   for (; fresh < xs.begin; ++fresh) line[fresh] = T(0);
                   for (int64_t j = xs.begin; j < std::min(fresh, xs.end); ++j) line[j] += share;
                   for (int64_t j = std::max(fresh, xs.begin); j < xs.end; ++j) line[j] = share;
                   fresh = std::max(fresh, xs.end);
                 }
               });
    for (; fresh < w_.x.size; ++fresh) line[fresh] = T(0);
  }

  // Tap by tap, so that neighbouring additions of short windows do not wait for each other.
  void together(const PoolSpan& ys, const T* in, int64_t begin, int64_t end, T* whole_line) {
    const auto count = static_cast<T>(average_count(w_, ys, average_span(w_, w_.x, begin)));
    const int64_t windows = end - begin, stride = w_.x.stride;
    T* shares = shares_.data();
    for (int64_t i = 0; i < windows; ++i) shares[i] = in[begin + i] / count;
    for (int64_t k = 0; k < w_.x.kernel; ++k) {
      T* line = whole_line + (begin * stride - w_.x.pad + k);
      if (stride == 1)
        for (int64_t i = 0; i < windows; ++i) line[i] += shares[i];
      else
        for (int64_t i = 0; i < windows; ++i) line[i * stride] += shares[i];
    }
  }

  const PoolWindow& w_;
  const Inside whole_;
  std::vector<T> line_, shares_;
};

// Adds what the outputs of a plane give the elements of their windows, row by row of outputs, which
// begin and end further down each time: the rows of `out` from `fresh` on are still to be made.
template <class T>
void spread_plane(const PoolWindow& w, Spread<T>& spread, const T* in, T* out) {
  const int64_t cols = w.x.size, row_bytes = cols * static_cast<int64_t>(sizeof(T));
  int64_t fresh = 0;
  for (int64_t oy = 0; oy < w.y.out; ++oy) {
    const PoolSpan ys = average_span(w, w.y, oy);
    if (ys.begin >= ys.end) continue;
    // The first of new rows is made in its place.
    T* const line = ys.begin >= fresh ? out + ys.begin * cols : spread.line();
    spread.write_line(ys, in + oy * w.x.out, line);
    if (ys.begin > fresh) zero_bytes(out + fresh * cols, (ys.begin - fresh) * row_bytes);
    run_blocks(ys.begin, ys.end, grain_for(cols), [&](int64_t i, int64_t last) {
      for (; i < last; ++i) {
        T* row = out + i * cols;
        if (row == line) continue;
        if (i >= fresh)
          std::copy_n(line, cols, row);
        else
          for (int64_t j = 0; j < cols; ++j) row[j] += line[j];
      }
    });
    fresh = std::max(fresh, ys.end);
  }
  zero_bytes(out + fresh * cols, (w.y.size - fresh) * row_bytes);
}

// The adjoint: spreads each element of grad over its window.
void spread(const Tensor& grad, const PoolWindow& w, Tensor& result) {
  if (pools_channels(grad)) return mean_channels_grad(grad, w, result);
  const Tensor source = contiguous(grad);
  Tensor y = workspace(result, result.dtype());
  visit_compute<dtypes::floating>(grad.dtype(), [&]<class T>() {
    each_plane<T>(source, y, plane_size(y), [&] {
      return [&w, spread = Spread<T>(w)](const T* in, T* out, int64_t) mutable {
        spread_plane(w, spread, in, out);
      };
    });
  });
  write_back(result, y);
}

}  // namespace

void avg_pool2d(const Tensor& x, const Dims& kernel, const Dims& stride, const Dims& padding, bool,
                bool count_include_pad, std::optional<int64_t> divisor, Tensor& y) {
  PoolWindow w = pool_window(x.sizes(), y.sizes(), kernel, stride, padding, {1, 1});
  w.count_padding = count_include_pad;
  w.divisor = divisor.value_or(0);
  average(x, w, y);
}

void avg_pool2d_grad_x(const Tensor& grad, const Dims& size, const Dims& kernel, const Dims& stride,
                       const Dims& padding, bool, bool count_include_pad,
                       std::optional<int64_t> divisor, Tensor& y) {
  PoolWindow w = pool_window(size, grad.sizes(), kernel, stride, padding, {1, 1});
  w.count_padding = count_include_pad;
  w.divisor = divisor.value_or(0);
  spread(grad, w, y);
}

void adaptive_avg_pool2d(const Tensor& x, const Dims&, Tensor& y) {
  if (y.numel() == 0) return;
  if (plane_size(y) == 1) return mean(x, {x.dim() - 2, x.dim() - 1}, true, std::nullopt, y);
  average(x, adaptive_window(x.sizes(), y.sizes()), y);
}

void adaptive_avg_pool2d_grad_x(const Tensor& grad, const Dims& size, Tensor& y) {
  if (grad.numel() == 0) return fill_plain(y, Scalar(0), "adaptive_avg_pool2d");
  spread(grad, adaptive_window(size, grad.sizes()), y);
}

}  // namespace moonlet::cpu

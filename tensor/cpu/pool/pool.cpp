// tensor/cpu/pool/pool.cpp: the CPU kernels of pooling over the planes (h, w) of images.
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
#include "tensor/cpu/reduce/reduce.h"
#include "tensor/functors/pool_window.h"
#include "tensor/kernels_reduce.h"
#include "tensor/shapes/index.h"

namespace moonlet::cpu {
namespace {

int64_t planes_of(const Tensor& t) {
  int64_t count = 1;
  for (int i = 0; i + 2 < t.dim(); ++i) count *= t.size(i);
  return count;
}

int64_t plane_size(const Tensor& t) { return t.size(-1) * t.size(-2); }

// The planes of a contiguous tensor as T: where they lie or, of another dtype, a run of them at a
// time in a buffer, which the cache keeps.
template <class T>
class Planes {
 public:
  Planes(const Tensor& t, int64_t size, int64_t run)
      : data_(t.raw()), dtype_(t.dtype()), size_(size) {
    if (dtype_ != dtype_of<T>) buffer_.resize(static_cast<size_t>(size * run));
  }

  // Where the planes from p on are made.
  T* elements(int64_t p) {
    return buffer_.empty() ? reinterpret_cast<T*>(data_) + p * size_ : buffer_.data();
  }
  // The same with the elements of `count` planes.
  const T* read(int64_t p, int64_t count) {
    if (!buffer_.empty()) convert(dtype_, dtype_of<T>, plane(p), buffer_.data(), count);
    return elements(p);
  }
  // Brings what was made to the tensor.
  void write(int64_t p, int64_t count) {
    if (!buffer_.empty()) convert(dtype_of<T>, dtype_, buffer_.data(), plane(p), count);
  }

 private:
  char* plane(int64_t p) const { return data_ + p * size_ * size_of(dtype_); }
  void convert(DType from_type, DType to_type, const void* from, void* to, int64_t count) const {
    const DenseConverter all = dense_converter(from_type, to_type);
    serial_for(size_ * count, 1, [&](int64_t begin, int64_t end) {
      all(static_cast<const char*>(from) + begin * size_of(from_type),
          static_cast<char*>(to) + begin * size_of(to_type), static_cast<size_t>(end - begin));
    });
  }

  char* data_;
  const DType dtype_;
  const int64_t size_;
  std::vector<T> buffer_;
};

constexpr int64_t kConverted = thresholds::pool::kConverted;

// Makes the planes of `out` of those of `in` by body(plane of in, plane of out, its number), of
// which each thread has one from make(); `work` is the cost of one plane.
template <class T, class Make>
void each_plane(const Tensor& in, Tensor& out, int64_t work, Make&& make) {
  const int64_t from_size = plane_size(in), to_size = plane_size(out);
  const int64_t run = std::max<int64_t>(1, kConverted / std::max<int64_t>(1, from_size + to_size));
  parallel_for(planes_of(out), grain_for(work), [&](int64_t begin, int64_t end) {
    auto body = make();
    Planes<T> from(in, from_size, run), to(out, to_size, run);
    for (int64_t p = begin; p < end; p += run) {
      const int64_t count = std::min(run, end - p);
      const T* x = from.read(p, count);
      T* y = to.elements(p);
      for (int64_t i = 0; i < count; ++i) body(x + i * from_size, y + i * to_size, p + i);
      to.write(p, count);
    }
  });
}

// The outputs along x whose windows lie inside the plane: [begin, end).
struct Inside {
  int64_t begin, end;
};
Inside inside(const PoolWindow& w) {
  const PoolAxis& a = w.x;
  const int64_t reach = (a.kernel - 1) * a.dilation + 1;
  if (w.adaptive || reach > a.size) return {a.out, a.out};
  const int64_t begin = std::min(a.out, (a.pad + a.stride - 1) / a.stride);
  const int64_t end = std::min(a.out, (a.size - reach + a.pad) / a.stride + 1);
  return {begin, std::max(begin, end)};
}

// The windows of the outputs from `ox` on of a row, `ys` high, all of them inside the plane.
template <class T>
PoolRow<T> row_of(const PoolWindow& w, const T* in, const PoolSpan& ys, int64_t ox, int64_t count) {
  return {.in = in + ys.begin * w.x.size + ox * w.x.stride - w.x.pad,
          .windows = count,
          .stride = w.x.stride,
          .rows = (ys.end - ys.begin + w.y.dilation - 1) / w.y.dilation,
          .row_step = w.y.dilation * w.x.size,
          .taps = w.x.kernel,
          .tap_step = w.x.dilation};
}

// The maximum of a window that lies in the padding, of elements of that dtype.
template <class T>
T maximum_of_nothing(DType dtype) {
  return visit<dtypes::real>(dtype, []<class X>() {
    if constexpr (std::is_integral_v<X>)
      return static_cast<T>(std::numeric_limits<X>::lowest());
    else
      return -std::numeric_limits<T>::infinity();
  });
}

constexpr int64_t kLongRun = thresholds::pool::kLongRun;

// The maxima of one plane.
template <class T>
class MaxPlane {
 public:
  MaxPlane(const PoolWindow& w, T nothing, const T* in, T* values, int64_t* indices)
      : w_(w), nothing_(nothing), in_(in), values_(values), indices_(indices), taps_(taps_of(w)) {}

  void run() {
    const Inside whole = fits_lanes() ? inside(w_) : Inside{w_.x.out, w_.x.out};
    for (int64_t oy = 0; oy < w_.y.out; ++oy) {
      stop_if_requested();
      const PoolSpan ys = maximum_span(w_, w_.y, oy);
      const Inside here = ys.begin < ys.end ? whole : Inside{w_.x.out, w_.x.out};
      one_by_one(oy, ys, 0, here.begin);
      together(oy, ys, here);
      one_by_one(oy, ys, here.end, w_.x.out);
    }
  }

 private:
  // Whether the lanes can count the positions of a window.
  bool fits_lanes() const {
    return sizeof(T) > 4 || w_.y.size * w_.x.size <= std::numeric_limits<int32_t>::max();
  }

  void together(int64_t oy, const PoolSpan& ys, const Inside& range) {
    serial_for(range.end - range.begin, taps_, [&](int64_t begin, int64_t end) {
      const int64_t ox = range.begin + begin, at = oy * w_.x.out + ox;
      const PoolRow<T> row = row_of(w_, in_, ys, ox, end - begin);
      max_row(row, row.in - in_ + 1, values_ + at, indices_ + at);
    });
  }

  void one_by_one(int64_t oy, const PoolSpan& ys, int64_t begin, int64_t end) {
    for (int64_t ox = begin; ox < end; ++ox) {
      if (taps_ > kGrain) stop_if_requested();
      const PoolSpan xs = maximum_span(w_, w_.x, ox);
      const int64_t at = oy * w_.x.out + ox;
      const bool is_long = xs.end - xs.begin >= kLongRun && w_.x.dilation == 1;
      if (is_long && ys.begin < ys.end && fits_lanes())
        max_row(row_at(ys, xs), ys.begin * w_.x.size + xs.begin + 1, values_ + at, indices_ + at);
      else
        one(ys, xs, values_ + at, indices_ + at);
    }
  }

  // One window whose columns lie side by side.
  PoolRow<T> row_at(const PoolSpan& ys, const PoolSpan& xs) const {
    return {.in = in_ + ys.begin * w_.x.size + xs.begin,
            .windows = 1,
            .stride = 1,
            .rows = (ys.end - ys.begin + w_.y.dilation - 1) / w_.y.dilation,
            .row_step = w_.y.dilation * w_.x.size,
            .taps = xs.end - xs.begin,
            .tap_step = 1};
  }

  void one(const PoolSpan& ys, const PoolSpan& xs, T* value, int64_t* position) const {
    int64_t at = std::min(ys.begin, w_.y.size - 1) * w_.x.size + std::min(xs.begin, w_.x.size - 1);
    T best = is_empty(ys, xs) ? nothing_ : in_[at];
    for (int64_t y = ys.begin; y < ys.end; y += w_.y.dilation)
      for (int64_t x = xs.begin; x < xs.end; x += w_.x.dilation) {
        const T v = in_[y * w_.x.size + x];
        if (v > best || v != v) best = v, at = y * w_.x.size + x;
      }
    *value = best;
    *position = at + 1;
  }

  const PoolWindow& w_;
  const T nothing_;
  const T* in_;
  T* values_;
  int64_t* indices_;
  const int64_t taps_;
};

void maximum(const Tensor& x, const PoolWindow& w, Tensor& result, Tensor& indices) {
  const DType dtype = compute_dtype(x.dtype());
  visit_compute<dtypes::real>(dtype, [&]<class T>() {
    const T nothing = maximum_of_nothing<T>(x.dtype());
    const bool short_positions = plane_size(x) < std::numeric_limits<int32_t>::max();
    if (pools_channels(x) && short_positions) return max_channels(x, w, nothing, result, indices);
    const Tensor source = contiguous(x);
    Tensor values = workspace(result, result.dtype()), positions = workspace(indices, DType::Int64);
    each_plane<T>(source, values, plane_size(values) * taps_of(w), [&] {
      return [&](const T* in, T* out, int64_t p) {
        int64_t* at = positions.elements<int64_t>() + p * plane_size(values);
        MaxPlane<T>(w, nothing, in, out, at).run();
      };
    });
    write_back(result, values);
    write_back(indices, positions);
  });
}

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

// A 1-based position of a plane of `size` elements as an offset.
template <class I>
int64_t offset_in(const char* op, I position, int64_t size) {
  const auto at = static_cast<int64_t>(position);
  if (at < 1 || at > size) [[unlikely]]
    shapes::fail_position(op, at, size);
  return at - 1;
}

constexpr DTypeSet kPositions = bit(DType::Int64) | bit(DType::Int32);

// Adds the elements of `grad` to zeros, at their positions.
template <class T, class I>
void scatter_plane(const T* grad, const I* where, int64_t positions, T* sums, int64_t size) {
  zero_bytes(sums, size * static_cast<int64_t>(sizeof(T)));
  serial_for(positions, 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      sums[offset_in("max_pool2d_grad_x", where[i], size)] += grad[i];
  });
}

// The same for 16-bit floats, few of them: those of one position are added in float32.
template <class T, class I>
void scatter_few(const T* grad, const I* where, int64_t positions, T* sums, int64_t size,
                 std::vector<std::pair<int64_t, int64_t>>& entries) {
  zero_bytes(sums, size * static_cast<int64_t>(sizeof(T)));
  entries.clear();
  for (int64_t i = 0; i < positions; ++i)
    entries.emplace_back(offset_in("max_pool2d_grad_x", where[i], size), i);
  std::sort(entries.begin(), entries.end());
  for (size_t k = 0; k < entries.size();) {
    const int64_t at = entries[k].first;
    float sum = 0;
    for (; k < entries.size() && entries[k].first == at; ++k)
      sum += static_cast<float>(grad[entries[k].second]);
    sums[at] = T(sum);
  }
}

// Scatters the elements of all planes so, without float32 copies of the planes.
void scatter_few_planes(const Tensor& grad, const Tensor& where, Tensor& y) {
  const int64_t size = plane_size(y), positions = plane_size(grad);
  visit<dtypes::reduced_floating>(grad.dtype(), [&]<class T>() {
    visit<kPositions>(where.dtype(), [&]<class I>() {
      parallel_for(
          planes_of(y), grain_for(size / 4 + positions * 8), [&](int64_t begin, int64_t end) {
            std::vector<std::pair<int64_t, int64_t>> entries;
            for (int64_t p = begin; p < end; ++p)
              scatter_few(grad.elements<T>() + p * positions, where.elements<I>() + p * positions,
                          positions, y.elements<T>() + p * size, size, entries);
          });
    });
  });
}

}  // namespace

void max_pool2d_with_indices(const Tensor& x, const Dims& kernel, const Dims& stride,
                             const Dims& padding, const Dims& dilation, bool, Tensor& values,
                             Tensor& indices) {
  maximum(x, pool_window(x.sizes(), values.sizes(), kernel, stride, padding, dilation), values,
          indices);
}

void adaptive_max_pool2d(const Tensor& x, const Dims&, Tensor& values, Tensor& indices) {
  if (values.numel() == 0) return;
  maximum(x, adaptive_window(x.sizes(), values.sizes()), values, indices);
}

void max_pool2d_grad_x(const Tensor& grad, const Tensor& indices, const Dims&, Tensor& result) {
  if (pools_channels(grad)) return max_channels_grad(grad, indices, result);
  const Tensor gradient = contiguous(grad), where = contiguous(indices);
  Tensor y = workspace(result, result.dtype());
  const int64_t size = plane_size(y), positions = plane_size(grad);
  constexpr int64_t kFew = thresholds::pool::kSortedCost;
  if (is_reduced_floating(y.dtype()) && positions < kStopBlock && positions * kFew <= size) {
    scatter_few_planes(gradient, where, y);
    return write_back(result, y);
  }
  visit_compute<dtypes::real>(grad.dtype(), [&]<class T>() {
    visit<kPositions>(where.dtype(), [&]<class I>() {
      each_plane<T>(gradient, y, size + positions, [&] {
        return [&](const T* from, T* to, int64_t p) {
          scatter_plane(from, where.elements<I>() + p * positions, positions, to, size);
        };
      });
    });
  });
  write_back(result, y);
}

void max_pool2d_grad_x_grad_grad(const Tensor& grad, const Tensor& indices, Tensor& y) {
  const char* op = "max_pool2d_grad_x_grad_grad";
  const Tensor source = contiguous(grad), where = contiguous(indices);
  const int64_t size = plane_size(grad), positions = plane_size(y);
  visit_bytes(y.dtype(), [&]<class T>() {
    visit<kPositions>(where.dtype(), [&]<class I>() {
      parallel_for(planes_of(y), grain_for(positions), [&](int64_t first, int64_t last) {
        for (int64_t p = first; p < last; ++p)
          serial_for(positions, 4, [&](int64_t begin, int64_t end) {
            for (int64_t i = p * positions + begin; i < p * positions + end; ++i)
              y.elements<T>()[i] =
                  source.elements<T>()[p * size + offset_in(op, where.elements<I>()[i], size)];
          });
      });
    });
  });
}

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

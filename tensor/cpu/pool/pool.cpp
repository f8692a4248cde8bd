// tensor/cpu/pool/pool.cpp: the CPU kernels of max pooling over the planes (h, w) of images, and of
// its gradients.
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
#include "tensor/functors/pool_window.h"
#include "tensor/shapes/index.h"

namespace moonlet::cpu {
namespace {

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

}  // namespace moonlet::cpu

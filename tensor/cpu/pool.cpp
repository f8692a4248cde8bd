// tensor/cpu/pool.cpp: the CPU kernels of pooling over the planes (h, w) of images.
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "tensor/cpu/contiguous.h"
#include "tensor/cpu/parallel.h"
#include "tensor/pool_window.h"
#include "tensor/shapes/index.h"

namespace moonlet::cpu {
namespace {

int64_t planes_of(const Tensor& t) {
  int64_t count = 1;
  for (int i = 0; i + 2 < t.dim(); ++i) count *= t.size(i);
  return count;
}

int64_t plane_size(const Tensor& t) { return t.size(-1) * t.size(-2); }

// Calls body(sums) with zeros for the elements of one plane, which it adds to, and stores the sums.
template <class T, class Body>
void sum_plane(T* out, int64_t size, Body&& body) {
  if constexpr (std::is_same_v<T, sum_t<T>>) {
    zero_bytes(out, size * static_cast<int64_t>(sizeof(T)));
    body(out);
  } else {
    std::vector<sum_t<T>> sums(static_cast<size_t>(size), 0);
    body(sums.data());
    for (int64_t i = 0; i < size; ++i) out[i] = static_cast<T>(sums[i]);
  }
}

// Calls body(plane) for all planes, shared among threads; `work` is the cost of one.
template <class Body>
void each_plane(int64_t planes, int64_t work, Body&& body) {
  parallel_for(planes, grain_for(work), [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) body(p);
  });
}

// Two by two windows that touch and lie inside the plane: no bounds to check, no branches.
template <class T>
void max_2x2(const PoolWindow& w, const T* in, T* values, int64_t* indices) {
  for (int64_t oy = 0; oy < w.y.out; ++oy) {
    const T* top = in + 2 * oy * w.x.size;
    const T* low = top + w.x.size;
    const int64_t first = 2 * oy * w.x.size + 1;
    stop_if_requested();
    for (int64_t ox = 0; ox < w.x.out; ++ox) {
      const T a = top[2 * ox], b = top[2 * ox + 1], c = low[2 * ox], d = low[2 * ox + 1];
      T best = a;
      int64_t at = 0;
      const auto offer = [&](T v, int64_t offset) {
        const bool take = (int{v > best} | int{v != v}) != 0;
        best = take ? v : best;
        at = take ? offset : at;
      };
      offer(b, 1);
      offer(c, w.x.size);
      offer(d, w.x.size + 1);
      values[oy * w.x.out + ox] = best;
      indices[oy * w.x.out + ox] = first + 2 * ox + at;
    }
  }
}

// The maximum of a window that lies in the padding.
template <class T>
sum_t<T> maximum_of_nothing() {
  if constexpr (std::is_integral_v<T>)
    return std::numeric_limits<T>::lowest();
  else
    return -std::numeric_limits<sum_t<T>>::infinity();
}

// How many elements a window holds at most.
int64_t taps_of(const PoolWindow& w) {
  const auto most = [&](const PoolAxis& a) { return w.adaptive ? a.size / a.out + 2 : a.kernel; };
  return most(w.y) * most(w.x);
}

template <class T>
void max_plane(const PoolWindow& w, const T* in, T* values, int64_t* indices) {
  const bool long_window = taps_of(w) > kGrain;
  for (int64_t oy = 0; oy < w.y.out; ++oy) {
    stop_if_requested();
    const PoolSpan ys = maximum_span(w, w.y, oy);
    for (int64_t ox = 0; ox < w.x.out; ++ox) {
      if (long_window) stop_if_requested();
      const PoolSpan xs = maximum_span(w, w.x, ox);
      int64_t at = std::min(ys.begin, w.y.size - 1) * w.x.size + std::min(xs.begin, w.x.size - 1);
      sum_t<T> best = is_empty(ys, xs) ? maximum_of_nothing<T>() : sum_t<T>(in[at]);
      for (int64_t y = ys.begin; y < ys.end; y += w.y.dilation)
        for (int64_t x = xs.begin; x < xs.end; x += w.x.dilation) {
          const sum_t<T> v = in[y * w.x.size + x];
          if (v > best || v != v) best = v, at = y * w.x.size + x;
        }
      values[oy * w.x.out + ox] = static_cast<T>(best);
      indices[oy * w.x.out + ox] = at + 1;
    }
  }
}

void maximum(const Tensor& x, const PoolWindow& w, Tensor& result, Tensor& indices) {
  const auto is_simple = [&](const PoolAxis& a) {
    return !w.adaptive && a.kernel == 2 && a.stride == 2 && a.pad == 0 && a.dilation == 1 &&
           2 * a.out <= a.size;
  };
  const bool simple = is_simple(w.y) && is_simple(w.x);
  with_contiguous(result, [&](Tensor& values) {
    const Tensor source = contiguous(x);
    visit<dtypes::real>(x.dtype(), [&]<class T>() {
      each_plane(planes_of(x), plane_size(values) * taps_of(w), [&](int64_t p) {
        const T* in = source.elements<T>() + p * plane_size(x);
        T* out = values.elements<T>() + p * plane_size(values);
        int64_t* at = indices.elements<int64_t>() + p * plane_size(values);
        if (simple)
          max_2x2(w, in, out, at);
        else
          max_plane(w, in, out, at);
      });
    });
  });
}

// Calls body(flat output place, rows, columns, divisor) for the windows of an average.
template <class Body>
void each_window(const PoolWindow& w, Body&& body) {
  for (int64_t oy = 0; oy < w.y.out; ++oy) {
    stop_if_requested();
    const PoolSpan ys = average_span(w, w.y, oy);
    for (int64_t ox = 0; ox < w.x.out; ++ox) {
      const PoolSpan xs = average_span(w, w.x, ox);
      body(oy * w.x.out + ox, ys, xs, average_count(w, ys, xs));
    }
  }
}

// Calls body(first, last) for the rows of a window: at once, or one by one when it is large.
template <class Body>
void each_part(const PoolSpan& rows, int64_t size, Body&& body) {
  if (size <= kGrain) [[likely]]
    return body(rows.begin, rows.end);
  run_blocks(rows.begin, rows.end, 1, body);
}

void average(const Tensor& x, const PoolWindow& w, Tensor& result) {
  with_contiguous(result, [&](Tensor& y) {
    const Tensor source = contiguous(x);
    visit<dtypes::floating>(y.dtype(), [&]<class T>() {
      each_plane(planes_of(y), plane_size(x), [&](int64_t p) {
        const T* in = source.elements<T>() + p * plane_size(x);
        T* out = y.elements<T>() + p * plane_size(y);
        each_window(w, [&](int64_t at, const PoolSpan& ys, const PoolSpan& xs, int64_t count) {
          sum_t<T> sum = 0;
          each_part(ys, count, [&](int64_t first, int64_t last) {
            for (int64_t i = first; i < last; ++i)
              for (int64_t j = xs.begin; j < xs.end; ++j)
                sum += static_cast<sum_t<T>>(in[i * w.x.size + j]);
          });
          out[at] = static_cast<T>(is_empty(ys, xs) ? 0 : sum / static_cast<sum_t<T>>(count));
        });
      });
    });
  });
}

// The adjoint: spreads each element of grad over its window.
void spread(const Tensor& grad, const PoolWindow& w, Tensor& result) {
  with_contiguous(result, [&](Tensor& y) {
    const Tensor source = contiguous(grad);
    visit<dtypes::floating>(y.dtype(), [&]<class T>() {
      const int64_t size = plane_size(y);
      each_plane(planes_of(y), size, [&](int64_t p) {
        const T* in = source.elements<T>() + p * plane_size(grad);
        sum_plane(y.elements<T>() + p * size, size, [&](sum_t<T>* sums) {
          each_window(w, [&](int64_t at, const PoolSpan& ys, const PoolSpan& xs, int64_t count) {
            if (is_empty(ys, xs)) return;
            const sum_t<T> share = static_cast<sum_t<T>>(in[at]) / static_cast<sum_t<T>>(count);
            each_part(ys, count, [&](int64_t first, int64_t last) {
              for (int64_t i = first; i < last; ++i)
                for (int64_t j = xs.begin; j < xs.end; ++j) sums[i * w.x.size + j] += share;
            });
          });
        });
      });
    });
  });
}

// A 1-based position of a plane of `size` elements as an offset.
template <class I>
int64_t offset_in(const char* op, I position, int64_t size) {
  const auto at = static_cast<int64_t>(position);
  if (at < 1 || at > size) [[unlikely]]
    shapes::bad_position(op, at, size);
  return at - 1;
}

constexpr DTypeSet kPositions = bit(DType::Int64) | bit(DType::Int32);

}  // namespace

void max_pool2d_with_indices(const Tensor& x, const Dims& kernel, const Dims& stride,
                             const Dims& padding, const Dims& dilation, bool, Tensor& values,
                             Tensor& indices) {
  maximum(x, pool_window(x.sizes(), values.sizes(), kernel, stride, padding, dilation), values,
          indices);
}

void adaptive_max_pool2d(const Tensor& x, const Dims&, Tensor& values, Tensor& indices) {
  maximum(x, adaptive_window(x.sizes(), values.sizes()), values, indices);
}

void max_pool2d_grad_x(const Tensor& grad, const Tensor& indices, const Dims&, Tensor& result) {
  with_contiguous(result, [&](Tensor& y) {
    const Tensor slope = contiguous(grad), where = contiguous(indices);
    const int64_t size = plane_size(y), places = plane_size(grad);
    visit<dtypes::real>(y.dtype(), [&]<class T>() {
      visit<kPositions>(where.dtype(), [&]<class I>() {
        each_plane(planes_of(y), size + places, [&](int64_t p) {
          sum_plane(y.elements<T>() + p * size, size, [&](sum_t<T>* sums) {
            serial_for(places, 4, [&](int64_t begin, int64_t end) {
              for (int64_t i = p * places + begin; i < p * places + end; ++i)
                sums[offset_in("max_pool2d_grad_x", where.elements<I>()[i], size)] +=
                    static_cast<sum_t<T>>(slope.elements<T>()[i]);
            });
          });
        });
      });
    });
  });
}

void max_pool2d_grad_x_grad_grad(const Tensor& grad, const Tensor& indices, Tensor& y) {
  const char* op = "max_pool2d_grad_x_grad_grad";
  const Tensor source = contiguous(grad), where = contiguous(indices);
  const int64_t size = plane_size(grad), places = plane_size(y);
  visit_bytes(y.dtype(), [&]<class T>() {
    visit<kPositions>(where.dtype(), [&]<class I>() {
      each_plane(planes_of(y), places, [&](int64_t p) {
        serial_for(places, 4, [&](int64_t begin, int64_t end) {
          for (int64_t i = p * places + begin; i < p * places + end; ++i)
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
  average(x, adaptive_window(x.sizes(), y.sizes()), y);
}

void adaptive_avg_pool2d_grad_x(const Tensor& grad, const Dims& size, Tensor& y) {
  spread(grad, adaptive_window(size, grad.sizes()), y);
}

}  // namespace moonlet::cpu

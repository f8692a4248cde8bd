// tensor/cpu/pool.cpp: the CPU kernels of pooling over the planes (h, w) of images.
#include <cmath>
#include <limits>
#include <vector>

#include "tensor/cpu/contiguous.h"
#include "tensor/cpu/parallel.h"
#include "tensor/shapes/index.h"

namespace moonlet::cpu {
namespace {

// One plane's window geometry.
struct Window {
  int64_t height, width, out_height, out_width;
  int64_t kernel_y, kernel_x, stride_y, stride_x, pad_y, pad_x, dilation_y, dilation_x;
};

Window window_of(const Dims& in, const Dims& out, const Dims& kernel, const Dims& stride_given,
                 const Dims& padding, const Dims& dilation) {
  const Dims& stride = stride_given.empty() ? kernel : stride_given;
  const int i = in.size(), o = out.size();
  return {in[i - 2],  in[i - 1],  out[o - 2],  out[o - 1],
          kernel[0],  kernel[1],  stride[0],   stride[stride.size() - 1],
          padding[0], padding[1], dilation[0], dilation[1]};
}

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
void max_2x2(const Window& w, const T* in, T* values, int64_t* indices) {
  for (int64_t oy = 0; oy < w.out_height; ++oy) {
    const T* top = in + 2 * oy * w.width;
    const T* low = top + w.width;
    const int64_t first = 2 * oy * w.width + 1;
    stop_if_requested();
    for (int64_t ox = 0; ox < w.out_width; ++ox) {
      const T a = top[2 * ox], b = top[2 * ox + 1], c = low[2 * ox], d = low[2 * ox + 1];
      T best = a;
      int64_t at = 0;
      const auto offer = [&](T v, int64_t offset) {
        const bool take = (int{v > best} | int{v != v}) != 0;
        best = take ? v : best;
        at = take ? offset : at;
      };
      offer(b, 1);
      offer(c, w.width);
      offer(d, w.width + 1);
      values[oy * w.out_width + ox] = best;
      indices[oy * w.out_width + ox] = first + 2 * ox + at;
    }
  }
}

// The first position on one axis that a window starting at `start` sees inside [0, size).
int64_t first_inside(int64_t start, int64_t step) {
  return start >= 0 ? start : start + (-start + step - 1) / step * step;
}

// The maximum of a window that lies in the padding.
template <class T>
sum_t<T> maximum_of_nothing() {
  if constexpr (std::is_integral_v<T>)
    return std::numeric_limits<T>::lowest();
  else
    return -std::numeric_limits<sum_t<T>>::infinity();
}

template <class T>
void max_plane(const Window& w, const T* in, T* values, int64_t* indices) {
  const bool long_window = w.kernel_y * w.kernel_x > kGrain;
  for (int64_t oy = 0; oy < w.out_height; ++oy) {
    stop_if_requested();
    for (int64_t ox = 0; ox < w.out_width; ++ox) {
      if (long_window) stop_if_requested();
      const int64_t y0 = oy * w.stride_y - w.pad_y, x0 = ox * w.stride_x - w.pad_x;
      const int64_t y1 = std::min(y0 + (w.kernel_y - 1) * w.dilation_y + 1, w.height);
      const int64_t x1 = std::min(x0 + (w.kernel_x - 1) * w.dilation_x + 1, w.width);
      const int64_t ys = first_inside(y0, w.dilation_y), xs = first_inside(x0, w.dilation_x);
      int64_t at = std::min(ys, w.height - 1) * w.width + std::min(xs, w.width - 1);
      sum_t<T> best = ys < y1 && xs < x1 ? sum_t<T>(in[at]) : maximum_of_nothing<T>();
      for (int64_t y = ys; y < y1; y += w.dilation_y)
        for (int64_t x = xs; x < x1; x += w.dilation_x) {
          const sum_t<T> v = in[y * w.width + x];
          if (v > best || v != v) best = v, at = y * w.width + x;
        }
      values[oy * w.out_width + ox] = static_cast<T>(best);
      indices[oy * w.out_width + ox] = at + 1;
    }
  }
}

// Calls body(flat output place, y0, y1, x0, x1, divisor) for the windows of an average, clipped to
// the plane.
template <class Body>
void each_average(const Window& w, bool count_padding, Body&& body) {
  for (int64_t oy = 0; oy < w.out_height; ++oy) {
    stop_if_requested();
    for (int64_t ox = 0; ox < w.out_width; ++ox) {
      int64_t y0 = oy * w.stride_y - w.pad_y, x0 = ox * w.stride_x - w.pad_x;
      int64_t y1 = std::min(y0 + w.kernel_y, w.height + w.pad_y);
      int64_t x1 = std::min(x0 + w.kernel_x, w.width + w.pad_x);
      const int64_t padded = (y1 - y0) * (x1 - x0);
      y0 = std::max<int64_t>(y0, 0), x0 = std::max<int64_t>(x0, 0);
      y1 = std::min(y1, w.height), x1 = std::min(x1, w.width);
      const int64_t inside = std::max<int64_t>(y1 - y0, 0) * std::max<int64_t>(x1 - x0, 0);
      body(oy * w.out_width + ox, y0, y1, x0, x1, count_padding ? padded : inside);
    }
  }
}

// The same for windows that divide the plane as evenly as they can.
template <class Body>
void each_adaptive(const Window& w, Body&& body) {
  for (int64_t oy = 0; oy < w.out_height; ++oy) {
    stop_if_requested();
    for (int64_t ox = 0; ox < w.out_width; ++ox) {
      const int64_t y0 = oy * w.height / w.out_height;
      const int64_t y1 = ((oy + 1) * w.height + w.out_height - 1) / w.out_height;
      const int64_t x0 = ox * w.width / w.out_width;
      const int64_t x1 = ((ox + 1) * w.width + w.out_width - 1) / w.out_width;
      body(oy * w.out_width + ox, y0, y1, x0, x1, (y1 - y0) * (x1 - x0));
    }
  }
}

// Calls body(first, last) for the rows of a window: at once, or one by one when it is large.
template <class Body>
void each_part(int64_t y0, int64_t y1, int64_t size, Body&& body) {
  if (size <= kGrain) [[likely]]
    return body(y0, y1);
  run_blocks(y0, y1, 1, body);
}

// Averages over windows, which `windows(body)` lists.
template <class Windows>
void average(const Tensor& x, Tensor& result, int64_t width, Windows&& windows) {
  with_contiguous(result, [&](Tensor& y) {
    const Tensor source = contiguous(x);
    visit<dtypes::floating>(y.dtype(), [&]<class T>() {
      each_plane(planes_of(y), plane_size(x), [&](int64_t p) {
        const T* in = source.elements<T>() + p * plane_size(x);
        T* out = y.elements<T>() + p * plane_size(y);
        windows([&](int64_t at, int64_t y0, int64_t y1, int64_t x0, int64_t x1, int64_t count) {
          sum_t<T> sum = 0;
          each_part(y0, y1, count, [&](int64_t first, int64_t last) {
            for (int64_t i = first; i < last; ++i)
              for (int64_t j = x0; j < x1; ++j) sum += static_cast<sum_t<T>>(in[i * width + j]);
          });
          out[at] = static_cast<T>(y1 > y0 && x1 > x0 ? sum / static_cast<sum_t<T>>(count) : 0);
        });
      });
    });
  });
}

// The adjoint: spreads each element of grad over its window.
template <class Windows>
void spread(const Tensor& grad, Tensor& result, int64_t width, Windows&& windows) {
  with_contiguous(result, [&](Tensor& y) {
    const Tensor source = contiguous(grad);
    visit<dtypes::floating>(y.dtype(), [&]<class T>() {
      const int64_t size = plane_size(y);
      each_plane(planes_of(y), size, [&](int64_t p) {
        const T* in = source.elements<T>() + p * plane_size(grad);
        sum_plane(y.elements<T>() + p * size, size, [&](sum_t<T>* sums) {
          windows([&](int64_t at, int64_t y0, int64_t y1, int64_t x0, int64_t x1, int64_t count) {
            if (y1 <= y0 || x1 <= x0) return;
            const sum_t<T> share = static_cast<sum_t<T>>(in[at]) / static_cast<sum_t<T>>(count);
            each_part(y0, y1, count, [&](int64_t first, int64_t last) {
              for (int64_t i = first; i < last; ++i)
                for (int64_t j = x0; j < x1; ++j) sums[i * width + j] += share;
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
                             const Dims& padding, const Dims& dilation, bool, Tensor& result,
                             Tensor& indices) {
  const Window w = window_of(x.sizes(), result.sizes(), kernel, stride, padding, dilation);
  const bool simple = kernel == Dims{2, 2} && w.stride_y == 2 && w.stride_x == 2 && w.pad_y == 0 &&
                      w.pad_x == 0 && dilation == Dims{1, 1} && 2 * w.out_height <= w.height &&
                      2 * w.out_width <= w.width;
  with_contiguous(result, [&](Tensor& values) {
    const Tensor source = contiguous(x);
    visit<dtypes::real>(x.dtype(), [&]<class T>() {
      each_plane(planes_of(x), plane_size(values) * w.kernel_y * w.kernel_x, [&](int64_t p) {
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
                bool count_include_pad, Tensor& y) {
  const Window w = window_of(x.sizes(), y.sizes(), kernel, stride, padding, {1, 1});
  average(x, y, w.width, [&](auto&& body) { each_average(w, count_include_pad, body); });
}

void avg_pool2d_grad_x(const Tensor& grad, const Dims& size, const Dims& kernel, const Dims& stride,
                       const Dims& padding, bool, bool count_include_pad, Tensor& y) {
  const Window w = window_of(size, grad.sizes(), kernel, stride, padding, {1, 1});
  spread(grad, y, w.width, [&](auto&& body) { each_average(w, count_include_pad, body); });
}

void adaptive_avg_pool2d(const Tensor& x, const Dims&, Tensor& y) {
  const Window w = window_of(x.sizes(), y.sizes(), {1, 1}, {}, {0, 0}, {1, 1});
  average(x, y, w.width, [&](auto&& body) { each_adaptive(w, body); });
}

void adaptive_avg_pool2d_grad_x(const Tensor& grad, const Dims& size, Tensor& y) {
  const Window w = window_of(size, grad.sizes(), {1, 1}, {}, {0, 0}, {1, 1});
  spread(grad, y, w.width, [&](auto&& body) { each_adaptive(w, body); });
}

}  // namespace moonlet::cpu

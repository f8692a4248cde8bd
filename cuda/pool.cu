// cuda/pool.cu: pooling over the planes (h, w) of images. Gradients gather, or walk a plane in one
// thread, so that results repeat.
#include <cmath>

#include <limits>

#include "cuda/device.h"
#include "cuda/geometry.cuh"
#include "cuda/scatter.h"
#include "tensor/kernels_copy.h"
#include "tensor/kernels_pool.h"

namespace moonlet::cuda {

namespace {

// One plane's window geometry.
struct Window {
  int64_t height, width, out_height, out_width;
  int64_t kernel_y, kernel_x, stride_y, stride_x, pad_y, pad_x, dilation_y, dilation_x;
  bool adaptive = false, count_padding = true;
};

Window window_of(const Dims& in, const Dims& out, const Dims& kernel, const Dims& stride_given,
                 const Dims& padding, const Dims& dilation) {
  const Dims& stride = stride_given.empty() ? kernel : stride_given;
  const int i = in.size(), o = out.size();
  return {in[i - 2],  in[i - 1],  out[o - 2],  out[o - 1],
          kernel[0],  kernel[1],  stride[0],   stride[stride.size() - 1],
          padding[0], padding[1], dilation[0], dilation[1]};
}

// The part of the plane that one element of an average is made of, and by how much it divides.
struct PoolRegion {
  int64_t y0, y1, x0, x1, count;
};
__device__ inline PoolRegion region_of(const Window& w, int64_t oy, int64_t ox) {
  if (w.adaptive) {
    PoolRegion s{
        oy * w.height / w.out_height, ((oy + 1) * w.height + w.out_height - 1) / w.out_height,
        ox * w.width / w.out_width, ((ox + 1) * w.width + w.out_width - 1) / w.out_width, 0};
    s.count = (s.y1 - s.y0) * (s.x1 - s.x0);
    return s;
  }
  PoolRegion s{oy * w.stride_y - w.pad_y, 0, ox * w.stride_x - w.pad_x, 0, 0};
  s.y1 = s.y0 + w.kernel_y < w.height + w.pad_y ? s.y0 + w.kernel_y : w.height + w.pad_y;
  s.x1 = s.x0 + w.kernel_x < w.width + w.pad_x ? s.x0 + w.kernel_x : w.width + w.pad_x;
  s.count = (s.y1 - s.y0) * (s.x1 - s.x0);
  s.y0 = s.y0 > 0 ? s.y0 : 0;
  s.x0 = s.x0 > 0 ? s.x0 : 0;
  s.y1 = s.y1 < w.height ? s.y1 : w.height;
  s.x1 = s.x1 < w.width ? s.x1 : w.width;
  const int64_t inside = s.y1 > s.y0 && s.x1 > s.x0 ? (s.y1 - s.y0) * (s.x1 - s.x0) : 0;
  if (!w.count_padding) s.count = inside;
  return s;
}

template <class C>
__global__ void average_kernel(Window w, int64_t count, Array x, Array y) {
  for (MOONLET_EACH(e, count)) {
    const int64_t ox = e % w.out_width, oy = e / w.out_width % w.out_height;
    const int64_t base = e / w.out_width / w.out_height * w.height * w.width;
    const PoolRegion s = region_of(w, oy, ox);
    C sum = C(0);
    for (int64_t i = s.y0; i < s.y1; ++i)
      for (int64_t j = s.x0; j < s.x1; ++j) sum += x.get<C>(base + i * w.width + j);
    y.set<C>(e, s.y1 > s.y0 && s.x1 > s.x0 ? sum / static_cast<C>(s.count) : C(0));
  }
}

// The range of outputs along one axis whose windows may hold position i.
__device__ inline void range_of(const Window& w, bool vertical, int64_t i, int64_t* from,
                                int64_t* to) {
  const int64_t size = vertical ? w.height : w.width, outs = vertical ? w.out_height : w.out_width;
  if (w.adaptive) {
    *from = i * outs / size;
    *to = ((i + 1) * outs + size - 1) / size;
  } else {
    const int64_t at = i + (vertical ? w.pad_y : w.pad_x);
    const int64_t kernel = vertical ? w.kernel_y : w.kernel_x;
    const int64_t stride = vertical ? w.stride_y : w.stride_x;
    *from = at < kernel ? 0 : (at - kernel) / stride + 1;
    *to = at / stride + 1;
  }
  if (*to > outs) *to = outs;
}

// Each element of the plane collects its share of the outputs that saw it.
template <class C>
__global__ void spread_kernel(Window w, int64_t count, Array grad, Array y) {
  for (MOONLET_EACH(e, count)) {
    const int64_t ix = e % w.width, iy = e / w.width % w.height;
    const int64_t base = e / w.width / w.height * w.out_height * w.out_width;
    int64_t y0, y1, x0, x1;
    range_of(w, true, iy, &y0, &y1);
    range_of(w, false, ix, &x0, &x1);
    C sum = C(0);
    for (int64_t oy = y0; oy < y1; ++oy)
      for (int64_t ox = x0; ox < x1; ++ox) {
        const PoolRegion s = region_of(w, oy, ox);
        if (iy < s.y0 || iy >= s.y1 || ix < s.x0 || ix >= s.x1) continue;
        sum += grad.get<C>(base + oy * w.out_width + ox) / static_cast<C>(s.count);
      }
    y.set<C>(e, sum);
  }
}

__device__ inline int64_t first_inside(int64_t start, int64_t step) {
  return start >= 0 ? start : start + (-start + step - 1) / step * step;
}

template <class C>
__global__ void max_kernel(Window w, int64_t count, Array x, Array values, int64_t* indices,
                           C nothing) {
  for (MOONLET_EACH(e, count)) {
    const int64_t ox = e % w.out_width, oy = e / w.out_width % w.out_height;
    const int64_t base = e / w.out_width / w.out_height * w.height * w.width;
    const int64_t y0 = oy * w.stride_y - w.pad_y, x0 = ox * w.stride_x - w.pad_x;
    const int64_t ys = first_inside(y0, w.dilation_y), xs = first_inside(x0, w.dilation_x);
    int64_t at = (ys < w.height ? ys : w.height - 1) * w.width + (xs < w.width ? xs : w.width - 1);
    // A window that lies in the padding has no maximum.
    const bool inside = ys < w.height && ys < y0 + w.kernel_y * w.dilation_y && xs < w.width &&
                        xs < x0 + w.kernel_x * w.dilation_x;
    C best = inside ? x.get<C>(base + at) : nothing;
    for (int64_t i = ys; i < w.height && i < y0 + w.kernel_y * w.dilation_y; i += w.dilation_y)
      for (int64_t j = xs; j < w.width && j < x0 + w.kernel_x * w.dilation_x; j += w.dilation_x) {
        const C v = x.get<C>(base + i * w.width + j);
        if (v > best || v != v) {
          best = v;
          at = i * w.width + j;
        }
      }
    values.set<C>(e, best);
    indices[e] = at + 1;
  }
}

// One thread a plane, in the order of the outputs.
template <class C>
__global__ void unpool_kernel(int64_t planes, int64_t size, int64_t places, Array grad,
                              const int64_t* indices, Array y) {
  for (MOONLET_EACH(p, planes)) {
    for (int64_t i = p * places; i < (p + 1) * places; ++i) {
      const int64_t at = p * size + indices[i] - 1;
      y.set<C>(at, y.get<C>(at) + grad.get<C>(i));
    }
  }
}

__global__ void plane_targets_kernel(int64_t count, int64_t size, int64_t places,
                                     const int64_t* indices, int64_t* to) {
  for (MOONLET_EACH(i, count)) to[i] = i / places * size + indices[i] - 1;
}

template <class T>
__global__ void plane_gather_kernel(int64_t count, int64_t size, int64_t places,
                                    const int64_t* indices, const T* x, T* y) {
  for (MOONLET_EACH(i, count)) y[i] = x[i / places * size + indices[i] - 1];
}

int64_t plane_size(const Tensor& t) { return t.size(-1) * t.size(-2); }

void average(const char* op, const Tensor& x, const Window& w, Tensor& result) {
  if (result.numel() == 0) return;
  with_contiguous(result, [&](Tensor& y) {
    const Call call(y, op);
    const Tensor source = contiguous(x);
    visit_device_compute<dtypes::floating>(y.dtype(), [&]<class C>() {
      MOONLET_LAUNCH((average_kernel<C>), blocks_for(y.numel()), kBlock, 0, call.stream(), w,
                     y.numel(), array(source), array(y));
    });
    call.done();
  });
}

void spread(const char* op, const Tensor& grad, const Window& w, Tensor& result) {
  if (result.numel() == 0) return;
  with_contiguous(result, [&](Tensor& y) {
    if (grad.numel() == 0) return fill(y, Scalar(0));
    const Call call(y, op);
    const Tensor source = contiguous(grad);
    visit_device_compute<dtypes::floating>(y.dtype(), [&]<class C>() {
      MOONLET_LAUNCH((spread_kernel<C>), blocks_for(y.numel()), kBlock, 0, call.stream(), w,
                     y.numel(), array(source), array(y));
    });
    call.done();
  });
}

// The maximum of a window that lies in the padding, for values of dtype `t`.
template <class C>
C maximum_of_nothing(DType t) {
  if constexpr (std::is_floating_point_v<C>)
    return -std::numeric_limits<C>::infinity();
  else
    return visit<dtypes::integral>(t,
                                   []<class T>() { return C(std::numeric_limits<T>::lowest()); });
}

}  // namespace

void max_pool2d_with_indices(const Tensor& x, const Dims& kernel, const Dims& stride,
                             const Dims& padding, const Dims& dilation, bool, Tensor& result,
                             Tensor& indices) {
  if (result.numel() == 0) return;
  with_contiguous(result, [&](Tensor& values) {
    const Call call(x, "max_pool2d");
    const Window w = window_of(x.sizes(), values.sizes(), kernel, stride, padding, dilation);
    const Tensor source = contiguous(x);
    visit_device_compute<dtypes::real>(x.dtype(), [&]<class C>() {
      const C nothing = maximum_of_nothing<C>(x.dtype());
      MOONLET_LAUNCH((max_kernel<C>), blocks_for(values.numel()), kBlock, 0, call.stream(), w,
                     values.numel(), array(source), array(values), indices.elements<int64_t>(),
                     nothing);
    });
    call.done();
  });
}

void max_pool2d_grad_x(const Tensor& grad, const Tensor& indices, const Dims&, Tensor& result) {
  with_contiguous(result, [&](Tensor& y) {
    const Call call(y, "max_pool2d_grad_x");
    fill(y, Scalar(0));
    if (grad.numel() == 0) return;
    const int64_t size = plane_size(y), places = plane_size(grad), planes = grad.numel() / places;
    const Tensor slope = contiguous(grad);
    const Tensor positions = checked_positions("max_pool2d_grad_x", indices, size);
    const int64_t* at = positions.elements<int64_t>();
    // With few planes a thread each would leave the device idle.
    if (planes < 256) {
      Tensor targets = call.scratch({grad.numel()}, DType::Int64);
      MOONLET_LAUNCH(plane_targets_kernel, blocks_for(grad.numel()), kBlock, 0, call.stream(),
                     grad.numel(), size, places, at, targets.elements<int64_t>());
      call.done();
      return scatter_ordered(call, y, 1, y.numel(), 1, targets, slope, true);
    }
    // 16-bit floats add up in float32 and are rounded once.
    const bool narrow = is_floating(y.dtype()) && size_of(y.dtype()) == 2;
    Tensor sums = narrow ? call.scratch(y.sizes(), DType::Float32) : y;
    if (narrow) fill(sums, Scalar(0));
    visit_device_compute<dtypes::real>(y.dtype(), [&]<class C>() {
      MOONLET_LAUNCH((unpool_kernel<C>), blocks_for(planes), kBlock, 0, call.stream(), planes, size,
                     places, array(slope), at, array(sums));
    });
    call.done();
    if (narrow) copy(y, sums);
  });
}

void max_pool2d_grad_x_grad_grad(const Tensor& grad, const Tensor& indices, Tensor& y) {
  if (y.numel() == 0) return;
  const Call call(y, "max_pool2d_grad_x_grad_grad");
  const Tensor source = contiguous(grad);
  const Tensor positions =
      checked_positions("max_pool2d_grad_x_grad_grad", indices, plane_size(grad));
  visit_bytes<Bytes16>(y.dtype(), [&]<class T>() {
    MOONLET_LAUNCH((plane_gather_kernel<T>), blocks_for(y.numel()), kBlock, 0, call.stream(),
                   y.numel(), plane_size(grad), plane_size(y),
                   static_cast<const int64_t*>(positions.elements<int64_t>()),
                   static_cast<const T*>(source.elements<T>()), y.elements<T>());
  });
  call.done();
}

void avg_pool2d(const Tensor& x, const Dims& kernel, const Dims& stride, const Dims& padding, bool,
                bool count_include_pad, Tensor& y) {
  Window w = window_of(x.sizes(), y.sizes(), kernel, stride, padding, {1, 1});
  w.count_padding = count_include_pad;
  average("avg_pool2d", x, w, y);
}

void avg_pool2d_grad_x(const Tensor& grad, const Dims& size, const Dims& kernel, const Dims& stride,
                       const Dims& padding, bool, bool count_include_pad, Tensor& y) {
  Window w = window_of(size, grad.sizes(), kernel, stride, padding, {1, 1});
  w.count_padding = count_include_pad;
  spread("avg_pool2d_grad_x", grad, w, y);
}

void adaptive_avg_pool2d(const Tensor& x, const Dims&, Tensor& y) {
  Window w = window_of(x.sizes(), y.sizes(), {1, 1}, {}, {0, 0}, {1, 1});
  w.adaptive = true;
  average("adaptive_avg_pool2d", x, w, y);
}

void adaptive_avg_pool2d_grad_x(const Tensor& grad, const Dims& size, Tensor& y) {
  Window w = window_of(size, grad.sizes(), {1, 1}, {}, {0, 0}, {1, 1});
  w.adaptive = true;
  spread("adaptive_avg_pool2d_grad_x", grad, w, y);
}

}  // namespace moonlet::cuda

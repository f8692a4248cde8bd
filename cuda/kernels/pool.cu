// cuda/kernels/pool.cu: pooling over the planes (h, w) of images. Gradients gather, or walk a plane
// in one thread, so that results repeat.
#include <cmath>

#include <limits>
#include <optional>

#include "cuda/kernels/common/faults.cuh"
#include "cuda/kernels/common/geometry.cuh"
#include "cuda/kernels/scatter.h"
#include "cuda/runtime/device.h"
#include "tensor/functors/pool_window.h"
#include "tensor/kernels_copy.h"
#include "tensor/kernels_pool.h"

namespace moonlet::cuda {

namespace {

template <class C>
__global__ void average_kernel(PoolWindow w, int64_t count, Array x, Array y) {
  for (MOONLET_EACH(e, count)) {
    const int64_t ox = e % w.x.out, oy = e / w.x.out % w.y.out;
    const int64_t base = e / w.x.out / w.y.out * w.y.size * w.x.size;
    const PoolSpan ys = average_span(w, w.y, oy), xs = average_span(w, w.x, ox);
    C sum = C(0);
    for (int64_t i = ys.begin; i < ys.end; ++i)
      for (int64_t j = xs.begin; j < xs.end; ++j) sum += x.get<C>(base + i * w.x.size + j);
    y.set<C>(e, is_empty(ys, xs) ? C(0) : sum / static_cast<C>(average_count(w, ys, xs)));
  }
}

// The range of outputs along one axis whose windows may hold position i.
__device__ inline void range_of(const PoolWindow& w, const PoolAxis& a, int64_t i, int64_t* from,
                                int64_t* to) {
  if (w.adaptive) {
    *from = i * a.out / a.size;
    *to = ((i + 1) * a.out + a.size - 1) / a.size;
  } else {
    const int64_t at = i + a.pad;
    *from = at < a.kernel ? 0 : (at - a.kernel) / a.stride + 1;
    *to = at / a.stride + 1;
  }
  if (*to > a.out) *to = a.out;
}

// Each element of the plane collects its share of the outputs whose windows hold it.
template <class C>
__global__ void spread_kernel(PoolWindow w, int64_t count, Array grad, Array y) {
  for (MOONLET_EACH(e, count)) {
    const int64_t ix = e % w.x.size, iy = e / w.x.size % w.y.size;
    const int64_t base = e / w.x.size / w.y.size * w.y.out * w.x.out;
    int64_t y0, y1, x0, x1;
    range_of(w, w.y, iy, &y0, &y1);
    range_of(w, w.x, ix, &x0, &x1);
    C sum = C(0);
    for (int64_t oy = y0; oy < y1; ++oy)
      for (int64_t ox = x0; ox < x1; ++ox) {
        const PoolSpan ys = average_span(w, w.y, oy), xs = average_span(w, w.x, ox);
        if (iy < ys.begin || iy >= ys.end || ix < xs.begin || ix >= xs.end) continue;
        sum += grad.get<C>(base + oy * w.x.out + ox) / static_cast<C>(average_count(w, ys, xs));
      }
    y.set<C>(e, sum);
  }
}

template <class C>
__global__ void max_kernel(PoolWindow w, int64_t count, Array x, Array values, int64_t* indices,
                           C nothing) {
  for (MOONLET_EACH(e, count)) {
    const int64_t ox = e % w.x.out, oy = e / w.x.out % w.y.out;
    const int64_t base = e / w.x.out / w.y.out * w.y.size * w.x.size;
    const PoolSpan ys = maximum_span(w, w.y, oy), xs = maximum_span(w, w.x, ox);
    const int64_t row = ys.begin < w.y.size ? ys.begin : w.y.size - 1;
    int64_t at = row * w.x.size + (xs.begin < w.x.size ? xs.begin : w.x.size - 1);
    // A window that lies in the padding has no maximum.
    C best = is_empty(ys, xs) ? nothing : x.get<C>(base + at);
    for (int64_t i = ys.begin; i < ys.end; i += w.y.dilation)
      for (int64_t j = xs.begin; j < xs.end; j += w.x.dilation) {
        const C v = x.get<C>(base + i * w.x.size + j);
        if (v > best || v != v) {
          best = v;
          at = i * w.x.size + j;
        }
      }
    values.set<C>(e, best);
    indices[e] = at + 1;
  }
}

// One thread a plane, in the order of the outputs.
template <class C>
__global__ void unpool_kernel(int64_t planes, int64_t size, int64_t positions, Array grad,
                              Positions indices, Array y) {
  for (MOONLET_EACH(p, planes)) {
    for (int64_t i = p * positions; i < (p + 1) * positions; ++i) {
      const int64_t position = indices.position(i), at = p * size + position;
      if (position < 0) continue;
      y.set<C>(at, y.get<C>(at) + grad.get<C>(i));
    }
  }
}

__global__ void plane_targets_kernel(int64_t count, int64_t size, int64_t positions,
                                     Positions indices, int64_t* to) {
  for (MOONLET_EACH(i, count)) {
    const int64_t position = indices.position(i);
    to[i] = position < 0 ? -1 : i / positions * size + position;
  }
}

template <class T>
__global__ void plane_gather_kernel(int64_t count, int64_t size, int64_t positions,
                                    Positions indices, const T* x, T* y) {
  for (MOONLET_EACH(i, count)) {
    const int64_t position = indices.position(i);
    y[i] = position < 0 ? T{} : x[i / positions * size + position];
  }
}

int64_t plane_size(const Tensor& t) { return t.size(-1) * t.size(-2); }

void average(const char* op, const Tensor& x, const PoolWindow& w, Tensor& result) {
  if (result.numel() == 0) return;
  with_contiguous(result, [&](Tensor& y) {
    const Call call(y, op);
    const Tensor source = contiguous(x);
    const auto launch = [&]<class C>() {
      MOONLET_LAUNCH((average_kernel<C>), blocks_for(y.numel()), kBlock, 0, call.stream(), w,
                     y.numel(), array(source), array(y));
    };
    if (is_integral(y.dtype()))
      launch.template operator()<int64_t>();
    else
      visit_device_compute<dtypes::floating>(y.dtype(), launch);
    call.done();
  });
}

void spread(const char* op, const Tensor& grad, const PoolWindow& w, Tensor& result) {
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

void maximum(const char* op, const Tensor& x, const PoolWindow& w, Tensor& result,
             Tensor& indices) {
  if (result.numel() == 0) return;
  with_contiguous(result, [&](Tensor& values) {
    with_contiguous(indices, [&](Tensor& positions) {
      const Call call(x, op);
      const Tensor source = contiguous(x);
      visit_device_compute<dtypes::real>(x.dtype(), [&]<class C>() {
        const C nothing = maximum_of_nothing<C>(x.dtype());
        MOONLET_LAUNCH((max_kernel<C>), blocks_for(values.numel()), kBlock, 0, call.stream(), w,
                       values.numel(), array(source), array(values), positions.elements<int64_t>(),
                       nothing);
      });
      call.done();
    });
  });
}

}  // namespace

void max_pool2d_with_indices(const Tensor& x, const Dims& kernel, const Dims& stride,
                             const Dims& padding, const Dims& dilation, bool, Tensor& values,
                             Tensor& indices) {
  const PoolWindow w = pool_window(x.sizes(), values.sizes(), kernel, stride, padding, dilation);
  maximum("max_pool2d", x, w, values, indices);
}

void adaptive_max_pool2d(const Tensor& x, const Dims&, Tensor& values, Tensor& indices) {
  maximum("adaptive_max_pool2d", x, adaptive_window(x.sizes(), values.sizes()), values, indices);
}

void max_pool2d_grad_x(const Tensor& grad, const Tensor& indices, const Dims&, Tensor& result) {
  with_contiguous(result, [&](Tensor& y) {
    const Call call(y, "max_pool2d_grad_x");
    fill(y, Scalar(0));
    if (grad.numel() == 0) return;
    const int64_t size = plane_size(y), pixels = plane_size(grad), planes = grad.numel() / pixels;
    const Tensor gradient = contiguous(grad);
    const Tensor positions = converted(indices, DType::Int64);
    const Positions at = positions_in("max_pool2d_grad_x", positions, size);
    // With few planes a thread each would leave the device idle.
    if (planes < 256) {
      Tensor targets = call.scratch({grad.numel()}, DType::Int64);
      MOONLET_LAUNCH(plane_targets_kernel, blocks_for(grad.numel()), kBlock, 0, call.stream(),
                     grad.numel(), size, pixels, at, targets.elements<int64_t>());
      call.done();
      return scatter_ordered(call, y, 1, y.numel(), 1, targets, gradient, ScatterFold::Add);
    }
    const bool narrow = sum_dtype(y.dtype()) != y.dtype();
    Tensor sums = narrow ? call.scratch(y.sizes(), sum_dtype(y.dtype())) : y;
    if (narrow) fill(sums, Scalar(0));
    visit_device_compute<dtypes::real>(y.dtype(), [&]<class C>() {
      MOONLET_LAUNCH((unpool_kernel<C>), blocks_for(planes), kBlock, 0, call.stream(), planes, size,
                     pixels, array(gradient), at, array(sums));
    });
    call.done();
    if (narrow) copy(y, sums);
  });
}

void max_pool2d_grad_x_grad_grad(const Tensor& grad, const Tensor& indices, Tensor& y) {
  if (y.numel() == 0) return;
  const Call call(y, "max_pool2d_grad_x_grad_grad");
  const Tensor source = contiguous(grad);
  const Tensor positions = converted(indices, DType::Int64);
  const Positions at = positions_in("max_pool2d_grad_x_grad_grad", positions, plane_size(grad));
  visit_bytes<Bytes16>(y.dtype(), [&]<class T>() {
    MOONLET_LAUNCH((plane_gather_kernel<T>), blocks_for(y.numel()), kBlock, 0, call.stream(),
                   y.numel(), plane_size(grad), plane_size(y), at,
                   static_cast<const T*>(source.elements<T>()), y.elements<T>());
  });
  call.done();
}

void avg_pool2d(const Tensor& x, const Dims& kernel, const Dims& stride, const Dims& padding, bool,
                bool count_include_pad, std::optional<int64_t> divisor, Tensor& y) {
  PoolWindow w = pool_window(x.sizes(), y.sizes(), kernel, stride, padding, {1, 1});
  w.count_padding = count_include_pad;
  w.divisor = divisor.value_or(0);
  average("avg_pool2d", x, w, y);
}

void avg_pool2d_grad_x(const Tensor& grad, const Dims& size, const Dims& kernel, const Dims& stride,
                       const Dims& padding, bool, bool count_include_pad,
                       std::optional<int64_t> divisor, Tensor& y) {
  PoolWindow w = pool_window(size, grad.sizes(), kernel, stride, padding, {1, 1});
  w.count_padding = count_include_pad;
  w.divisor = divisor.value_or(0);
  spread("avg_pool2d_grad_x", grad, w, y);
}

void adaptive_avg_pool2d(const Tensor& x, const Dims&, Tensor& y) {
  average("adaptive_avg_pool2d", x, adaptive_window(x.sizes(), y.sizes()), y);
}

void adaptive_avg_pool2d_grad_x(const Tensor& grad, const Dims& size, Tensor& y) {
  spread("adaptive_avg_pool2d_grad_x", grad, adaptive_window(size, grad.sizes()), y);
}

}  // namespace moonlet::cuda

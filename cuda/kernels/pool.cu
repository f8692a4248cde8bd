// cuda/kernels/pool.cu: pooling over the planes (h, w) of images, whose channels may lie side by
// side. Gradients gather, or walk a plane in order, so that results repeat.
#include <cmath>

#include <limits>
#include <optional>
#include <type_traits>

#include "cuda/kernels/common/channels.cuh"
#include "cuda/kernels/common/faults.cuh"
#include "cuda/kernels/common/geometry.cuh"
#include "cuda/kernels/common/team.cuh"
#include "cuda/kernels/common/typed.cuh"
#include "cuda/kernels/scatter.h"
#include "cuda/runtime/device.h"
#include "tensor/functors/pool_window.h"
#include "tensor/kernels_copy.h"
#include "tensor/kernels_pool.h"
#include "tensor/shapes/window.h"

namespace moonlet::cuda {

namespace {

// Planes in memory. The elements of a plane lie one after the other, or, with the channels of an
// image side by side, `channels` apart. Threads take a pack of channels each, which is one element
// where planes lie apart.
template <class I>
struct PoolGrid {
  PoolWindowOf<I> w;
  I count;              // jobs: a pack of one pixel each
  I packs, step;        // packs of the channels side by side, and elements from pixel to pixel
  I in_size, out_size;  // elements of what lies together: a plane or an image
  Divisor<I> by_packs, by_width, by_height;  // of the pixels that jobs are
  Divisor<I> by_stride_y, by_stride_x;

  // Jobs are the pixels of planes of height x width.
  PoolGrid(const PoolWindow& given, int64_t jobs, int64_t channels, int pack, int64_t height,
           int64_t width)
      : w{axis(given.y), axis(given.x), given.adaptive, given.count_padding, given.divisor},
        count(static_cast<I>(jobs / pack)),
        packs(static_cast<I>(channels / pack)),
        step(static_cast<I>(channels)),
        in_size(static_cast<I>(given.y.size * given.x.size * channels)),
        out_size(static_cast<I>(given.y.out * given.x.out * channels)),
        by_packs(channels / pack),
        by_width(width),
        by_height(height),
        by_stride_y(given.y.stride),
        by_stride_x(given.x.stride) {}
  static PoolAxisOf<I> axis(const PoolAxis& a) {
    return {static_cast<I>(a.size),   static_cast<I>(a.out), static_cast<I>(a.kernel),
            static_cast<I>(a.stride), static_cast<I>(a.pad), static_cast<I>(a.dilation)};
  }
};

// The pixel of a job, and where the plane or image that it is in begins, counted in these.
template <class I>
struct Pixel {
  I x, y, block, channel;
};
template <int kCount, class I>
__device__ __forceinline__ Pixel<I> pixel_of(const PoolGrid<I>& g, I job) {
  Pixel<I> p;
  p.channel = job;
  p.x = g.by_packs.split(p.channel);
  p.channel *= kCount;
  p.y = g.by_width.split(p.x);
  p.block = g.by_height.split(p.y);
  return p;
}

template <int kCount, class C, class I, class Source>
__global__ void __launch_bounds__(kBlock)
    average_kernel(const MOONLET_GRID_CONSTANT PoolGrid<I> g, Source x, Source y) {
  for (MOONLET_EACH_OF(I, job, g.count)) {
    const Pixel<I> p = pixel_of<kCount>(g, job);
    const I base = p.block * g.in_size + p.channel;
    const PoolSpanOf<I> ys = average_span(g.w, g.w.y, p.y), xs = average_span(g.w, g.w.x, p.x);
    C sum[kCount] = {};
    for (I i = ys.begin; i < ys.end; ++i) {
      I at = base + (i * g.w.x.size + xs.begin) * g.step;
      for (I j = xs.begin; j < xs.end; ++j, at += g.step) {
        C v[kCount];
        load_at<kCount>(x, at, v);
        MOONLET_UNROLL
        for (int k = 0; k < kCount; ++k) sum[k] += v[k];
      }
    }
    const C divisor = is_empty(ys, xs) ? C(1) : static_cast<C>(average_count(g.w, ys, xs));
    MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k) sum[k] = sum[k] / divisor;
    store_at<kCount>(y, int64_t{job} * kCount, sum);
  }
}

// The range of outputs along one axis whose windows may hold position i.
template <class I>
__device__ __forceinline__ void range_of(const PoolWindowOf<I>& w, const PoolAxisOf<I>& a,
                                         const Divisor<I>& by_stride, I i, I* from, I* to) {
  if (w.adaptive) {
    *from = i * a.out / a.size;
    *to = ((i + 1) * a.out + a.size - 1) / a.size;
  } else {
    I last = i + a.pad, before = last - a.kernel;
    *from = before < 0 ? 0 : by_stride.split(before) + 1;
    *to = by_stride.split(last) + 1;
  }
  if (*to > a.out) *to = a.out;
}

// Each element of the plane collects its share of the outputs whose windows hold it.
template <int kCount, class C, class I, class Source>
__global__ void __launch_bounds__(kBlock)
    spread_kernel(const MOONLET_GRID_CONSTANT PoolGrid<I> g, Source grad, Source y) {
  for (MOONLET_EACH_OF(I, job, g.count)) {
    const Pixel<I> p = pixel_of<kCount>(g, job);
    const I base = p.block * g.out_size + p.channel;
    I y0, y1, x0, x1;
    range_of(g.w, g.w.y, g.by_stride_y, p.y, &y0, &y1);
    range_of(g.w, g.w.x, g.by_stride_x, p.x, &x0, &x1);
    C sum[kCount] = {};
    for (I oy = y0; oy < y1; ++oy) {
      const PoolSpanOf<I> ys = average_span(g.w, g.w.y, oy);
      if (p.y < ys.begin || p.y >= ys.end) continue;
      for (I ox = x0; ox < x1; ++ox) {
        const PoolSpanOf<I> xs = average_span(g.w, g.w.x, ox);
        if (p.x < xs.begin || p.x >= xs.end) continue;
        const C divisor = static_cast<C>(average_count(g.w, ys, xs));
        C v[kCount];
        load_at<kCount>(grad, base + (oy * g.w.x.out + ox) * g.step, v);
        MOONLET_UNROLL
        for (int k = 0; k < kCount; ++k) sum[k] += v[k] / divisor;
      }
    }
    store_at<kCount>(y, int64_t{job} * kCount, sum);
  }
}

template <int kCount, class C, class I, class Source>
__global__ void __launch_bounds__(kBlock)
    max_kernel(const MOONLET_GRID_CONSTANT PoolGrid<I> g, Source x, Source values, int64_t* indices,
               C nothing) {
  for (MOONLET_EACH_OF(I, job, g.count)) {
    const Pixel<I> p = pixel_of<kCount>(g, job);
    const I base = p.block * g.in_size + p.channel;
    const PoolSpanOf<I> ys = maximum_span(g.w, g.w.y, p.y), xs = maximum_span(g.w, g.w.x, p.x);
    const I row = ys.begin < g.w.y.size ? ys.begin : g.w.y.size - 1;
    const I first = row * g.w.x.size + (xs.begin < g.w.x.size ? xs.begin : g.w.x.size - 1);
    C best[kCount];
    I at[kCount];
    // A window that lies in the padding has no maximum.
    if (!is_empty(ys, xs)) load_at<kCount>(x, base + first * g.step, best);
    MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k) {
      at[k] = first;
      if (is_empty(ys, xs)) best[k] = nothing;
    }
    for (I i = ys.begin; i < ys.end; i += g.w.y.dilation)
      for (I j = xs.begin; j < xs.end; j += g.w.x.dilation) {
        const I position = i * g.w.x.size + j;
        C v[kCount];
        load_at<kCount>(x, base + position * g.step, v);
        MOONLET_UNROLL
        for (int k = 0; k < kCount; ++k) {
          const bool larger = v[k] > best[k] || v[k] != v[k];
          best[k] = larger ? v[k] : best[k];
          at[k] = larger ? position : at[k];
        }
      }
    store_at<kCount>(values, int64_t{job} * kCount, best);
    int64_t* const to = indices + int64_t{job} * kCount;
    MOONLET_UNROLL
    for (int k = 0; k < kCount; k += 2) {
      if constexpr (kCount == 1) {
        *to = int64_t{at[0]} + 1;
      } else {
        const int64_t two[2] = {int64_t{at[k]} + 1, int64_t{at[k + 1]} + 1};
        store_elements<2>(to + k, two);
      }
    }
  }
}

// A warp for each plane, 32 outputs at a time: those that go to one position take turns, in their
// order.
template <class T, class S>
__global__ void __launch_bounds__(kBlock)
    unpool_kernel(int64_t planes, int64_t size, int64_t positions, Typed<T> grad, Positions indices,
                  Typed<S> sums) {
  using C = computed_t<S>;
  const int lane = threadIdx.x % kWarp;
  const unsigned before = (1u << lane) - 1;
  const int64_t step = int64_t{gridDim.x} * (kBlock / kWarp);
  for (int64_t p = int64_t{blockIdx.x} * (kBlock / kWarp) + threadIdx.x / kWarp; p < planes;
       p += step)
    for (int64_t first = p * positions; first < (p + 1) * positions; first += kWarp) {
      const int64_t i = first + lane;
      const bool there = i < (p + 1) * positions;
      const int64_t position = there ? indices.position(i) : -1, at = p * size + position;
      const C value = there ? grad.template get<C>(i) : C(0);
      const unsigned same = __match_any_sync(kAllLanes, static_cast<long long>(position));
      const int turn = position < 0 ? -1 : __popc(same & before);
      for (int now = 0; __any_sync(kAllLanes, turn >= now); ++now) {
        if (turn == now) sums.template set<C>(at, sums.template get<C>(at) + value);
        __syncwarp();
      }
    }
}

// A thread for each channel of an image whose channels lie side by side, kFlight outputs at a time.
template <class T, class S>
__global__ void __launch_bounds__(kBlock)
    unpool_channels_kernel(int64_t images, int64_t channels, int64_t size, int64_t positions,
                           Typed<T> grad, Positions indices, Typed<S> sums) {
  using C = computed_t<S>;
  constexpr int kFlight = 4;
  for (MOONLET_EACH(job, images * channels)) {
    const int64_t image = job / channels, channel = job - image * channels;
    const int64_t base = image * size * channels + channel;
    for (int64_t i = 0; i < positions; i += kFlight) {
      int64_t at[kFlight];
      C value[kFlight], held[kFlight];
      MOONLET_UNROLL
      for (int f = 0; f < kFlight; ++f) {
        const int64_t from = (image * positions + i + f) * channels + channel;
        at[f] = i + f < positions ? indices.position(from) : -1;
        value[f] = i + f < positions ? grad.template get<C>(from) : C(0);
      }
      MOONLET_UNROLL
      for (int f = 0; f < kFlight; ++f)
        held[f] = at[f] < 0 ? C(0) : sums.template get<C>(base + at[f] * channels);
      MOONLET_UNROLL
      for (int f = 0; f < kFlight; ++f) {
        MOONLET_UNROLL
        for (int earlier = 0; earlier < f; ++earlier)
          if (at[earlier] == at[f]) held[f] = held[earlier];
        held[f] = convert<C>(convert<S>(held[f] + value[f]));
      }
      MOONLET_UNROLL
      for (int f = 0; f < kFlight; ++f)
        if (at[f] >= 0) sums.template set<C>(base + at[f] * channels, held[f]);
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

// Whether kernels may count the elements of a pooling, and where its windows end, in 32 bits.
bool is_narrow(const PoolWindow& w, const Tensor& x, const Tensor& y) {
  const auto reach = [&](const PoolAxis& a) {
    return w.adaptive ? (a.out + 1) * (a.size + 1)
                      : (a.out + 1) * a.stride + (a.kernel + 1) * a.dilation + a.size + 2 * a.pad;
  };
  return counts_are_narrow({x.numel(), y.numel(), reach(w.y), reach(w.x)});
}

// Calls f.template operator()<kCount, C, I>(grid, from, to) for a pooling from `from` to `to`,
// which lie alike; jobs are the pixels of `jobs`, one of the two.
template <DTypeSet kSet, class F>
void visit_pool(const PoolWindow& w, const Tensor& from, const Tensor& to, const Tensor& jobs,
                F&& f) {
  const int64_t channels = to.is_contiguous() ? 1 : to.size(1), count = jobs.numel();
  const auto grid = [&]<class I>(int pack) {
    return PoolGrid<I>(w, count, channels, pack, jobs.size(-2), jobs.size(-1));
  };
  if (!is_narrow(w, from, to))
    return visit_device_compute<kSet>(to.dtype(), [&]<class C>() {
      f.template operator()<1, C, int64_t>(grid.template operator()<int64_t>(1), array(from),
                                           array(to));
    });
  visit_device<kSet>(to.dtype(), [&]<class T>() {
    using C = computed_t<T>;
    if constexpr (!std::is_integral_v<T>) {
      if (channels % kPackOf<T> == 0 && aligned_to(from.raw(), 16) && aligned_to(to.raw(), 16))
        return f.template operator()<kPackOf<T>, C, int32_t>(
            grid.template operator()<int32_t>(kPackOf<T>), typed<T>(from), typed<T>(to));
    }
    f.template operator()<1, C, int32_t>(grid.template operator()<int32_t>(1), typed<T>(from),
                                         typed<T>(to));
  });
}

// Runs body(y) with a result that is contiguous or has its channels last: y itself, or a temporary.
template <class Body>
void with_planes(Tensor& y, Body&& body) {
  if (shapes::lies_channels_last(y)) return body(y);
  with_contiguous(y, body);
}

template <DTypeSet kSet>
void average(const char* op, const Tensor& x, const PoolWindow& w, Tensor& result) {
  if (result.numel() == 0) return;
  with_planes(result, [&](Tensor& y) {
    const Call call(y, op);
    const Tensor source = laid_as(call, y, x);
    visit_pool<kSet>(w, source, y, y,
                     [&]<int kCount, class C, class I, class Source>(const PoolGrid<I>& grid,
                                                                     Source from, Source to) {
                       MOONLET_LAUNCH((average_kernel<kCount, C, I, Source>),
                                      blocks_for(grid.count), kBlock, 0, call.stream(), grid, from,
                                      to);
                     });
    call.done();
  });
}

void spread(const char* op, const Tensor& grad, const PoolWindow& w, Tensor& result) {
  if (result.numel() == 0) return;
  with_planes(result, [&](Tensor& y) {
    if (grad.numel() == 0) return fill(y, Scalar(0));
    const Call call(y, op);
    const Tensor source = laid_as(call, y, grad);
    visit_pool<dtypes::floating>(w, source, y, y,
                                 [&]<int kCount, class C, class I, class Source>(
                                     const PoolGrid<I>& grid, Source from, Source to) {
                                   MOONLET_LAUNCH((spread_kernel<kCount, C, I, Source>),
                                                  blocks_for(grid.count), kBlock, 0, call.stream(),
                                                  grid, from, to);
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
    return C(smallest_integer(t));
}

void maximum(const char* op, const Tensor& x, const PoolWindow& w, Tensor& result,
             Tensor& indices) {
  if (result.numel() == 0) return;
  const auto run = [&](Tensor& values, Tensor& positions) {
    const Call call(x, op);
    const Tensor source = laid_as(call, values, x);
    visit_pool<dtypes::real>(w, source, values, values,
                             [&]<int kCount, class C, class I, class Source>(
                                 const PoolGrid<I>& grid, Source from, Source to) {
                               MOONLET_LAUNCH((max_kernel<kCount, C, I, Source>),
                                              blocks_for(grid.count), kBlock, 0, call.stream(),
                                              grid, from, to, positions.elements<int64_t>(),
                                              maximum_of_nothing<C>(x.dtype()));
                             });
    call.done();
  };
  if (shapes::lies_channels_last(result) && indices.strides() == result.strides())
    return run(result, indices);
  with_contiguous(result, [&](Tensor& values) {
    with_contiguous(indices, [&](Tensor& positions) { run(values, positions); });
  });
}

// Whether channels side by side are enough for a thread each.
bool gives_threads(const Tensor& y) { return y.size(0) * y.size(1) >= 4096; }

// Adds the gradients, which lie as the zeros of y, to these at their positions.
void unpool(const Call& call, const Tensor& gradient, const Positions& at, Tensor& y, bool last) {
  const int64_t size = plane_size(y), pixels = plane_size(gradient);
  const int64_t planes = gradient.numel() / pixels;
  const DType dtype = sum_dtype(y.dtype());
  const bool narrow = dtype != y.dtype();
  Tensor sums = narrow ? empty_strided(y.sizes(), y.strides(), {dtype, y.device()}, call.op()) : y;
  if (narrow) fill(sums, Scalar(0));
  visit_device<dtypes::real>(y.dtype(), [&]<class T>() {
    using S = std::conditional_t<std::is_integral_v<T>, T, Computed<T>>;
    if (last)
      MOONLET_LAUNCH((unpool_channels_kernel<T, S>), blocks_for(planes), kBlock, 0, call.stream(),
                     y.size(0), y.size(1), size, pixels, typed<T>(gradient), at, typed<S>(sums));
    else
      MOONLET_LAUNCH((unpool_kernel<T, S>), blocks_for(planes * kWarp), kBlock, 0, call.stream(),
                     planes, size, pixels, typed<T>(gradient), at, typed<S>(sums));
  });
  call.done();
  if (narrow) copy(y, sums);
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
  const bool last = shapes::lies_channels_last(result) && gives_threads(result);
  const auto run = [&](Tensor& y) {
    const Call call(y, "max_pool2d_grad_x");
    fill(y, Scalar(0));
    if (grad.numel() == 0) return;
    const int64_t size = plane_size(y), pixels = plane_size(grad), planes = grad.numel() / pixels;
    const Tensor gradient = laid_as(call, y, grad);
    const bool counted = indices.dtype() == DType::Int64;  // else it becomes contiguous
    const Tensor positions = laid_as(call, y, counted ? indices : converted(indices, DType::Int64));
    const Positions at = positions_in("max_pool2d_grad_x", positions, size);
    // With few planes a warp each would leave the device idle.
    if (!last && planes < 256) {
      Tensor targets = call.scratch({grad.numel()}, DType::Int64);
      MOONLET_LAUNCH(plane_targets_kernel, blocks_for(grad.numel()), kBlock, 0, call.stream(),
                     grad.numel(), size, pixels, at, targets.elements<int64_t>());
      call.done();
      return scatter_ordered(call, y, 1, y.numel(), 1, targets, gradient, ScatterFold::Add);
    }
    unpool(call, gradient, at, y, last);
  };
  if (last) return run(result);
  with_contiguous(result, run);
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
  average<dtypes::real>("avg_pool2d", x, w, y);
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
  average<dtypes::floating>("adaptive_avg_pool2d", x, adaptive_window(x.sizes(), y.sizes()), y);
}

void adaptive_avg_pool2d_grad_x(const Tensor& grad, const Dims& size, Tensor& y) {
  spread("adaptive_avg_pool2d_grad_x", grad, adaptive_window(size, grad.sizes()), y);
}

}  // namespace moonlet::cuda

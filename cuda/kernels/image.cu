// cuda/kernels/image.cu: windows of images as columns, and resizing along one dimension, by weights
// that a first kernel lays down. The ways back gather, so that no two threads add to one position
// and results repeat.
#include <algorithm>

#include "cuda/kernels/common/geometry.cuh"
#include "cuda/kernels/common/typed.cuh"
#include "cuda/runtime/device.h"
#include "tensor/functors/resample.h"
#include "tensor/kernels_image.h"
#include "tensor/shapes/window.h"

namespace moonlet::cuda {

namespace {

struct Windows {
  int64_t height, width, kernel_y, kernel_x, out_height, out_width;
  int64_t stride_y, stride_x, pad_y, pad_x, dilation_y, dilation_x;
};

Windows windows_of(const Dims& image, const Dims& kernel, const Dims& dilation, const Dims& padding,
                   const Dims& stride) {
  int64_t out[2];
  for (int i = 0; i < 2; ++i)
    out[i] = shapes::window_count("im2col", image[i], kernel[i], stride[i], padding[i], dilation[i],
                                  false);
  return {image[0],  image[1],  kernel[0],  kernel[1],  out[0],      out[1],
          stride[0], stride[1], padding[0], padding[1], dilation[0], dilation[1]};
}

// The largest number in the geometry: where a window may end.
int64_t reach_of(const Windows& w) {
  return std::max(w.height + 2 * w.pad_y + w.kernel_y * w.dilation_y + w.out_height * w.stride_y,
                  w.width + 2 * w.pad_x + w.kernel_x * w.dilation_x + w.out_width * w.stride_x);
}

// The same as numbers that a kernel counts in.
template <class I>
struct WindowGrid {
  I height, width, kernel_y, kernel_x, out_height, out_width;
  I stride_y, stride_x, pad_y, pad_x, dilation_y, dilation_x;
  Divisor<I> by_height, by_width, by_kernel_y, by_kernel_x, by_out_height, by_packs;
  Divisor<I> by_stride_y, by_stride_x;

  // With `count` windows side by side in a pack.
  WindowGrid(const Windows& w, int count)
      : height(static_cast<I>(w.height)),
        width(static_cast<I>(w.width)),
        kernel_y(static_cast<I>(w.kernel_y)),
        kernel_x(static_cast<I>(w.kernel_x)),
        out_height(static_cast<I>(w.out_height)),
        out_width(static_cast<I>(w.out_width)),
        stride_y(static_cast<I>(w.stride_y)),
        stride_x(static_cast<I>(w.stride_x)),
        pad_y(static_cast<I>(w.pad_y)),
        pad_x(static_cast<I>(w.pad_x)),
        dilation_y(static_cast<I>(w.dilation_y)),
        dilation_x(static_cast<I>(w.dilation_x)),
        by_height(w.height),
        by_width(w.width),
        by_kernel_y(w.kernel_y),
        by_kernel_x(w.kernel_x),
        by_out_height(w.out_height),
        by_packs(w.out_width / count),
        by_stride_y(w.stride_y),
        by_stride_x(w.stride_x) {}
};

// A column's elements: their plane's number, tap and windows, one after the other; a thread for
// kCount of them side by side.
template <class T, class I, int kCount>
__global__ void __launch_bounds__(kBlock)
    unfold_kernel(const MOONLET_GRID_CONSTANT WindowGrid<I> w, I count, const T* x, T* y) {
  for (MOONLET_EACH_OF(I, e, count)) {
    I ox = e, kx, ky;
    I oy = w.by_packs.split(ox);
    kx = w.by_out_height.split(oy);
    ky = w.by_kernel_x.split(kx);
    const I plane = w.by_kernel_y.split(ky);
    const I iy = oy * w.stride_y - w.pad_y + ky * w.dilation_y;
    const I left = ox * kCount * w.stride_x - w.pad_x + kx * w.dilation_x;
    const bool row_inside = iy >= 0 && iy < w.height;
    const T* row = x + (plane * w.height + iy) * w.width;
    T held[kCount];
    MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k) {
      const I ix = left + k * w.stride_x;
      held[k] = row_inside && ix >= 0 && ix < w.width ? row[ix] : T{};
    }
    store_elements<kCount>(y + int64_t{e} * kCount, held);
  }
}

// Each element of the images collects what the taps that see it have.
template <class C, class I, class Source>
__global__ void __launch_bounds__(kBlock)
    fold_kernel(const MOONLET_GRID_CONSTANT WindowGrid<I> w, I count, Source x, Source y) {
  for (MOONLET_EACH_OF(I, e, count)) {
    I ix = e;
    I iy = w.by_width.split(ix);
    const I plane = w.by_height.split(iy);
    C sum = C(0);
    I row = plane * w.kernel_y * w.kernel_x;
    for (I ky = 0; ky < w.kernel_y; ++ky, row += w.kernel_x) {
      const I down = iy + w.pad_y - ky * w.dilation_y;
      if (down < 0) break;
      I rest_y = down;
      const I oy = w.by_stride_y.split(rest_y);
      if (rest_y != 0 || oy >= w.out_height) continue;
      for (I kx = 0; kx < w.kernel_x; ++kx) {
        const I right = ix + w.pad_x - kx * w.dilation_x;
        if (right < 0) break;
        I rest_x = right;
        const I ox = w.by_stride_x.split(rest_x);
        if (rest_x != 0 || ox >= w.out_width) continue;
        sum += x.template get<C>(((row + kx) * w.out_height + oy) * w.out_width + ox);
      }
    }
    y.template set<C>(e, sum);
  }
}

// The taps [begin, end) of a result, or the results [begin, end) that hold an element.
struct alignas(16) Span {
  int64_t begin, end;
};

// What resizing a line needs to know, once for all lines: the taps of every result and their
// weights, `most` for each; the results of every element on the way back.
template <class C>
struct LineTable {
  Span* taps;
  C* weights;
  Span* results;  // null on the way there
  int64_t most;
};

template <class C>
__global__ void table_kernel(Resample r, LineTable<C> table) {
  for (MOONLET_EACH(at, r.out)) {
    const ResampleSpan span = resample_span(r, at);
    const double whole = weight_sum(r, span);
    table.taps[at] = {span.begin, span.end};
    for (int64_t tap = span.begin; tap < span.end; ++tap)
      table.weights[at * table.most + tap - span.begin] =
          static_cast<C>(tap_weight(r, span, tap) / whole);
  }
  if (table.results == nullptr) return;
  for (MOONLET_EACH(position, r.in)) {
    const int64_t first = first_result(r, position);
    int64_t end = first;
    if (position == r.in - 1)
      end = r.out;
    else
      while (end < r.out && resample_span(r, end).begin <= position) ++end;
    table.results[position] = {first, end};
  }
}

// Lines of `in` and `out` elements, `inner` packs of kCount apart.
template <class I>
struct LineGrid {
  I in, out, inner;
  Divisor<I> by_size, by_inner;  // the line that a thread's pack lies in
};

template <int kCount, class C, class I, class Source>
__global__ void __launch_bounds__(kBlock)
    resample_kernel(const MOONLET_GRID_CONSTANT LineGrid<I> g, LineTable<C> table, I count,
                    Source x, Source y) {
  for (MOONLET_EACH_OF(I, e, count)) {
    I column = e;
    I at = g.by_inner.split(column);
    const I base = g.by_size.split(at) * g.in;
    const Span span = table.taps[at];
    const C* weight = table.weights + at * table.most;
    C sum[kCount] = {};
    for (I tap = static_cast<I>(span.begin); tap < static_cast<I>(span.end); ++tap, ++weight) {
      const I position = tap < 0 ? 0 : tap < g.in ? tap : g.in - 1;
      C v[kCount];
      load_at<kCount>(x, kCount * int64_t{(base + position) * g.inner + column}, v);
      MOONLET_UNROLL
      for (int k = 0; k < kCount; ++k) sum[k] += *weight * v[k];
    }
    store_at<kCount>(y, kCount * int64_t{e}, sum);
  }
}

// Each element of the line collects its share of the results that hold it. The ends stand for the
// taps outside.
template <int kCount, class C, class I, class Source>
__global__ void __launch_bounds__(kBlock)
    resample_back_kernel(const MOONLET_GRID_CONSTANT LineGrid<I> g, LineTable<C> table, I count,
                         Source grad, Source y) {
  for (MOONLET_EACH_OF(I, e, count)) {
    I column = e;
    I position = g.by_inner.split(column);
    const I base = g.by_size.split(position) * g.out;
    const Span results = table.results[position];
    C sum[kCount] = {};
    for (I at = static_cast<I>(results.begin); at < static_cast<I>(results.end); ++at) {
      const Span span = table.taps[at];
      const I begin = static_cast<I>(span.begin), end = static_cast<I>(span.end);
      const I from = position == 0 || begin > position ? begin : position;
      const I to = position == g.in - 1 || end <= position ? end : position + 1;
      C weight = C(0);
      for (I tap = from; tap < to; ++tap) weight += table.weights[at * table.most + tap - begin];
      C v[kCount];
      load_at<kCount>(grad, kCount * int64_t{(base + at) * g.inner + column}, v);
      MOONLET_UNROLL
      for (int k = 0; k < kCount; ++k) sum[k] += weight * v[k];
    }
    store_at<kCount>(y, kCount * int64_t{e}, sum);
  }
}

// How many taps a result has at most.
int64_t most_taps(const Resample& r) {
  if (!r.antialias) return r.filter == Filter::Linear ? 2 : 4;
  const double reach = half_width(r.filter) * std::max(r.scale, 1.0);
  return static_cast<int64_t>(std::min(2 * reach + 2, static_cast<double>(r.in)));
}

constexpr DTypeSet kSummed = dtypes::floating | dtypes::complex;

// Calls f.template operator()<C, I>(from, to) with the type C that is computed in, the type I that
// numbers are counted in, and the elements of both tensors.
template <DTypeSet kSet, class F>
void visit_summed(bool narrow, const Tensor& from, const Tensor& to, F&& f) {
  if (narrow)
    return visit_device<kSet>(to.dtype(), [&]<class T>() {
      f.template operator()<computed_t<T>, int32_t>(typed<T>(from), typed<T>(to));
    });
  visit_device_compute<kSet>(
      to.dtype(), [&]<class C>() { f.template operator()<C, int64_t>(array(from), array(to)); });
}

// Lines of a tensor whose elements a thread takes one by one or in packs.
template <bool kBack>
struct Lines {
  const Call& call;
  const Resample& r;
  int64_t inner;
  const Tensor& from;
  Tensor& to;

  template <class C>
  void run() {
    const int64_t most = most_taps(r);
    const auto bytes = static_cast<int64_t>(sizeof(Span));
    const Tensor spans = call.scratch({(r.out + (kBack ? r.in : 0)) * bytes}, DType::UInt8);
    const Tensor weights = call.scratch({r.out * most}, dtype_of<C>);
    auto* const taps = reinterpret_cast<Span*>(spans.raw());
    const LineTable<C> table{taps, weights.elements<C>(), kBack ? taps + r.out : nullptr, most};
    MOONLET_LAUNCH((table_kernel<C>), blocks_for(std::max(r.in, r.out)), kBlock, 0, call.stream(),
                   r, table);
    call.done();
    if (!counts_are_narrow({from.numel(), to.numel(), r.in + r.out}))
      return launch<1, int64_t>(table, array(from), array(to));
    visit_float_types(to.dtype(), [&]<class T>() {
      if constexpr (std::is_same_v<Computed<T>, C>) narrow<T>(table);
    });
  }
  template <class T, class C>
  void narrow(const LineTable<C>& table) {
    if (inner % kPackOf<T> == 0 && aligned_to(from.raw(), 16) && aligned_to(to.raw(), 16))
      launch<kPackOf<T>, int32_t>(table, typed<T>(from), typed<T>(to));
    else
      launch<1, int32_t>(table, typed<T>(from), typed<T>(to));
  }
  template <int kCount, class I, class C, class Source>
  void launch(const LineTable<C>& table, Source x, Source y) {
    const int64_t packs = inner / kCount, count = to.numel() / kCount;
    const LineGrid<I> grid{static_cast<I>(r.in), static_cast<I>(r.out), static_cast<I>(packs),
                           Divisor<I>(kBack ? r.in : r.out), Divisor<I>(packs)};
    if constexpr (kBack)
      MOONLET_LAUNCH((resample_back_kernel<kCount, C, I, Source>), blocks_for(count), kBlock, 0,
                     call.stream(), grid, table, static_cast<I>(count), x, y);
    else
      MOONLET_LAUNCH((resample_kernel<kCount, C, I, Source>), blocks_for(count), kBlock, 0,
                     call.stream(), grid, table, static_cast<I>(count), x, y);
    call.done();
  }
};

template <bool kBack>
void resize(const char* op, const Tensor& x, const Resample& r, int64_t inner, Tensor& y) {
  if (y.numel() == 0) return;
  const Call call(y, op);
  const Tensor source = contiguous(x);
  Lines<kBack> lines{call, r, inner, source, y};
  if (compute_dtype(y.dtype()) == DType::Float64)
    lines.template run<double>();
  else
    lines.template run<float>();
}

template <class T, class I>
void unfold(const Call& call, const Windows& w, const Tensor& x, Tensor& y) {
  const auto launch = [&]<int kCount>() {
    const int64_t count = y.numel() / kCount;
    MOONLET_LAUNCH((unfold_kernel<T, I, kCount>), blocks_for(count), kBlock, 0, call.stream(),
                   (WindowGrid<I>(w, kCount)), static_cast<I>(count),
                   static_cast<const T*>(x.elements<T>()), y.elements<T>());
  };
  if constexpr (sizeof(I) == 4) {
    if (w.out_width % kPackOf<T> == 0 && aligned_to(y.raw(), 16))
      return launch.template operator()<kPackOf<T>>();
  }
  launch.template operator()<1>();
}

}  // namespace

void im2col(const Tensor& x, const Dims& kernel, const Dims& dilation, const Dims& padding,
            const Dims& stride, Tensor& y) {
  if (y.numel() == 0) return;
  const Windows w = windows_of({x.size(-2), x.size(-1)}, kernel, dilation, padding, stride);
  const Call call(y, "im2col");
  const Tensor source = contiguous(x);
  visit_bytes<Bytes16>(y.dtype(), [&]<class T>() {
    if (counts_are_narrow({source.numel(), y.numel(), reach_of(w)}))
      unfold<T, int32_t>(call, w, source, y);
    else
      unfold<T, int64_t>(call, w, source, y);
  });
  call.done();
}

void col2im(const Tensor& x, const Dims& size, const Dims& kernel, const Dims& dilation,
            const Dims& padding, const Dims& stride, Tensor& y) {
  if (y.numel() == 0) return;
  const Windows w = windows_of(size, kernel, dilation, padding, stride);
  const Call call(y, "col2im");
  const Tensor source = contiguous(x);
  const bool narrow = counts_are_narrow({source.numel(), y.numel(), reach_of(w)});
  visit_summed<kSummed>(
      narrow, source, y, [&]<class C, class I, class Source>(Source from, Source to) {
        MOONLET_LAUNCH((fold_kernel<C, I, Source>), blocks_for(y.numel()), kBlock, 0, call.stream(),
                       (WindowGrid<I>(w, 1)), static_cast<I>(y.numel()), from, to);
      });
  call.done();
}

void resample(const Tensor& x, const Dims& size, int64_t dim, std::string_view filter,
              bool align_corners, bool antialias, std::optional<double> scale, Tensor& result) {
  const Resample r = resample_of(x.sizes(), size, dim, filter, align_corners, antialias, scale);
  resize<false>("resample", x, r, split_at(size, dim).inner, result);
}

void resample_grad_x(const Tensor& grad, const Dims& size, int64_t dim, std::string_view filter,
                     bool align_corners, bool antialias, std::optional<double> scale,
                     Tensor& result) {
  const Resample r = resample_of(size, grad.sizes(), dim, filter, align_corners, antialias, scale);
  resize<true>("resample_grad_x", grad, r, split_at(size, dim).inner, result);
}

}  // namespace moonlet::cuda

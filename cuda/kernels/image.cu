// cuda/kernels/image.cu: windows of images as columns, and resizing along one dimension. The ways
// back gather, so that no two threads add to one position and results repeat.
#include "cuda/kernels/common/geometry.cuh"
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

// A column's element: its plane's number, tap and window, one after the other.
template <class C>
__global__ void unfold_kernel(Windows w, int64_t count, Array x, Array y) {
  for (MOONLET_EACH(e, count)) {
    const int64_t ox = e % w.out_width, oy = e / w.out_width % w.out_height;
    const int64_t row = e / w.out_width / w.out_height;
    const int64_t kx = row % w.kernel_x, ky = row / w.kernel_x % w.kernel_y;
    const int64_t plane = row / w.kernel_x / w.kernel_y;
    const int64_t ix = ox * w.stride_x - w.pad_x + kx * w.dilation_x;
    const int64_t iy = oy * w.stride_y - w.pad_y + ky * w.dilation_y;
    const bool inside = ix >= 0 && ix < w.width && iy >= 0 && iy < w.height;
    y.set<C>(e, inside ? x.get<C>((plane * w.height + iy) * w.width + ix) : C(0));
  }
}

// Each element of the images collects what the taps that see it have.
template <class C>
__global__ void fold_kernel(Windows w, int64_t count, Array x, Array y) {
  for (MOONLET_EACH(e, count)) {
    const int64_t ix = e % w.width, iy = e / w.width % w.height, plane = e / w.width / w.height;
    C sum = C(0);
    for (int64_t ky = 0; ky < w.kernel_y; ++ky) {
      const int64_t down = iy + w.pad_y - ky * w.dilation_y, oy = down / w.stride_y;
      if (down < 0 || down % w.stride_y != 0 || oy >= w.out_height) continue;
      for (int64_t kx = 0; kx < w.kernel_x; ++kx) {
        const int64_t right = ix + w.pad_x - kx * w.dilation_x, ox = right / w.stride_x;
        if (right < 0 || right % w.stride_x != 0 || ox >= w.out_width) continue;
        const int64_t row = (plane * w.kernel_y + ky) * w.kernel_x + kx;
        sum += x.get<C>((row * w.out_height + oy) * w.out_width + ox);
      }
    }
    y.set<C>(e, sum);
  }
}

template <class C>
__global__ void resample_kernel(Resample r, int64_t inner, int64_t count, Array x, Array y) {
  for (MOONLET_EACH(e, count)) {
    const int64_t column = e % inner, at = e / inner % r.out, block = e / inner / r.out;
    const ResampleSpan span = resample_span(r, at);
    const double whole = weight_sum(r, span);
    C sum = C(0);
    for (int64_t tap = span.begin; tap < span.end; ++tap) {
      const C weight = static_cast<C>(tap_weight(r, span, tap) / whole);
      sum += weight * x.get<C>((block * r.in + tap_position(r, tap)) * inner + column);
    }
    y.set<C>(e, sum);
  }
}

// The sum of the weights with which result `at` holds element `position`.
__device__ inline double weight_of(const Resample& r, const ResampleSpan& span, int64_t position) {
  const bool first = position == 0, last = position == r.in - 1;
  const int64_t begin = first || span.begin > position ? span.begin : position;
  const int64_t end = last || span.end <= position ? span.end : position + 1;
  double sum = 0;
  for (int64_t tap = begin; tap < end; ++tap) sum += tap_weight(r, span, tap);
  return sum / weight_sum(r, span);
}

// Each element of the line collects its share of the results that hold it.
template <class C>
__global__ void resample_back_kernel(Resample r, int64_t inner, int64_t count, Array grad,
                                     Array y) {
  for (MOONLET_EACH(e, count)) {
    const int64_t column = e % inner, position = e / inner % r.in, block = e / inner / r.in;
    C sum = C(0);
    for (int64_t at = first_result(r, position); at < r.out; ++at) {
      const ResampleSpan span = resample_span(r, at);
      if (span.begin > position && position != r.in - 1) break;
      const C weight = static_cast<C>(weight_of(r, span, position));
      sum += weight * grad.get<C>((block * r.out + at) * inner + column);
    }
    y.set<C>(e, sum);
  }
}

constexpr DTypeSet kSummed = dtypes::floating | dtypes::complex;

// Runs body(call, elements of x, y) with the type C that is computed in.
template <DTypeSet kSet, class Body>
void computed(const char* op, const Tensor& x, Tensor& y, Body&& body) {
  if (y.numel() == 0) return;
  const Call call(y, op);
  const Tensor source = contiguous(x);
  visit_device_compute<kSet>(
      y.dtype(), [&]<class C>() { body.template operator()<C>(call, array(source), y); });
  call.done();
}

}  // namespace

void im2col(const Tensor& x, const Dims& kernel, const Dims& dilation, const Dims& padding,
            const Dims& stride, Tensor& result) {
  const Windows w = windows_of({x.size(-2), x.size(-1)}, kernel, dilation, padding, stride);
  computed<kSummed>("im2col", x, result, [&]<class C>(const Call& call, Array from, Tensor& y) {
    MOONLET_LAUNCH((unfold_kernel<C>), blocks_for(y.numel()), kBlock, 0, call.stream(), w,
                   y.numel(), from, array(y));
  });
}

void col2im(const Tensor& x, const Dims& size, const Dims& kernel, const Dims& dilation,
            const Dims& padding, const Dims& stride, Tensor& result) {
  const Windows w = windows_of(size, kernel, dilation, padding, stride);
  computed<kSummed>("col2im", x, result, [&]<class C>(const Call& call, Array from, Tensor& y) {
    MOONLET_LAUNCH((fold_kernel<C>), blocks_for(y.numel()), kBlock, 0, call.stream(), w, y.numel(),
                   from, array(y));
  });
}

void resample(const Tensor& x, const Dims& size, int64_t dim, std::string_view filter,
              bool align_corners, bool antialias, std::optional<double> scale, Tensor& result) {
  const Resample r = resample_of(x.sizes(), size, dim, filter, align_corners, antialias, scale);
  const int64_t inner = split_at(size, dim).inner;
  computed<dtypes::floating>(
      "resample", x, result, [&]<class C>(const Call& call, Array from, Tensor& y) {
        MOONLET_LAUNCH((resample_kernel<C>), blocks_for(y.numel()), kBlock, 0, call.stream(), r,
                       inner, y.numel(), from, array(y));
      });
}

void resample_grad_x(const Tensor& grad, const Dims& size, int64_t dim, std::string_view filter,
                     bool align_corners, bool antialias, std::optional<double> scale,
                     Tensor& result) {
  const Resample r = resample_of(size, grad.sizes(), dim, filter, align_corners, antialias, scale);
  const int64_t inner = split_at(size, dim).inner;
  computed<dtypes::floating>(
      "resample_grad_x", grad, result, [&]<class C>(const Call& call, Array from, Tensor& y) {
        MOONLET_LAUNCH((resample_back_kernel<C>), blocks_for(y.numel()), kBlock, 0, call.stream(),
                       r, inner, y.numel(), from, array(y));
      });
}

}  // namespace moonlet::cuda

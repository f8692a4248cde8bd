// cuda/conv.cu: conv2d and its two gradients as matrix products over unrolled images (im2col). The
// way back gathers, so that no two threads add to one place and results repeat.
#include <algorithm>

#include "cuda/gemm.h"
#include "cuda/geometry.cuh"
#include "tensor/kernels_conv.h"
#include "tensor/kernels_copy.h"

namespace moonlet::cuda {

namespace {

struct ConvShape {
  int64_t batch, groups, channels, height, width, out_channels, out_height, out_width;
  int64_t kernel_y, kernel_x, stride_y, stride_x, pad_y, pad_x, dilation_y, dilation_x;
  __host__ __device__ int64_t taps() const { return channels * kernel_y * kernel_x; }
  __host__ __device__ int64_t places() const { return out_height * out_width; }
};

ConvShape shape_of(const Dims& x, const Dims& weight, const Dims& y, const Dims& stride,
                   const Dims& padding, const Dims& dilation, int64_t groups) {
  return {x[0],       groups,     x[1],        x[2],       x[3],      y[1],
          y[2],       y[3],       weight[2],   weight[3],  stride[0], stride[1],
          padding[0], padding[1], dilation[0], dilation[1]};
}

// The images [first, first + count) as columns: element (image, tap, place) lies at
// image * image_step + tap * tap_step + place.
struct Columns {
  int64_t first, count, image_step, tap_step;
};

template <class C>
__global__ void unroll_kernel(ConvShape s, Columns c, const C* x, C* columns) {
  const int64_t places = s.places(), taps = s.taps();
  for (MOONLET_EACH(e, c.count * taps * places)) {
    const int64_t place = e % places, tap = e / places % taps, image = e / places / taps;
    const int64_t kx = tap % s.kernel_x, ky = tap / s.kernel_x % s.kernel_y;
    const int64_t channel = tap / s.kernel_x / s.kernel_y;
    const int64_t ix = place % s.out_width * s.stride_x - s.pad_x + kx * s.dilation_x;
    const int64_t iy = place / s.out_width * s.stride_y - s.pad_y + ky * s.dilation_y;
    const bool inside = ix >= 0 && ix < s.width && iy >= 0 && iy < s.height;
    const int64_t plane = (c.first + image) * s.channels + channel;
    columns[image * c.image_step + tap * c.tap_step + place] =
        inside ? x[(plane * s.height + iy) * s.width + ix] : C(0);
  }
}

// The adjoint: each element of the image collects the taps that saw it.
template <class C>
__global__ void roll_kernel(ConvShape s, Columns c, const C* columns, C* x) {
  for (MOONLET_EACH(e, c.count * s.channels * s.height * s.width)) {
    const int64_t ix = e % s.width, iy = e / s.width % s.height;
    const int64_t channel = e / s.width / s.height % s.channels;
    const int64_t image = e / s.width / s.height / s.channels;
    C sum = C(0);
    for (int64_t ky = 0; ky < s.kernel_y; ++ky) {
      const int64_t y = iy + s.pad_y - ky * s.dilation_y, oy = y / s.stride_y;
      if (y < 0 || y % s.stride_y != 0 || oy >= s.out_height) continue;
      for (int64_t kx = 0; kx < s.kernel_x; ++kx) {
        const int64_t xx = ix + s.pad_x - kx * s.dilation_x, ox = xx / s.stride_x;
        if (xx < 0 || xx % s.stride_x != 0 || ox >= s.out_width) continue;
        const int64_t tap = (channel * s.kernel_y + ky) * s.kernel_x + kx;
        sum += columns[image * c.image_step + tap * c.tap_step + oy * s.out_width + ox];
      }
    }
    x[((c.first + image) * s.channels + channel) * s.height * s.width + iy * s.width + ix] = sum;
  }
}

// How many images are unrolled at once: their columns take at most a quarter of a GiB.
int64_t images_at_once(const ConvShape& s, DType dtype) {
  const int64_t bytes = std::max<int64_t>(1, s.taps() * s.places() * size_of(dtype));
  return std::clamp<int64_t>((int64_t{1} << 28) / bytes, 1, s.batch);
}

char* place(const Tensor& t, int64_t element) {
  return t.raw() + element * static_cast<int64_t>(size_of(t.dtype()));
}

// The weight of one group as (out channels, taps) of the group.
Matrix filter_of(const ConvShape& s, const Tensor& weight, int64_t group) {
  const int64_t rows = s.out_channels / s.groups, cols = s.taps() / s.groups;
  return {place(weight, group * rows * cols), rows, cols, cols, 1};
}

// One group's part of y or its gradient for `count` images: (out channels, places) each.
Matrix output_of(const ConvShape& s, const Tensor& y, int64_t first, int64_t group) {
  const int64_t rows = s.out_channels / s.groups, places = s.places();
  return {place(y, (first * s.out_channels + group * rows) * places),
          rows,
          places,
          places,
          1,
          s.out_channels * places};
}

// Runs body(columns' layout) for the batch in pieces.
template <class Body>
void each_piece(const ConvShape& s, DType dtype, Body&& body) {
  const int64_t most = images_at_once(s, dtype);
  for (int64_t first = 0; first < s.batch; first += most)
    body(Columns{first, std::min(most, s.batch - first), s.taps() * s.places(), s.places()});
}

void unroll(const Call& call, const ConvShape& s, const Columns& c, const Tensor& x,
            Tensor& columns) {
  visit_device_compute<dtypes::floating>(x.dtype(), [&]<class C>() {
    MOONLET_LAUNCH((unroll_kernel<C>), blocks_for(c.count * s.taps() * s.places()), kBlock, 0,
                   call.stream(), s, c, static_cast<const C*>(x.elements<C>()),
                   columns.elements<C>());
  });
  call.done();
}

// y contiguous and in the compute dtype, and its way back.
template <class Body>
void computed(Tensor& y, Body&& body) {
  const DType compute = compute_dtype(y.dtype());
  if (y.dtype() == compute && y.is_contiguous()) return body(y);
  Tensor whole = empty_plain(y.sizes(), {compute, y.device()});
  body(whole);
  copy_back(y, whole);
}

}  // namespace

void native_conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Dims& stride,
                   const Dims& padding, const Dims& dilation, int64_t groups, Tensor& result) {
  if (result.numel() == 0) return;
  const Call call(result, "conv2d");
  const ConvShape s =
      shape_of(x.sizes(), weight.sizes(), result.sizes(), stride, padding, dilation, groups);
  computed(result, [&](Tensor& y) {
    const DType t = y.dtype();
    if (bias.defined())
      copy(y, alias(bias, y.sizes(), {0, bias.stride(0), 0, 0}, bias.offset()));
    else
      fill(y, Scalar(0));
    if (x.numel() == 0 || weight.numel() == 0) return;
    const Tensor image = converted(x, t), filter = converted(weight, t);
    Tensor columns = call.scratch({images_at_once(s, t), s.taps(), s.places()}, t);
    each_piece(s, t, [&](const Columns& c) {
      unroll(call, s, c, image, columns);
      for (int64_t g = 0; g < groups; ++g) {
        const int64_t taps = s.taps() / groups;
        const Matrix seen{
            place(columns, g * taps * s.places()), taps, s.places(), s.places(), 1, c.image_step};
        gemm(call, t, c.count, 1, filter_of(s, filter, g), seen, 1, output_of(s, y, c.first, g));
      }
    });
  });
}

void conv2d_grad_x(const Tensor& grad, const Tensor& weight, const Dims& size, const Dims& stride,
                   const Dims& padding, const Dims& dilation, int64_t groups, Tensor& result) {
  if (result.numel() == 0) return;
  if (grad.numel() == 0 || weight.numel() == 0) return fill(result, Scalar(0));
  const Call call(result, "conv2d_grad_x");
  const ConvShape s =
      shape_of(size, weight.sizes(), grad.sizes(), stride, padding, dilation, groups);
  computed(result, [&](Tensor& y) {
    const DType t = y.dtype();
    const Tensor slope = converted(grad, t), filter = converted(weight, t);
    Tensor columns = call.scratch({images_at_once(s, t), s.taps(), s.places()}, t);
    each_piece(s, t, [&](const Columns& c) {
      for (int64_t g = 0; g < groups; ++g) {
        const int64_t taps = s.taps() / groups;
        const Matrix seen{
            place(columns, g * taps * s.places()), taps, s.places(), s.places(), 1, c.image_step};
        gemm(call, t, c.count, 1, transposed(filter_of(s, filter, g)),
             output_of(s, slope, c.first, g), 0, seen);
      }
      visit_device_compute<dtypes::floating>(t, [&]<class C>() {
        MOONLET_LAUNCH((roll_kernel<C>), blocks_for(c.count * s.channels * s.height * s.width),
                       kBlock, 0, call.stream(), s, c, static_cast<const C*>(columns.elements<C>()),
                       y.elements<C>());
      });
      call.done();
    });
  });
}

// The images of a piece side by side, so that one product sums over all of them.
void conv2d_grad_weight(const Tensor& grad, const Tensor& x, const Dims& size, const Dims& stride,
                        const Dims& padding, const Dims& dilation, int64_t groups, Tensor& result) {
  if (result.numel() == 0) return;
  if (grad.numel() == 0 || x.numel() == 0) return fill(result, Scalar(0));
  const Call call(result, "conv2d_grad_weight");
  const ConvShape s = shape_of(x.sizes(), size, grad.sizes(), stride, padding, dilation, groups);
  computed(result, [&](Tensor& y) {
    const DType t = y.dtype();
    const Tensor image = converted(x, t), slope = converted(grad, t);
    const int64_t most = images_at_once(s, t), places = s.places();
    Tensor columns = call.scratch({s.taps(), most, places}, t);
    Tensor slopes = call.scratch({s.out_channels, most, places}, t);
    each_piece(s, t, [&](Columns c) {
      const int64_t wide = c.count * places;
      c.image_step = places;
      c.tap_step = wide;
      unroll(call, s, c, image, columns);
      Tensor turned = alias(slopes, {s.out_channels, c.count, places}, {wide, places, 1}, 0);
      copy(turned, alias(slope, turned.sizes(), {places, s.out_channels * places, 1},
                         c.first * s.out_channels * places));
      for (int64_t g = 0; g < groups; ++g) {
        const int64_t taps = s.taps() / groups, rows = s.out_channels / groups;
        const Matrix seen{place(columns, g * taps * wide), taps, wide, wide, 1};
        const Matrix slope_rows{place(slopes, g * rows * wide), rows, wide, wide, 1};
        gemm(call, t, 1, 1, slope_rows, transposed(seen), c.first == 0 ? 0 : 1, filter_of(s, y, g));
      }
    });
  });
}

}  // namespace moonlet::cuda

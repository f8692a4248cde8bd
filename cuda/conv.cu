// cuda/conv.cu: convolution, the transposed one and the gradient of their weight as matrix products
// over unrolled images (im2col). The way back gathers, so that no two threads add to one place and
// results repeat.
#include <algorithm>

#include "cuda/gemm.h"
#include "cuda/geometry.cuh"
#include "tensor/kernels_conv.h"
#include "tensor/kernels_copy.h"

namespace moonlet::cuda {

namespace {

// The axes are depth, height and width; of images and lines the first ones have size 1.
constexpr int kAxes = 3;
struct Axes {
  int64_t of[kAxes];
  __host__ __device__ int64_t volume() const { return of[0] * of[1] * of[2]; }
  // The coordinates of a place.
  __host__ __device__ Axes at(int64_t place) const {
    return {{place / of[2] / of[1], place / of[2] % of[1], place % of[2]}};
  }
  // The place of coordinates.
  __host__ __device__ int64_t place(const Axes& at) const {
    return (at.of[0] * of[1] + at.of[1]) * of[2] + at.of[2];
  }
};

struct ConvShape {
  int64_t batch, groups, channels, out_channels;
  Axes in, out, kernel, stride, pad, dilation;
  __host__ __device__ int64_t taps() const { return channels * kernel.volume(); }
  __host__ __device__ int64_t places() const { return out.volume(); }
};

// The last of `given` from `first` on as axes, with `fill` before them.
Axes axes_of(const Dims& given, int first, int64_t fill) {
  Axes out{{fill, fill, fill}};
  for (int i = first; i < given.size(); ++i) out.of[kAxes - given.size() + i] = given[i];
  return out;
}

ConvShape shape_of(const Dims& x, const Dims& weight, const Dims& y, const Dims& stride,
                   const Dims& padding, const Dims& dilation, int64_t groups) {
  return {x[0],
          groups,
          x[1],
          y[1],
          axes_of(x, 2, 1),
          axes_of(y, 2, 1),
          axes_of(weight, 2, 1),
          axes_of(stride, 0, 1),
          axes_of(padding, 0, 0),
          axes_of(dilation, 0, 1)};
}

// The images [first, first + count) as columns: element (image, tap, place) lies at
// image * image_step + tap * tap_step + place.
struct Columns {
  int64_t first, count, image_step, tap_step;
};

template <class C>
__global__ void unroll_kernel(ConvShape s, Columns c, const C* x, C* columns) {
  const int64_t places = s.places(), taps = s.taps(), window = s.kernel.volume();
  for (MOONLET_EACH(e, c.count * taps * places)) {
    const int64_t place = e % places, tap = e / places % taps, image = e / places / taps;
    const Axes k = s.kernel.at(tap % window), o = s.out.at(place);
    Axes i;
    bool inside = true;
    for (int d = 0; d < kAxes; ++d) {
      i.of[d] = o.of[d] * s.stride.of[d] - s.pad.of[d] + k.of[d] * s.dilation.of[d];
      inside = inside && i.of[d] >= 0 && i.of[d] < s.in.of[d];
    }
    const int64_t plane = (c.first + image) * s.channels + tap / window;
    columns[image * c.image_step + tap * c.tap_step + place] =
        inside ? x[plane * s.in.volume() + s.in.place(i)] : C(0);
  }
}

// The coordinate in the output that sees coordinate `at` of the input through that tap, or -1.
__device__ int64_t seen_by(const ConvShape& s, int axis, int64_t at, int64_t tap) {
  const int64_t from = at + s.pad.of[axis] - tap * s.dilation.of[axis];
  const int64_t step = s.stride.of[axis], o = from / step;
  return from < 0 || o * step != from || o >= s.out.of[axis] ? -1 : o;
}

// The adjoint: each element of the image collects the taps that saw it. Added to what x holds.
template <class C>
__global__ void roll_kernel(ConvShape s, Columns c, const C* columns, C* x) {
  const int64_t size = s.in.volume();
  for (MOONLET_EACH(e, c.count * s.channels * size)) {
    const int64_t channel = e / size % s.channels, image = e / size / s.channels;
    const Axes in = s.in.at(e % size);
    const C* seen = columns + image * c.image_step + channel * s.kernel.volume() * c.tap_step;
    C sum = C(0);
    for (int64_t kz = 0; kz < s.kernel.of[0]; ++kz) {
      const int64_t oz = seen_by(s, 0, in.of[0], kz);
      if (oz < 0) continue;
      for (int64_t ky = 0; ky < s.kernel.of[1]; ++ky) {
        const int64_t oy = seen_by(s, 1, in.of[1], ky);
        if (oy < 0) continue;
        for (int64_t kx = 0; kx < s.kernel.of[2]; ++kx) {
          const int64_t ox = seen_by(s, 2, in.of[2], kx);
          if (ox >= 0)
            sum += seen[s.kernel.place({{kz, ky, kx}}) * c.tap_step + s.out.place({{oz, oy, ox}})];
        }
      }
    }
    x[c.first * s.channels * size + e] += sum;
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

// y[:, c] = bias[c], or 0 without one.
void fill_channels(const Tensor& bias, Tensor& y) {
  if (!bias.defined()) return fill(y, Scalar(0));
  Dims strides = Dims::filled(y.dim(), 0);
  strides[1] = bias.stride(0);
  copy(y, alias(bias, y.sizes(), strides, bias.offset()));
}

}  // namespace

void native_conv(const Tensor& x, const Tensor& weight, const Tensor& bias, const Dims& stride,
                 const Dims& padding, const Dims& dilation, int64_t groups, Tensor& result) {
  if (result.numel() == 0) return;
  const Call call(result, "conv");
  const ConvShape s =
      shape_of(x.sizes(), weight.sizes(), result.sizes(), stride, padding, dilation, groups);
  computed(result, [&](Tensor& y) {
    const DType t = y.dtype();
    fill_channels(bias, y);
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

void native_conv_transpose(const Tensor& x, const Tensor& weight, const Tensor& bias,
                           const Dims& size, const Dims& stride, const Dims& padding,
                           const Dims& dilation, int64_t groups, Tensor& result) {
  if (result.numel() == 0) return;
  const Call call(result, "conv_transpose");
  const ConvShape s = shape_of(size, weight.sizes(), x.sizes(), stride, padding, dilation, groups);
  computed(result, [&](Tensor& y) {
    const DType t = y.dtype();
    fill_channels(bias, y);
    if (x.numel() == 0 || weight.numel() == 0) return;
    const Tensor slope = converted(x, t), filter = converted(weight, t);
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
        MOONLET_LAUNCH((roll_kernel<C>), blocks_for(c.count * s.channels * s.in.volume()), kBlock,
                       0, call.stream(), s, c, static_cast<const C*>(columns.elements<C>()),
                       y.elements<C>());
      });
      call.done();
    });
  });
}

// The images of a piece side by side, so that one product sums over all of them.
void native_conv_grad_weight(const Tensor& grad, const Tensor& x, const Dims& size,
                             const Dims& stride, const Dims& padding, const Dims& dilation,
                             int64_t groups, Tensor& result) {
  if (result.numel() == 0) return;
  if (grad.numel() == 0 || x.numel() == 0) return fill(result, Scalar(0));
  const Call call(result, "conv_grad_weight");
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
                         slope.offset() + c.first * s.out_channels * places));
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

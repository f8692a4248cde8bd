// cuda/kernels/conv.cu: convolution, the transposed one and the gradient of their weight as matrix
// products of tiles that are gathered from the images as they are needed (implicit GEMM); few
// channels in each of several groups, as in depthwise convolution, without products. Every element
// of a result is added up by one block in order, so results repeat.
#include <algorithm>

#include "cuda/kernels/common/channels.cuh"
#include "cuda/kernels/common/conv_last.cuh"
#include "cuda/kernels/common/conv_shape.cuh"
#include "cuda/kernels/common/conv_thin_last.cuh"
#include "cuda/kernels/common/geometry.cuh"
#include "cuda/kernels/common/mma.cuh"
#include "cuda/kernels/common/rows.cuh"
#include "cuda/libraries/cudnn_conv.h"
#include "cuda/runtime/device.h"
#include "tensor/kernels_conv.h"
#include "tensor/kernels_copy.h"
#include "tensor/raw_activation.h"
#include "tensor/runtime/cudnn_settings.h"

namespace moonlet::cuda {

namespace {

// What is multiplied: result (rows, columns) = a (rows, depth) b (depth, columns) for each group.
// `fix` is told the column, of the weight's gradient the depth, and b the other one.

// The way forward: output channels, positions of all images, taps.
template <class E>
struct Across {
  static constexpr bool kByDepth = false;
  const ConvShape& s;
  const E *x, *weight;
  int64_t group, image = 0;
  Axes position{};

  __device__ static int64_t rows(const ConvShape& s) { return s.outs; }
  __device__ static int64_t columns(const ConvShape& s) { return s.batch * s.out.volume; }
  __device__ static int64_t depth(const ConvShape& s) { return s.ins * s.kernel.volume; }
  __device__ __forceinline__ void fix(int64_t column) {
    int64_t rest;
    image = s.out.all(column, rest);
    position = s.out.at(rest);
  }
  __device__ __forceinline__ E a(int64_t row, int64_t k) const {
    return weight[(group * s.outs + row) * s.ins * s.kernel.volume + k];
  }
  __device__ __forceinline__ E b(int64_t k) const {
    int64_t tap;
    const int64_t channel = s.kernel.all(k, tap), at = seen_position(s, position, s.kernel.at(tap));
    const int64_t plane = (image * s.groups + group) * s.ins + channel;
    return at < 0 ? E() : x[plane * s.in.volume + at];
  }
  __device__ __forceinline__ int64_t result(int64_t row, int64_t column) const {
    int64_t at;
    const int64_t of = s.out.all(column, at);
    return ((of * s.groups + group) * s.outs + row) * s.out.volume + at;
  }
  __device__ int64_t channel(int64_t row) const { return group * s.outs + row; }
};

// The transposed way: input channels, positions of all inputs, output channels with taps.
template <class E>
struct Back {
  static constexpr bool kByDepth = false;
  const ConvShape& s;
  const E *x, *weight;
  int64_t group, image = 0;
  Axes position{};

  __device__ static int64_t rows(const ConvShape& s) { return s.ins; }
  __device__ static int64_t columns(const ConvShape& s) { return s.batch * s.in.volume; }
  __device__ static int64_t depth(const ConvShape& s) { return s.outs * s.kernel.volume; }
  __device__ __forceinline__ void fix(int64_t column) {
    int64_t rest;
    image = s.in.all(column, rest);
    position = s.in.at(rest);
  }
  __device__ __forceinline__ E a(int64_t row, int64_t k) const {
    int64_t tap;
    const int64_t channel = group * s.outs + s.kernel.all(k, tap);
    return weight[(channel * s.ins + row) * s.kernel.volume + tap];
  }
  __device__ __forceinline__ E b(int64_t k) const {
    int64_t tap;
    const int64_t channel = s.kernel.all(k, tap),
                  at = seeing_position(s, position, s.kernel.at(tap));
    const int64_t plane = (image * s.groups + group) * s.outs + channel;
    return at < 0 ? E() : x[plane * s.out.volume + at];
  }
  __device__ __forceinline__ int64_t result(int64_t row, int64_t column) const {
    int64_t at;
    const int64_t of = s.in.all(column, at);
    return ((of * s.groups + group) * s.ins + row) * s.in.volume + at;
  }
  __device__ int64_t channel(int64_t row) const { return group * s.ins + row; }
};

// The gradient of the weight, whose part `weight` here is the gradient of the outputs: output
// channels, taps, positions of all outputs.
template <class E>
struct ByWeight {
  static constexpr bool kByDepth = true;
  const ConvShape& s;
  const E *x, *weight;
  int64_t group, image = 0, at = 0;
  Axes position{};

  __device__ static int64_t rows(const ConvShape& s) { return s.outs; }
  __device__ static int64_t columns(const ConvShape& s) { return s.ins * s.kernel.volume; }
  __device__ static int64_t depth(const ConvShape& s) { return s.batch * s.out.volume; }
  __device__ __forceinline__ void fix(int64_t k) {
    image = s.out.all(k, at);
    position = s.out.at(at);
  }
  __device__ __forceinline__ E a(int64_t row, int64_t) const {
    return weight[((image * s.groups + group) * s.outs + row) * s.out.volume + at];
  }
  __device__ __forceinline__ E b(int64_t column) const {
    int64_t tap;
    const int64_t channel = s.kernel.all(column, tap),
                  from = seen_position(s, position, s.kernel.at(tap));
    const int64_t plane = (image * s.groups + group) * s.ins + channel;
    return from < 0 ? E() : x[plane * s.in.volume + from];
  }
  __device__ __forceinline__ int64_t result(int64_t row, int64_t column) const {
    return (group * s.outs + row) * s.ins * s.kernel.volume + column;
  }
};

constexpr int kThreads = kConvThreads, kRows = kConvRows, kColumns = kConvColumns,
              kDepth = kConvDepth;

// The tiles of a and b from depth `k` on, zeros beyond `end`.
template <class U, class Way>
__device__ __forceinline__ void gather_tiles(Way& way, const ConvShape& s, int64_t row,
                                             int64_t column, int64_t k, int64_t end,
                                             typename U::Element* a, typename U::Element* b) {
  using E = typename U::Element;
  constexpr int kStride = tile_stride<E>(kDepth), kWide = tile_stride<E>(kColumns);
  const int deep = threadIdx.x % kDepth;
  const bool inside = k + deep < end;
  if constexpr (Way::kByDepth) {
    if (inside) way.fix(k + deep);
  }
  MOONLET_UNROLL_BY(4)
  for (int m = threadIdx.x / kDepth; m < kRows; m += kThreads / kDepth)
    a[m * kStride + deep] =
        inside && row + m < Way::rows(s) ? rounded<U>(way.a(row + m, k + deep)) : E();
  if constexpr (Way::kByDepth) {
    MOONLET_UNROLL_BY(4)
    for (int n = threadIdx.x / kDepth; n < kColumns; n += kThreads / kDepth)
      b[n * kStride + deep] =
          inside && column + n < Way::columns(s) ? rounded<U>(way.b(column + n)) : E();
  } else {
    const int n = threadIdx.x % kColumns;
    const bool wanted = column + n < Way::columns(s);
    MOONLET_UNROLL_BY(4)
    for (int d = threadIdx.x / kColumns; d < kDepth; d += kThreads / kColumns)
      b[d * kWide + n] = wanted && k + d < end ? rounded<U>(way.b(k + d)) : E();
  }
}

template <class U, template <class> class Ways, class Result>
__global__ void __launch_bounds__(kThreads, 3)
    conv_kernel(MOONLET_GRID_CONSTANT const ConvShape s, Pieces pieces,
                const typename U::Element* x, const typename U::Element* weight,
                Epilogue<typename U::Sum> epilogue, Result* y) {
  using E = typename U::Element;
  using Way = Ways<E>;
  constexpr int kStride = tile_stride<E>(kDepth),
                kOther = Way::kByDepth ? kStride : tile_stride<E>(kColumns);
  __shared__ SharedArray<E, kRows * kStride> a;
  __shared__ SharedArray<E, (Way::kByDepth ? kColumns : kDepth) * kOther> b;
  const int64_t down = (Way::rows(s) + kRows - 1) / kRows,
                along = (Way::columns(s) + kColumns - 1) / kColumns;
  for (int64_t i = blockIdx.x; i < down * along * s.groups * pieces.count; i += gridDim.x) {
    const int64_t row = i % down * kRows, column = i / down % along * kColumns;
    const int64_t group = i / down / along % s.groups, piece = i / down / along / s.groups;
    const int64_t first = piece * pieces.length, end = min(first + pieces.length, Way::depth(s));
    Way way{s, x, weight, group};
    const int64_t mine = column + threadIdx.x % kColumns;
    if (!Way::kByDepth && mine < Way::columns(s)) way.fix(mine);
    Part<typename U::Sum, kColumns> sums;
    sums.clear();
    for (int64_t k = first; k < end; k += kDepth) {
      __syncthreads();
      gather_tiles<U>(way, s, row, column, k, end, a.get(), b.get());
      __syncthreads();
      U::template multiply<Way::kByDepth>(sums, a.get() + threadIdx.x / kWarp * 16 * kStride,
                                          kStride, b.get(), kOther, kDepth, kColumns);
    }
    const int64_t my_row = row + threadIdx.x / kWarp * 16 + row_in_warp();
    sums.each([&](typename U::Sum v, int upper, int col) {
      const int64_t m = my_row + 8 * upper, n = column + col;
      if (m >= Way::rows(s) || n >= Way::columns(s)) return;
      if constexpr (!Way::kByDepth) v = epilogue(v, way.channel(m));
      y[piece * pieces.step + way.result(m, n)] = convert<Result>(v);
    });
  }
}

// The results of the pieces, added up in order.
template <class C, class E>
__global__ void __launch_bounds__(kBlock)
    join_kernel(int64_t count, int64_t pieces, const C* parts, E* y) {
  for (MOONLET_EACH(i, count)) {
    C sum = parts[i];
    for (int64_t piece = 1; piece < pieces; ++piece) sum += parts[piece * count + i];
    y[i] = convert<E>(sum);
  }
}

// Thin groups, a thread for each result.
template <class C, template <class> class Ways, class E>
__global__ void __launch_bounds__(kBlock)
    thin_kernel(MOONLET_GRID_CONSTANT const ConvShape s, const E* x, const E* weight,
                Epilogue<C> epilogue, E* y) {
  using Way = Ways<E>;
  const int64_t rows = Way::rows(s), columns = Way::columns(s), depth = Way::depth(s);
  for (MOONLET_EACH(i, s.groups * rows * columns)) {
    Way way{s, x, weight, i / columns / rows};
    const int64_t row = i / columns % rows, column = i % columns;
    way.fix(column);
    C sum = epilogue.shift(way.channel(row));
    for (int64_t k = 0; k < depth; ++k) sum += convert<C>(way.a(row, k)) * convert<C>(way.b(k));
    y[way.result(row, column)] = convert<E>(epilogue.clipped(sum));
  }
}

// Thin groups' weights, a block for each.
template <class C, class E>
__global__ void __launch_bounds__(kBlock)
    thin_weight_kernel(MOONLET_GRID_CONSTANT const ConvShape s, const E* x, const E* gradient,
                       E* y) {
  using Way = ByWeight<E>;
  const int64_t rows = Way::rows(s), columns = Way::columns(s), depth = Way::depth(s);
  for (int64_t i = blockIdx.x; i < s.groups * rows * columns; i += gridDim.x) {
    Way way{s, x, gradient, i / columns / rows};
    const int64_t row = i / columns % rows, column = i % columns;
    C sum = C(0);
    for (int64_t k = threadIdx.x; k < depth; k += kBlock) {
      way.fix(k);
      sum += convert<C>(way.a(row, k)) * convert<C>(way.b(column));
    }
    sum = combine_block(sum, AddUp());
    if (threadIdx.x == 0) y[way.result(row, column)] = convert<E>(sum);
  }
}

// The blocks of tiles, which loop, so that no grid is too large.
unsigned tiles_for(int64_t rows, int64_t columns, int64_t times) {
  const int64_t count = (rows + kRows - 1) / kRows * ((columns + kColumns - 1) / kColumns) * times;
  return static_cast<unsigned>(std::clamp<int64_t>(count, 1, int64_t{1} << 30));
}

// y contiguous, and its way back.
template <class Body>
void with_dense(Tensor& y, Body&& body) {
  if (y.is_contiguous()) return body(y);
  Tensor whole = empty_plain(y.sizes(), {y.dtype(), y.device()});
  body(whole);
  copy_back(y, whole);
}

// What comes behind the products: a bias, if it is defined, and relu.
struct Ending {
  Tensor bias;
  bool relu = false;
  Ending in(DType t) const {
    return {bias.defined() ? converted(bias, compute_dtype(t)) : bias, relu};
  }
  template <class C>
  Epilogue<C> epilogue() const {
    return {bias.defined() ? bias.elements<C>() : nullptr, relu};
  }
};

// y[:, c] = bias[c], or 0 without one.
void fill_channels(const Ending& ending, Tensor& y) {
  const Tensor& bias = ending.bias;
  if (!bias.defined()) return fill(y, Scalar(0));
  Dims strides = Dims::filled(y.dim(), 0);
  strides[1] = bias.stride(0);
  copy(y, alias(bias, y.sizes(), strides, bias.offset()));
  if (ending.relu) raw::relu_(y);
}

// The switch of cuDNN's is that of all convolutions, as in PyTorch.
bool tf32_allowed() { return cudnn_settings.allow_tf32; }

// Calls f.template operator()<kPack>(): how many channels of x and of `other` are read at once.
template <class E, class F>
void visit_channel_packs(int64_t channels, const Tensor& x, const Tensor& other, F&& f) {
  if (channels_have_packs<E>(channels, x.raw(), other.raw()))
    f.template operator()<kPackOf<E>>();
  else
    f.template operator()<1>();
}

// The weight as (groups, columns, taps, channels of the other side), of (rows, columns, taps) of
// which a group has so many `rows`, which are the columns unless `turned`.
Tensor weight_last(const Tensor& weight, int64_t groups, bool turned, DType dtype) {
  Dims sizes, strides;
  const int first = turned ? 1 : 0, second = 1 - first;
  const int64_t rows = weight.size(0) / groups;
  const auto add = [&](int64_t size, int64_t stride) {
    sizes.push_back(size), strides.push_back(stride);
  };
  add(groups, weight.stride(0) * rows);
  add(first == 0 ? rows : weight.size(1), weight.stride(first));
  for (int d = 2; d < weight.dim(); ++d) add(weight.size(d), weight.stride(d));
  add(second == 0 ? rows : weight.size(1), weight.stride(second));
  return converted(alias(weight, sizes, strides, weight.offset()), dtype);
}

// Both ways where channels lie side by side. The result lies so, too.
template <class Way>
void convolve_last(const Call& call, const ConvShape& s, const Tensor& x, const Tensor& weight,
                   const Ending& ending, Tensor& y) {
  const DType t = y.dtype();
  const Tensor image = laid_as(call, y, x.dtype() == t ? x : converted(x, t)),
               filter = weight_last(weight, s.groups, std::is_same_v<Way, LastBack>, t);
  const Ending end = ending.in(t);
  const Split channels(Way::ins(s), Way::ins(s) * s.kernel.volume < kDividerLimit);
  visit_units(t, tf32_allowed(), [&]<class U>() {
    using E = typename U::Element;
    visit_channel_packs<E>(Way::ins(s), image, filter, [&]<int kPack>() {
      MOONLET_LAUNCH((conv_last_kernel<U, Way, kPack>),
                     tiles_for(y.numel() / (Way::outs(s) * s.groups), Way::outs(s), s.groups),
                     kThreads, 0, call.stream(), s, channels, image.elements<E>(),
                     filter.elements<E>(), end.epilogue<typename U::Sum>(), y.elements<E>());
    });
    call.done();
  });
}

// The way forward or the transposed one.
template <template <class> class Ways>
void convolve(const Call& call, const ConvShape& s, const Tensor& x, const Tensor& weight,
              const Ending& ending, int64_t rows, int64_t columns, int64_t depth, Tensor& result) {
  const DType t = result.dtype();
  const Tensor image = converted(x, t), filter = converted(weight, t);
  const Ending end = ending.in(t);
  with_dense(result, [&](Tensor& y) {
    visit_units(t, tf32_allowed(), [&]<class U>() {
      using E = typename U::Element;
      using C = typename U::Sum;
      const Epilogue<C> epilogue = end.epilogue<C>();
      const E *from = image.elements<E>(), *by = filter.elements<E>();
      if (s.is_thin())
        MOONLET_LAUNCH((thin_kernel<C, Ways, E>), blocks_for(y.numel()), kBlock, 0, call.stream(),
                       s, from, by, epilogue, y.elements<E>());
      else
        MOONLET_LAUNCH((conv_kernel<U, Ways, E>), tiles_for(rows, columns, s.groups), kThreads, 0,
                       call.stream(), s, (Pieces{1, depth, 0}), from, by, epilogue,
                       y.elements<E>());
      call.done();
    });
  });
}

// The weight of thin groups as thin_last_kernel takes it.
Tensor thin_weight_last(const Tensor& weight, int64_t groups, bool turned, DType dtype) {
  Dims sizes, strides;
  const auto add = [&](int64_t size, int64_t stride) {
    sizes.push_back(size), strides.push_back(stride);
  };
  const int64_t outs = weight.size(0) / groups;
  for (int d = 2; d < weight.dim(); ++d) add(weight.size(d), weight.stride(d));
  if (turned) {
    add(outs, weight.stride(0));
    add(groups, weight.stride(0) * outs);
    add(weight.size(1), weight.stride(1));
  } else {
    add(weight.size(1), weight.stride(1));
    add(weight.size(0), weight.stride(0));
  }
  return converted(alias(weight, sizes, strides, weight.offset()), dtype);
}

// Calls f.template operator()<kPack>(shape): how many channels of the result are computed at once,
// of depthwise convolutions several.
template <class E, class F>
void visit_thin(const ConvShape& s, bool back, std::initializer_list<const void*> given, F&& f) {
  const bool aligned = std::all_of(given.begin(), given.end(),
                                   [](const void* each) { return aligned_to(each, 16); });
  if (s.ins == 1 && s.outs == 1 && s.groups % kPackOf<E> == 0 && aligned)
    f.template operator()<kPackOf<E>>(thin_shape(s, back, kPackOf<E>));
  else
    f.template operator()<1>(thin_shape(s, back, 1));
}

// Both ways of thin groups where channels lie side by side.
template <bool kBack>
void convolve_thin_last(const Call& call, const ConvShape& s, const Tensor& x, const Tensor& weight,
                        const Ending& ending, Tensor& y) {
  const DType t = y.dtype();
  const Tensor image = laid_as(call, y, x.dtype() == t ? x : converted(x, t)),
               filter = thin_weight_last(weight, s.groups, kBack, t);
  const Ending end = ending.in(t);
  visit_units(t, false, [&]<class U>() {
    using E = typename U::Element;
    using C = typename U::Sum;
    visit_thin<E>(s, kBack, {image.raw(), filter.raw(), y.raw()},
                  [&]<int kPack>(const ThinShape& shape) {
                    const int64_t lines = y.numel() / shape.width() / shape.axis[2].to;
                    MOONLET_LAUNCH((thin_last_kernel<kBack, kPack, C, E>),
                                   blocks_for(lines * shape.strips * shape.packs), kBlock, 0,
                                   call.stream(), shape, image.elements<E>(), filter.elements<E>(),
                                   end.epilogue<C>(), y.elements<E>());
                  });
  });
  call.done();
}

// Enough pieces of the positions for the blocks to fill a device, by the shapes alone.
Pieces pieces_of(const ConvShape& s, int64_t blocks, int64_t count) {
  const int64_t depth = s.batch * s.out.volume;
  const int64_t wanted = std::clamp<int64_t>(512 / blocks, 1, (depth + 511) / 512);
  const int64_t length = ((depth + wanted - 1) / wanted + kDepth - 1) / kDepth * kDepth;
  return {(depth + length - 1) / length, length, count};
}

// The gradient of the weight of thin groups, of images or gradients whose channels lie side by
// side.
void thin_grad_weight_last(const Call& call, const ConvShape& s, const Tensor& grad,
                           const Tensor& x, Tensor& result) {
  const DType t = result.dtype();
  const Tensor& like = channels_are_last(x) ? x : grad;
  const Tensor image = laid_as(call, like, x.dtype() == t ? x : converted(x, t)),
               gradient = laid_as(call, like, grad.dtype() == t ? grad : converted(grad, t));
  with_dense(result, [&](Tensor& y) {
    const int64_t count = y.numel();
    visit_units(t, false, [&]<class U>() {
      using E = typename U::Element;
      using C = typename U::Sum;
      visit_thin<E>(s, false, {image.raw(), gradient.raw()},
                    [&]<int kPack>(const ThinShape& shape) {
                      const int64_t blocks = (shape.packs + kThinLanes - 1) / kThinLanes *
                                             ((s.taps() + kThinTaps - 1) / kThinTaps);
                      const Pieces pieces = pieces_of(s, blocks, count);
                      const Tensor parts = call.scratch({pieces.count, count}, compute_dtype(t));
                      MOONLET_LAUNCH((thin_last_weight_kernel<kPack, C, E>),
                                     blocks_for(blocks * pieces.count * kBlock), kBlock, 0,
                                     call.stream(), shape, pieces, image.elements<E>(),
                                     gradient.elements<E>(), parts.elements<C>());
                      call.done();
                      MOONLET_LAUNCH((join_kernel<C, E>), blocks_for(count), kBlock, 0,
                                     call.stream(), count, pieces.count,
                                     static_cast<const C*>(parts.elements<C>()), y.elements<E>());
                      call.done();
                    });
    });
  });
}

// The gradient of the weight of images or gradients whose channels lie side by side.
void grad_weight_last(const Call& call, const ConvShape& s, const Tensor& grad, const Tensor& x,
                      Tensor& result) {
  const DType t = result.dtype();
  const Tensor& like = channels_are_last(x) ? x : grad;
  const Tensor image = laid_as(call, like, x.dtype() == t ? x : converted(x, t)),
               gradient = laid_as(call, like, grad.dtype() == t ? grad : converted(grad, t));
  Tensor y = result;
  if (!channels_are_last(y))
    y = empty_strided(y.sizes(), format_strides(last_format(y), y.sizes(), call.op()),
                      options_of(y), call.op());
  const int64_t count = y.numel();
  const Pieces pieces = pieces_of(s, tiles_for(s.outs, s.taps(), s.groups), count);
  const Tensor parts = call.scratch({pieces.count, count}, compute_dtype(t));
  const Split channels(s.ins, s.taps() < kDividerLimit);
  visit_units(t, tf32_allowed(), [&]<class U>() {
    using E = typename U::Element;
    using C = typename U::Sum;
    visit_channel_packs<E>(s.ins, image, image, [&]<int kPack>() {
      visit_channel_packs<E>(s.outs, gradient, gradient, [&]<int kGradPack>() {
        MOONLET_LAUNCH((conv_last_weight_kernel<U, kPack, kGradPack>),
                       tiles_for(s.outs, s.taps(), s.groups * pieces.count), kThreads, 0,
                       call.stream(), s, channels, pieces, image.elements<E>(),
                       gradient.elements<E>(), parts.elements<C>());
      });
    });
    call.done();
    MOONLET_LAUNCH((join_kernel<C, E>), blocks_for(count), kBlock, 0, call.stream(), count,
                   pieces.count, static_cast<const C*>(parts.elements<C>()), y.elements<E>());
    call.done();
  });
  if (!channels_are_last(result)) copy_back(result, y);
}

void convolve_across(const Tensor& x, const Tensor& weight, const Ending& ending,
                     const Dims& stride, const Dims& padding, const Dims& dilation, int64_t groups,
                     Tensor& result) {
  if (result.numel() == 0) return;
  if (cudnn::conv(x, weight, ending.bias, stride, padding, dilation, groups, ending.relu, result))
    return;
  if (x.numel() == 0 || weight.numel() == 0) return fill_channels(ending, result);
  const Call call(result, "conv");
  const ConvShape s =
      shape_of(x.sizes(), weight.sizes(), result.sizes(), stride, padding, dilation, groups);
  const bool last = channels_are_last(result);
  if (last && !s.is_thin()) return convolve_last<LastAcross>(call, s, x, weight, ending, result);
  if (last && counts_are_narrow(s))
    return convolve_thin_last<false>(call, s, x, weight, ending, result);
  convolve<Across>(call, s, x, weight, ending, s.outs, s.batch * s.out.volume, s.taps(), result);
}

}  // namespace

void native_conv(const Tensor& x, const Tensor& weight, const Tensor& bias, const Dims& stride,
                 const Dims& padding, const Dims& dilation, int64_t groups, Tensor& result) {
  convolve_across(x, weight, {bias, false}, stride, padding, dilation, groups, result);
}

void native_conv_relu(const Tensor& x, const Tensor& weight, const Tensor& bias, const Dims& stride,
                      const Dims& padding, const Dims& dilation, int64_t groups, Tensor& result) {
  convolve_across(x, weight, {bias, true}, stride, padding, dilation, groups, result);
}

void native_conv_transpose(const Tensor& x, const Tensor& weight, const Tensor& bias,
                           const Dims& size, const Dims& stride, const Dims& padding,
                           const Dims& dilation, int64_t groups, Tensor& result) {
  if (result.numel() == 0) return;
  if (cudnn::conv_transpose(x, weight, bias, stride, padding, dilation, groups, result)) return;
  const Ending ending{bias};
  if (x.numel() == 0 || weight.numel() == 0) return fill_channels(ending, result);
  const Call call(result, "conv_transpose");
  const ConvShape s = shape_of(size, weight.sizes(), x.sizes(), stride, padding, dilation, groups);
  const bool last = channels_are_last(result);
  if (last && !s.is_thin()) return convolve_last<LastBack>(call, s, x, weight, ending, result);
  if (last && counts_are_narrow(s))
    return convolve_thin_last<true>(call, s, x, weight, ending, result);
  convolve<Back>(call, s, x, weight, ending, s.ins, s.batch * s.in.volume, s.outs * s.kernel.volume,
                 result);
}

void native_conv_grad_weight(const Tensor& grad, const Tensor& x, const Dims& size,
                             const Dims& stride, const Dims& padding, const Dims& dilation,
                             int64_t groups, Tensor& result) {
  if (result.numel() == 0) return;
  if (grad.numel() == 0 || x.numel() == 0) return fill(result, Scalar(0));
  if (cudnn::conv_grad_weight(grad, x, stride, padding, dilation, groups, result)) return;
  const Call call(result, "conv_grad_weight");
  const ConvShape s = shape_of(x.sizes(), size, grad.sizes(), stride, padding, dilation, groups);
  const bool last = channels_are_last(x) || channels_are_last(grad);
  if (last && !s.is_thin()) return grad_weight_last(call, s, grad, x, result);
  if (last && counts_are_narrow(s)) return thin_grad_weight_last(call, s, grad, x, result);
  const DType t = result.dtype();
  const Tensor image = converted(x, t), gradient = converted(grad, t);
  with_dense(result, [&](Tensor& y) {
    const int64_t count = y.numel();
    visit_units(t, tf32_allowed(), [&]<class U>() {
      using E = typename U::Element;
      using C = typename U::Sum;
      const E *from = image.elements<E>(), *by = gradient.elements<E>();
      if (s.is_thin()) {
        MOONLET_LAUNCH((thin_weight_kernel<C, E>), blocks_for(count * kBlock), kBlock, 0,
                       call.stream(), s, from, by, y.elements<E>());
        return call.done();
      }
      const Pieces pieces = pieces_of(s, tiles_for(s.outs, s.taps(), s.groups), count);
      Tensor parts = call.scratch({pieces.count, count}, compute_dtype(t));
      MOONLET_LAUNCH((conv_kernel<U, ByWeight, C>),
                     tiles_for(s.outs, s.taps(), s.groups * pieces.count), kThreads, 0,
                     call.stream(), s, pieces, from, by, Epilogue<C>(), parts.elements<C>());
      call.done();
      MOONLET_LAUNCH((join_kernel<C, E>), blocks_for(count), kBlock, 0, call.stream(), count,
                     pieces.count, static_cast<const C*>(parts.elements<C>()), y.elements<E>());
      call.done();
    });
  });
}

}  // namespace moonlet::cuda

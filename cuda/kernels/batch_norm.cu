// cuda/kernels/batch_norm.cu: batch_norm in training and its gradients, of images whose planes lie
// one after the other (n, c, h, w) or whose channels lie side by side (channels_last, matrices).
// Blocks find the moments or sums of a piece of a channel by packs, a second launch joins the
// pieces in their order, and a third goes over all packs.
#include "cuda/kernels/batch_norm.h"

#include <algorithm>

#include "cuda/kernels/common/channels.cuh"
#include "cuda/kernels/common/geometry.cuh"
#include "cuda/kernels/common/moments.cuh"
#include "cuda/kernels/common/rows.cuh"
#include "cuda/kernels/common/typed.cuh"
#include "tensor/functors/functor_math.h"

namespace moonlet::cuda {

namespace {

using namespace fn;  // NOLINT(google-build-using-namespace)

// An optional tensor's elements.
struct OptionalArray {
  Array array;
  bool given;
  template <class C>
  __device__ C get(int64_t i, C otherwise) const {
    return given ? array.get<C>(i) : otherwise;
  }
};
struct RunningArrays {
  OptionalArray mean, var;
  double momentum;
};

// Where the elements of the channels lie. Rows are planes, of which `channels` follow each other,
// or, with the channels side by side, the rows of a matrix of all channels.
struct Channels {
  int64_t channels, rows, width;  // rows of one channel, or of the matrix
  int64_t packs;                  // of a row
  int64_t pieces, piece;          // of the packs of a channel, or of the rows of the matrix
  Divider by_packs, by_channels, by_rows;
  bool side_by_side;
  bool by_channel;  // large planes: the last pass goes by channels, as the first one does
  int lanes;        // that stand on the packs of a tile of channels
  int64_t tiles;
};

// The number, mean and squared distances from the mean of some elements.
template <class C>
struct Moments {
  C count, mean, squares;
};
struct JoinMoments {
  template <class C>
  __device__ Moments<C> operator()(const Moments<C>& a, const Moments<C>& b) const {
    const C count = a.count + b.count;
    if (count == C(0)) return a;
    const C distance = b.mean - a.mean, part = b.count / count;
    return {count, a.mean + distance * part,
            a.squares + b.squares + distance * distance * a.count * part};
  }
};
// The sums of a gradient and of its product with the normalised elements.
template <class C>
struct Gradients {
  C plain, product;
};
struct JoinGradients {
  template <class C>
  __device__ Gradients<C> operator()(const Gradients<C>& a, const Gradients<C>& b) const {
    return {a.plain + b.plain, a.product + b.product};
  }
};

// A pack of elements, as they lie, of one channel or of channels side by side.
template <class T>
__device__ __forceinline__ Floats<T> load_channels(const PackSource& x, int64_t at, int64_t count) {
  return unpacked<T>(load_pack<static_cast<int>(sizeof(T))>(x, at, count));
}

// What a pack of one channel adds, and what a pack of as many channels does: these hold what is
// known of their channels in a State, and have kFlight packs on their way at once. All are taken
// from the first element of their channel: the mean of differences from it is exact beside the
// deviation, a large one is not.
template <class T>
struct TakeMoments {
  using C = Computed<T>;
  using Value = Moments<C>;
  using Join = JoinMoments;
  using State = Floats<T>;
  using Pack = Words<16>;
  static constexpr int kFlight = 4, kCount = kPackOf<T>;
  PackSource x;
  int64_t step;  // from the first element of a channel to that of the next
  __device__ static Value start() { return {C(0), C(0), C(0)}; }
  __device__ Value pack(int64_t at, int64_t count, int64_t channel) const {
    const C origin = convert<C>(reinterpret_cast<const T*>(x.data)[channel * step]);
    const Floats<T> v = load_channels<T>(x, at, count);
    const int valid = static_cast<int>(count < kCount ? count : kCount);
    C sum = C(0), squares = C(0);
    MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k)
      if (k < valid) sum += v.v[k] - origin;
    const C mean = sum / static_cast<C>(valid);
    MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k) {
      const C distance = v.v[k] - origin - mean;
      if (k < valid) squares += distance * distance;
    }
    return {static_cast<C>(valid), mean, squares};
  }
  __device__ State state(int64_t channel, int valid) const {
    return load_channels<T>(x, channel, valid);
  }
  __device__ Pack load(int64_t at, int valid) const {
    return load_pack<static_cast<int>(sizeof(T))>(x, at, valid);
  }
  __device__ void each(const Pack& pack, const State& origins, Value* values) const {
    const Floats<T> v = unpacked<T>(pack);
    const C count = values[0].count + C(1), part = C(1) / count;
    MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k) {
      const C from_origin = v.v[k] - origins.v[k];
      const C distance = from_origin - values[k].mean, mean = values[k].mean + distance * part;
      values[k] = {count, mean, values[k].squares + distance * (from_origin - mean)};
    }
  }
};

template <class T>
struct TakeGradients {
  using C = Computed<T>;
  using Value = Gradients<C>;
  using Join = JoinGradients;
  static constexpr int kFlight = 2, kCount = kPackOf<T>;
  struct State {
    C mean[kCount], rstd[kCount];
  };
  struct Pack {
    Words<16> grad, x;
  };
  PackSource grad, x;
  const C *mean, *rstd;
  __device__ static Value start() { return {C(0), C(0)}; }
  __device__ Value pack(int64_t at, int64_t count, int64_t channel) const {
    const C m = mean[channel], r = rstd[channel];
    const Floats<T> g = load_channels<T>(grad, at, count), v = load_channels<T>(x, at, count);
    Value out = start();
    MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k) {
      if (k >= count) continue;
      out.plain += g.v[k];
      out.product += g.v[k] * (v.v[k] - m) * r;
    }
    return out;
  }
  __device__ State state(int64_t channel, int valid) const {
    State out{};
    MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k)
      if (k < valid) out.mean[k] = mean[channel + k], out.rstd[k] = rstd[channel + k];
    return out;
  }
  __device__ Pack load(int64_t at, int valid) const {
    constexpr int kElement = static_cast<int>(sizeof(T));
    return {load_pack<kElement>(grad, at, valid), load_pack<kElement>(x, at, valid)};
  }
  __device__ void each(const Pack& pack, const State& s, Value* values) const {
    const Floats<T> g = unpacked<T>(pack.grad), v = unpacked<T>(pack.x);
    MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k) {
      values[k].plain += g.v[k];
      values[k].product += g.v[k] * (v.v[k] - s.mean[k]) * s.rstd[k];
    }
  }
};

// A block per channel and piece of its planes.
template <class Take>
__global__ void __launch_bounds__(kBlock, 2)
    channel_planes_kernel(Channels p, Take take, typename Take::Value* parts) {
  const typename Take::Join join;
  for (int64_t job = blockIdx.x; job < p.channels * p.pieces; job += gridDim.x) {
    const int64_t channel = job / p.pieces, first = (job - channel * p.pieces) * p.piece;
    const int64_t end = first + p.piece, all = p.rows * p.packs, last = end < all ? end : all;
    auto total = Take::start();
    for (int64_t j = first + threadIdx.x; j < last; j += kBlock) {
      const int64_t row = p.by_packs.quotient(static_cast<uint32_t>(j));
      const int64_t i = (j - row * p.packs) * Take::kCount;
      const int64_t at = (row * p.channels + channel) * p.width + i;
      total = join(total, take.pack(at, p.width - i, channel));
    }
    total = combine_block(total, join);
    if (threadIdx.x == 0) parts[job] = total;
  }
}

// What a thread has of a tile of channels side by side and a piece of the rows: teams of lanes take
// turns at the rows.
struct TileJob {
  int64_t channel, first, last;
  int lane, team, teams, valid;
  __device__ TileJob(const Channels& p, int64_t job, int count)
      : lane(static_cast<int>(threadIdx.x) % p.lanes),
        team(static_cast<int>(threadIdx.x) / p.lanes),
        teams(kBlock / p.lanes) {
    const int64_t piece = job / p.tiles;
    channel = ((job - piece * p.tiles) * p.lanes + lane) * count;
    const int64_t left = p.channels - channel;
    valid = static_cast<int>(left < 0 ? 0 : left < count ? left : count);
    first = piece * p.piece;
    last = first + p.piece < p.rows ? first + p.piece : p.rows;
  }
};

// A block per tile of channels and piece of the rows.
template <class Take>
__global__ void __launch_bounds__(kBlock, 2)
    channel_columns_kernel(Channels p, Take take, typename Take::Value* parts) {
  constexpr int kCount = Take::kCount, kFlight = Take::kFlight;
  using Value = typename Take::Value;
  __shared__ SharedArray<Value, kBlock> memory;
  Value* shared = memory.get();
  const typename Take::Join join;
  for (int64_t job = blockIdx.x; job < p.tiles * p.pieces; job += gridDim.x) {
    const TileJob t(p, job, kCount);
    Value totals[kCount];
    MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k) totals[k] = Take::start();
    if (t.valid > 0) {
      const typename Take::State state = take.state(t.channel, t.valid);
      for (int64_t row = t.first + t.team; row < t.last; row += kFlight * t.teams) {
        typename Take::Pack packs[kFlight];
        MOONLET_UNROLL
        for (int f = 0; f < kFlight; ++f)
          if (row + f * t.teams < t.last)
            packs[f] = take.load((row + f * t.teams) * p.channels + t.channel, t.valid);
        MOONLET_UNROLL
        for (int f = 0; f < kFlight; ++f)
          if (row + f * t.teams < t.last) take.each(packs[f], state, totals);
      }
    }
    MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k) {
      Value* mine = shared + threadIdx.x;
      *mine = totals[k];
      __syncthreads();
      for (int half_way = t.teams / 2; half_way > 0; half_way /= 2) {
        if (t.team < half_way) *mine = join(*mine, mine[half_way * p.lanes]);
        __syncthreads();
      }
      if (t.team == 0 && k < t.valid)
        parts[(t.channel + k) * p.pieces + job / p.tiles] = shared[t.lane];
      __syncthreads();
    }
  }
}

template <class C>
__device__ __forceinline__ void update_running(const OptionalArray& running, int64_t channel,
                                               C value, C momentum) {
  if (!running.given) return;
  const C old = running.array.get<C>(channel);
  running.array.set<C>(channel, old + momentum * (value - old));
}

// What becomes of a channel's elements: (x - center) scale + shift; in the gradient that plus grad,
// times gradient, as the product of gradient and scale may be too small for C.
template <class C>
struct alignas(16) Line {
  C gradient, center, scale, shift;
};

// The spread of a channel whose squares left the range of C, by a warp.
template <class C, int kElement>
__device__ Spread channel_in_double(const Channels& p, const PackSource& x, int64_t channel) {
  const int64_t width = p.side_by_side ? 1 : p.width, count = p.rows * width;
  return spread_in_double(count, count, threadIdx.x % kWarp, kWarp, true, [&](int64_t i) {
    const int64_t row = i / width;
    return static_cast<double>(
        element_of<C, kElement>(x, (row * p.channels + channel) * width + i - row * width));
  });
}

// A warp for each channel: joins the pieces.
template <class C, int kElement>
__global__ void finish_moments_kernel(Channels p, PackSource x, const Moments<C>* parts, double eps,
                                      Array mean, Array rstd, OptionalArray weight,
                                      OptionalArray bias, Line<C>* lines, RunningArrays running) {
  const int lane = threadIdx.x % kWarp;
  const int64_t all_warps = int64_t{gridDim.x} * (kBlock / kWarp);
  for (int64_t start = int64_t{blockIdx.x} * (kBlock / kWarp); start < p.channels;
       start += all_warps) {
    const int64_t channel = start + threadIdx.x / kWarp;
    Moments<C> all = {C(0), C(0), C(0)};
    if (channel < p.channels)
      for (int64_t i = lane; i < p.pieces; i += kWarp)
        all = JoinMoments()(all, parts[channel * p.pieces + i]);
    all = from_lane(combine_lanes(all, kWarp, JoinMoments()), 0, kWarp);
    if (channel >= p.channels) continue;
    const int64_t step = p.side_by_side ? 1 : p.width;
    Spread spread = {static_cast<double>(element_of<C, kElement>(x, channel * step)),
                     static_cast<double>(all.mean), static_cast<double>(all.squares), 1};
    const auto count = static_cast<int64_t>(all.count);
    if (left_range<C>(spread.squares, count, eps))
      spread = channel_in_double<C, kElement>(p, x, channel);
    if (lane != 0) continue;
    const Center<C> center(spread.mean + spread.rest, spread.rstd(all.count, eps), count);
    mean.set<double>(channel, center.exact_mean);
    rstd.set<double>(channel, center.exact_rstd);
    const C factor = weight.get<C>(channel, C(1));
    lines[channel] = {C(0), center.mean, center.rstd * factor,
                      bias.get<C>(channel, C(0)) - center.shift * factor};
    const C momentum = static_cast<C>(running.momentum);
    update_running<C>(running.mean, channel, static_cast<C>(center.exact_mean), momentum);
    update_running<C>(running.var, channel, static_cast<C>(spread.variance(all.count - C(1))),
                      momentum);
  }
}

// The same for sums, which are the gradients of the bias and of the weight. That of x, with h = (x
// - mean) rstd, is rstd weight (grad - mean(grad) - h mean(grad h)).
template <class C>
__global__ void finish_gradients_kernel(Channels p, const Gradients<C>* parts, int64_t count,
                                        const double* mean, const double* rstd,
                                        OptionalArray weight, Line<C>* lines,
                                        OptionalArray grad_weight, OptionalArray grad_bias) {
  const int lane = threadIdx.x % kWarp;
  const int64_t step = int64_t{gridDim.x} * (kBlock / kWarp);
  for (int64_t start = int64_t{blockIdx.x} * (kBlock / kWarp); start < p.channels; start += step) {
    const int64_t channel = start + threadIdx.x / kWarp;
    Gradients<C> all = {C(0), C(0)};
    if (channel < p.channels)
      for (int64_t i = lane; i < p.pieces; i += kWarp)
        all = JoinGradients()(all, parts[channel * p.pieces + i]);
    all = combine_lanes(all, kWarp, JoinGradients());
    if (lane != 0 || channel >= p.channels) continue;
    const Center<C> center(mean[channel], rstd[channel], count);
    const C product = all.product - center.shift * all.plain, n = static_cast<C>(count);
    if (grad_weight.given) grad_weight.array.set<C>(channel, product);
    if (grad_bias.given) grad_bias.array.set<C>(channel, all.plain);
    if (!lines) continue;
    const C gradient = center.rstd * weight.get<C>(channel, C(1));
    lines[channel] = {gradient, center.mean, -center.rstd * (product / n),
                      center.shift * (product / n) - all.plain / n};
  }
}

// The pack at `at` by a line for each element.
template <class T, bool kWithGrad, class LineAt>
__device__ __forceinline__ void apply_lines(const PackSource& grad, const PackSource& x, char* y,
                                            int64_t at, int64_t left, const LineAt& line_at) {
  constexpr int kElement = static_cast<int>(sizeof(T));
  Floats<T> gradients, v = load_channels<T>(x, at, left);
  if constexpr (kWithGrad) gradients = load_channels<T>(grad, at, left);
  MOONLET_UNROLL
  for (int k = 0; k < kPackOf<T>; ++k) {
    const Line<Computed<T>> line = line_at(k);
    v.v[k] = (v.v[k] - line.center) * line.scale + line.shift;
    if constexpr (kWithGrad) v.v[k] = (v.v[k] + gradients.v[k]) * line.gradient;
  }
  store_pack<kElement>(y, x.aligned, at, left, packed<T>(v));
}

// The last pass begins with what the first one read last, which may lie in the cache.
template <class T, bool kWithGrad>
__global__ void __launch_bounds__(kBlock, 2)
    plane_lines_kernel(Channels p, int32_t packs, const Line<Computed<T>>* lines, PackSource grad,
                       PackSource x, char* y) {
  for (MOONLET_EACH_OF(int32_t, j, packs)) {
    const uint32_t plane = p.by_packs.quotient(static_cast<uint32_t>(j));
    const int64_t i = static_cast<int64_t>(j - plane * p.by_packs.divisor) * kPackOf<T>;
    const uint32_t channels = p.by_channels.divisor;
    uint32_t row = plane, channel;
    if (p.by_channel) {
      const uint32_t turn = p.by_rows.quotient(plane);
      channel = channels - 1 - turn;
      row = (plane - turn * p.by_rows.divisor) * channels + channel;
    } else {
      channel = row - p.by_channels.quotient(row) * channels;
    }
    const Line<Computed<T>> line = lines[channel];
    apply_lines<T, kWithGrad>(grad, x, y, row * p.width + i, p.width - i,
                              [&](int) { return line; });
  }
}

// A thread keeps the lines of a pack of channels for all of its rows.
template <class T, bool kWithGrad>
__global__ void __launch_bounds__(kBlock, 2)
    column_lines_kernel(Channels p, const Line<Computed<T>>* lines, PackSource grad, PackSource x,
                        char* y) {
  constexpr int kCount = kPackOf<T>;
  const int64_t jobs = p.tiles * p.pieces;
  for (int64_t job = blockIdx.x; job < jobs; job += gridDim.x) {
    const TileJob t(p, jobs - 1 - job, kCount);
    if (t.valid == 0) continue;
    Line<Computed<T>> mine[kCount] = {};
    MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k)
      if (k < t.valid) mine[k] = lines[t.channel + k];
    for (int64_t row = t.first + t.team; row < t.last; row += t.teams)
      apply_lines<T, kWithGrad>(grad, x, y, row * p.channels + t.channel, t.valid,
                                [&](int k) { return mine[k]; });
  }
}

// False where the elements of x lie otherwise, or are too many.
bool plan_channels(const Tensor& x, Channels& p) {
  const bool last = channels_are_last(x);
  if (!last && !x.is_contiguous()) return false;
  const int count = static_cast<int>(16 / size_of(x.dtype()));
  const int64_t channels = x.size(1), inner = x.numel() / (x.size(0) * channels);
  p.channels = channels;
  p.side_by_side = last || inner == 1;
  p.width = p.side_by_side ? channels : inner;
  p.rows = p.side_by_side ? x.numel() / channels : x.size(0);
  p.packs = (p.width + count - 1) / count;
  const int64_t all_rows = p.side_by_side ? p.rows : p.rows * channels;
  if (all_rows * p.packs >= kDividerLimit) return false;
  p.by_packs = Divider(p.packs);
  p.by_channels = Divider(channels);
  p.by_rows = Divider(p.rows);
  p.by_channel = p.packs >= kBlock;
  p.lanes = lanes_for(p.packs);
  p.tiles = (p.packs + p.lanes - 1) / p.lanes;
  // Enough blocks for a device, of enough work each.
  const int64_t work = p.side_by_side ? p.rows : p.rows * p.packs;
  const int64_t turn = p.side_by_side ? int64_t{8} * (kBlock / p.lanes) : int64_t{4} * kBlock;
  const int64_t jobs = p.side_by_side ? p.tiles : channels;
  p.pieces = std::clamp<int64_t>(1024 / jobs, 1, (work + turn - 1) / turn);
  p.piece = (work + p.pieces - 1) / p.pieces;
  return true;
}

OptionalArray optional(const Tensor& t) {
  return {t.defined() ? array(t) : Array{nullptr, DType::Float32}, t.defined()};
}
Tensor contiguous_if_given(const Tensor& t) { return t.defined() ? contiguous(t) : t; }

// What each channel adds up to, a value for each piece, in scratch memory.
template <class Take>
Tensor run_parts(const Call& call, const Channels& p, const Take& take) {
  using Value = typename Take::Value;
  const int64_t count = p.channels * p.pieces;
  const Tensor parts = call.scratch({count * static_cast<int64_t>(sizeof(Value))}, DType::UInt8);
  auto* const memory = reinterpret_cast<Value*>(parts.raw());
  if (p.side_by_side)
    MOONLET_LAUNCH((channel_columns_kernel<Take>), blocks_for(p.tiles * p.pieces * kBlock), kBlock,
                   0, call.stream(), p, take, memory);
  else
    MOONLET_LAUNCH((channel_planes_kernel<Take>), blocks_for(count * kBlock), kBlock, 0,
                   call.stream(), p, take, memory);
  call.done();
  return parts;
}

template <class C>
Tensor line_table(const Call& call, const Channels& p) {
  return call.scratch({p.channels * static_cast<int64_t>(sizeof(Line<C>))}, DType::UInt8);
}

template <class T, bool kWithGrad>
void run_lines(const Call& call, const Channels& p, const Tensor& table, const PackSource& grad,
               PackSource x, Tensor& y) {
  const auto* const lines = reinterpret_cast<const Line<Computed<T>>*>(table.raw());
  x.aligned = x.aligned && aligned_to(y.raw(), 16);
  if (p.side_by_side) {
    MOONLET_LAUNCH((column_lines_kernel<T, kWithGrad>), blocks_for(p.tiles * p.pieces * kBlock),
                   kBlock, 0, call.stream(), p, lines, grad, x, y.raw());
  } else {
    const int64_t packs = p.rows * p.channels * p.packs;
    MOONLET_LAUNCH((plane_lines_kernel<T, kWithGrad>), blocks_for(packs), kBlock, 0, call.stream(),
                   p, static_cast<int32_t>(packs), lines, grad, x, y.raw());
  }
  call.done();
}

}  // namespace

bool batch_norm_by_packs(const Call& call, const Tensor& input, const Tensor& weight,
                         const Tensor& bias, const RunningStatistics& running, double eps,
                         Tensor& y, Tensor& mean, Tensor& rstd) {
  Channels p;
  if (input.numel() == 0 || input.dtype() != y.dtype() || !plan_channels(y, p)) return false;
  const Tensor x = laid_as(call, y, input);
  const Tensor w = contiguous_if_given(weight), b = contiguous_if_given(bias);
  visit_float_types(x.dtype(), [&]<class T>() {
    using C = Computed<T>;
    constexpr int kElement = static_cast<int>(sizeof(T));
    const PackSource source = row_source(x, p.width);
    const int64_t step = p.side_by_side ? 1 : p.width;
    const Tensor parts = run_parts<TakeMoments<T>>(call, p, {source, step});
    const Tensor lines = line_table<C>(call, p);
    MOONLET_LAUNCH(
        (finish_moments_kernel<C, kElement>), blocks_for(p.channels * kWarp), kBlock, 0,
        call.stream(), p, source, reinterpret_cast<const Moments<C>*>(parts.raw()), eps,
        array(mean), array(rstd), optional(w), optional(b), reinterpret_cast<Line<C>*>(lines.raw()),
        (RunningArrays{optional(running.mean), optional(running.var), running.momentum}));
    call.done();
    run_lines<T, false>(call, p, lines, source, source, y);
  });
  return true;
}

bool batch_norm_backward_by_packs(const Call& call, const Tensor& gradient, const Tensor& input,
                                  const Tensor& given_mean, const Tensor& given_rstd,
                                  const Tensor& weight, const BatchNormGradients& wanted) {
  Channels p;
  Tensor* const y = wanted.x;
  const Tensor& like = y ? *y : input;
  const bool alike = input.dtype() == gradient.dtype() && input.dtype() == like.dtype();
  if (input.numel() == 0 || !alike || !plan_channels(like, p)) return false;
  const Tensor x = laid_as(call, like, input), grad = laid_as(call, like, gradient);
  const DType compute = compute_dtype(x.dtype());
  const Tensor mean = converted(given_mean, compute), rstd = converted(given_rstd, compute);
  const Tensor exact_mean = converted(given_mean, DType::Float64),
               exact_rstd = converted(given_rstd, DType::Float64);
  const Tensor w = contiguous_if_given(weight);
  visit_float_types(x.dtype(), [&]<class T>() {
    using C = Computed<T>;
    const PackSource source = row_source(x, p.width), gradients = row_source(grad, p.width);
    const C *const means = mean.elements<C>(), *const scales = rstd.elements<C>();
    const Tensor parts = run_parts<TakeGradients<T>>(call, p, {gradients, source, means, scales});
    const Tensor lines = y ? line_table<C>(call, p) : Tensor();
    MOONLET_LAUNCH((finish_gradients_kernel<C>), blocks_for(p.channels * kWarp), kBlock, 0,
                   call.stream(), p, reinterpret_cast<const Gradients<C>*>(parts.raw()),
                   x.numel() / p.channels, exact_mean.elements<double>(),
                   exact_rstd.elements<double>(), optional(w),
                   y ? reinterpret_cast<Line<C>*>(lines.raw()) : nullptr,
                   optional(wanted.weight ? *wanted.weight : Tensor()),
                   optional(wanted.bias ? *wanted.bias : Tensor()));
    call.done();
    if (y) run_lines<T, true>(call, p, lines, gradients, source, *y);
  });
  return true;
}

}  // namespace moonlet::cuda

// cuda/kernels/normalization/channels.cuh: norms of channels by packs of 16 bytes: blocks add up
// what the pieces of a channel bring, and a pass over all packs applies a line to each channel's
// elements.
#pragma once

#include <algorithm>

#include "cuda/kernels/common/channels.cuh"
#include "cuda/kernels/common/geometry.cuh"
#include "cuda/kernels/common/moments.cuh"
#include "cuda/kernels/common/rows.cuh"
#include "cuda/kernels/common/typed.cuh"
#include "tensor/functors/functor_math.h"

namespace moonlet::cuda {

// Where the elements of the channels lie. Rows are planes, of which `channels` follow each other,
// or, with the channels side by side, the rows of a matrix of all channels.
struct Channels {
  int64_t channels, rows, width;  // rows of one channel, or of the matrix
  int64_t packs;                  // of a row
  int64_t pieces, piece;          // of the packs of a channel, or of the rows of the matrix
  Divider by_packs, by_channels, by_rows;
  bool side_by_side;
  bool by_channel;  // planes so large that the last pass goes by channels, as the first one does
  int lanes;  // that stand on the packs of a tile of channels, or go over a piece of a channel
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
// What a channel's elements are normalised by: (x unit - mean) rstd - shift. `unit` is a power of
// two, 1 but where the numbers or their squares leave the range of C; `shift` is what rounding took
// off the mean.
template <class C>
struct alignas(4 * sizeof(C)) ChannelCenter {
  C unit, mean, rstd, shift;
  __device__ static ChannelCenter of(double mean, double rstd, int64_t count) {
    constexpr int kMost = std::numeric_limits<C>::max_exponent - 2;
    const bool wide = Center<C>(mean, rstd, count).wide && rstd > 0 && rstd < HUGE_VAL;
    const int exponent = wide ? min(max(ilogb(rstd), -kMost), kMost) : 0;
    const double unit = ldexp(1.0, exponent), exact = mean * unit, scale = rstd / unit;
    const C rounded = static_cast<C>(exact);
    return {static_cast<C>(unit), rounded, static_cast<C>(scale),
            static_cast<C>((exact - static_cast<double>(rounded)) * scale)};
  }
  __device__ __forceinline__ C distance(C x) const { return x * unit - mean; }
};

// The sums of a gradient and of its product with the normalised elements, `shift` left out.
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
    ChannelCenter<C> centers[kCount];
  };
  struct Pack {
    Words<16> grad, x;
  };
  PackSource grad, x;
  const ChannelCenter<C>* centers;
  __device__ static Value start() { return {C(0), C(0)}; }
  __device__ Value pack(int64_t at, int64_t count, int64_t channel) const {
    const ChannelCenter<C> center = centers[channel];
    const Floats<T> g = load_channels<T>(grad, at, count), v = load_channels<T>(x, at, count);
    Value out = start();
    MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k) {
      if (k >= count) continue;
      out.plain += g.v[k];
      out.product += g.v[k] * (center.distance(v.v[k]) * center.rstd);
    }
    return out;
  }
  __device__ State state(int64_t channel, int valid) const {
    State out{};
    MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k)
      if (k < valid) out.centers[k] = centers[channel + k];
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
      values[k].product += g.v[k] * (s.centers[k].distance(v.v[k]) * s.centers[k].rstd);
    }
  }
};

// A team of lanes, or a block, per channel and piece of its planes.
template <class Take>
__global__ void __launch_bounds__(kBlock, 2)
    channel_planes_kernel(Channels p, Take take, typename Take::Value* parts) {
  const typename Take::Join join;
  const int lane = static_cast<int>(threadIdx.x) % p.lanes;
  const int64_t jobs = p.channels * p.pieces, teams = kBlock / p.lanes;
  for (int64_t begin = blockIdx.x * teams; begin < jobs; begin += gridDim.x * teams) {
    const int64_t job = begin + threadIdx.x / p.lanes;
    const int64_t channel = job / p.pieces, first = (job - channel * p.pieces) * p.piece;
    const int64_t end = first + p.piece, all = job < jobs ? p.rows * p.packs : 0;
    const int64_t last = end < all ? end : all;
    auto total = Take::start();
    for (int64_t j = first + lane; j < last; j += p.lanes) {
      const int64_t row = p.by_packs.quotient(static_cast<uint32_t>(j));
      const int64_t i = (j - row * p.packs) * Take::kCount;
      const int64_t at = (row * p.channels + channel) * p.width + i;
      total = join(total, take.pack(at, p.width - i, channel));
    }
    total = combine_team(total, p.lanes, join);
    if (lane == 0 && job < jobs) parts[job] = total;
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

// What becomes of a channel's elements.
template <class C>
struct alignas(4 * sizeof(C)) Line {
  static constexpr bool kWithGrad = false;
  C unit, center, scale, shift;
  __device__ __forceinline__ C operator()(C x, C) const {
    return (x * unit - center) * scale + shift;
  }
};
// And of their gradients: (a line of x + grad weight) factor, whose product may be too small for C.
template <class C>
struct alignas(4 * sizeof(C)) GradientLine {
  static constexpr bool kWithGrad = true;
  Line<C> of_x;
  C weight, factor;
  __device__ __forceinline__ C operator()(C x, C grad) const {
    return (of_x(x, grad) + grad * weight) * factor;
  }
};

// That of the gradient of x, with h = (x - mean) rstd: rstd (weight grad - mean(a) - h mean(a h)),
// where a is grad, and weight a part of `factor`, or weight grad.
template <class C>
__device__ __forceinline__ GradientLine<C> gradient_line(const ChannelCenter<C>& c, C mean_of_a,
                                                         C mean_of_product, C weight, C factor) {
  return {{c.unit, c.mean, -c.rstd * mean_of_product, c.shift * mean_of_product - mean_of_a},
          weight,
          c.rstd * c.unit * factor};
}

struct RunningArrays {
  OptionalArray mean, var;
  double momentum;
};

template <class C>
__device__ __forceinline__ void update_running(const OptionalArray& running, int64_t channel,
                                               C value, C momentum) {
  if (!running.given) return;
  const C old = running.array.get<C>(channel);
  running.array.set<C>(channel, old + momentum * (value - old));
}

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
    const double exact_mean = spread.mean + spread.rest, exact_rstd = spread.rstd(all.count, eps);
    mean.set<double>(channel, exact_mean);
    rstd.set<double>(channel, exact_rstd);
    const auto center = ChannelCenter<C>::of(exact_mean, exact_rstd, count);
    const C factor = weight.get<C>(channel, C(1));
    if (lines != nullptr)
      lines[channel] = {center.unit, center.mean, center.rstd * factor,
                        bias.get<C>(channel, C(0)) - center.shift * factor};
    const C momentum = static_cast<C>(running.momentum);
    update_running<C>(running.mean, channel, static_cast<C>(exact_mean), momentum);
    update_running<C>(running.var, channel, static_cast<C>(spread.variance(all.count - C(1))),
                      momentum);
  }
}

// The pack at `at` by a line for each element.
template <class T, class L, class LineAt>
__device__ __forceinline__ void apply_lines(const PackSource& grad, const PackSource& x, char* y,
                                            int64_t at, int64_t left, const LineAt& line_at) {
  constexpr int kElement = static_cast<int>(sizeof(T));
  Floats<T> gradients, v = load_channels<T>(x, at, left);
  if constexpr (L::kWithGrad) gradients = load_channels<T>(grad, at, left);
  MOONLET_UNROLL
  for (int k = 0; k < kPackOf<T>; ++k) {
    const L line = line_at(k);
    if constexpr (L::kWithGrad)
      v.v[k] = line(v.v[k], gradients.v[k]);
    else
      v.v[k] = line(v.v[k], v.v[k]);
  }
  store_pack<kElement>(y, x.aligned, at, left, packed<T>(v));
}

// The last pass begins with what the first one read last, which may still lie in the cache.
template <class T, class L>
__global__ void __launch_bounds__(kBlock, 2)
    plane_lines_kernel(Channels p, int32_t packs, const L* lines, PackSource grad, PackSource x,
                       char* y) {
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
    const L line = lines[channel];
    apply_lines<T, L>(grad, x, y, row * p.width + i, p.width - i, [&](int) { return line; });
  }
}

// A thread keeps the lines of a pack of channels for all of its rows.
template <class T, class L>
__global__ void __launch_bounds__(kBlock, 2)
    column_lines_kernel(Channels p, const L* lines, PackSource grad, PackSource x, char* y) {
  constexpr int kCount = kPackOf<T>;
  const int64_t jobs = p.tiles * p.pieces;
  for (int64_t job = blockIdx.x; job < jobs; job += gridDim.x) {
    const TileJob t(p, jobs - 1 - job, kCount);
    if (t.valid == 0) continue;
    L mine[kCount] = {};
    MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k)
      if (k < t.valid) mine[k] = lines[t.channel + k];
    for (int64_t row = t.first + t.team; row < t.last; row += t.teams)
      apply_lines<T, L>(grad, x, y, row * p.channels + t.channel, t.valid,
                        [&](int k) { return mine[k]; });
  }
}

// False where the elements of x lie otherwise, or are too many.
inline bool plan_channels(const Tensor& x, Channels& p) {
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
  // Teams of lanes for channels of few packs, else a block.
  const int64_t most = int64_t{kWarp} * kHeld, of_channel = p.rows * p.packs;
  p.lanes = p.side_by_side      ? lanes_for(p.packs)
            : of_channel > most ? kBlock
                                : lanes_for(of_channel);
  p.tiles = (p.packs + p.lanes - 1) / p.lanes;
  // Enough blocks for a device, of enough work each.
  const int64_t work = p.side_by_side ? p.rows : p.rows * p.packs;
  const int64_t turn = p.side_by_side ? int64_t{8} * (kBlock / p.lanes) : int64_t{4} * kBlock;
  const int64_t jobs = p.side_by_side ? p.tiles : channels;
  p.pieces = std::clamp<int64_t>(1024 / jobs, 1, (work + turn - 1) / turn);
  p.piece = (work + p.pieces - 1) / p.pieces;
  return true;
}

inline Tensor contiguous_if_given(const Tensor& t) { return t.defined() ? contiguous(t) : t; }

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
    MOONLET_LAUNCH((channel_planes_kernel<Take>), blocks_for(count * p.lanes), kBlock, 0,
                   call.stream(), p, take, memory);
  call.done();
  return parts;
}

// A value of type V for each of `count` channels, in scratch memory.
template <class V>
Tensor channel_table(const Call& call, int64_t count) {
  return call.scratch({count * static_cast<int64_t>(sizeof(V))}, DType::UInt8);
}
template <class V>
V* table_of(const Tensor& table) {
  return table.defined() ? reinterpret_cast<V*>(table.raw()) : nullptr;
}

// The centers of `channels` by statistics of which `each` channels share one, made of `elements`.
template <class C>
__global__ void centers_kernel(int64_t channels, int64_t each, int64_t elements, const double* mean,
                               const double* rstd, ChannelCenter<C>* centers) {
  for (MOONLET_EACH(i, channels))
    centers[i] = ChannelCenter<C>::of(mean[i / each], rstd[i / each], elements);
}
template <class C>
Tensor center_table(const Call& call, int64_t channels, int64_t each, int64_t elements,
                    const Tensor& mean, const Tensor& rstd) {
  const Tensor table = channel_table<ChannelCenter<C>>(call, channels);
  const Tensor m = converted(mean, DType::Float64), s = converted(rstd, DType::Float64);
  MOONLET_LAUNCH((centers_kernel<C>), blocks_for(channels), kBlock, 0, call.stream(), channels,
                 each, elements, static_cast<const double*>(m.elements<double>()),
                 static_cast<const double*>(s.elements<double>()),
                 table_of<ChannelCenter<C>>(table));
  call.done();
  return table;
}

// The means and roots of all channels, and lines unless they are null.
template <class T>
void find_moments(const Call& call, const Channels& p, const PackSource& x, double eps,
                  Tensor& mean, Tensor& rstd, const Tensor& weight, const Tensor& bias,
                  Line<Computed<T>>* lines, const RunningArrays& running) {
  using C = Computed<T>;
  constexpr int kElement = static_cast<int>(sizeof(T));
  const Tensor parts = run_parts<TakeMoments<T>>(call, p, {x, p.side_by_side ? 1 : p.width});
  MOONLET_LAUNCH((finish_moments_kernel<C, kElement>), blocks_for(p.channels * kWarp), kBlock, 0,
                 call.stream(), p, x, table_of<const Moments<C>>(parts), eps, array(mean),
                 array(rstd), optional(weight), optional(bias), lines, running);
  call.done();
}

template <class T, class L>
void run_lines(const Call& call, const Channels& p, const Tensor& table, const PackSource& grad,
               PackSource x, Tensor& y) {
  const auto* const lines = table_of<const L>(table);
  x.aligned = x.aligned && aligned_to(y.raw(), 16);
  if (p.side_by_side) {
    MOONLET_LAUNCH((column_lines_kernel<T, L>), blocks_for(p.tiles * p.pieces * kBlock), kBlock, 0,
                   call.stream(), p, lines, grad, x, y.raw());
  } else {
    const int64_t packs = p.rows * p.channels * p.packs;
    MOONLET_LAUNCH((plane_lines_kernel<T, L>), blocks_for(packs), kBlock, 0, call.stream(), p,
                   static_cast<int32_t>(packs), lines, grad, x, y.raw());
  }
  call.done();
}

}  // namespace moonlet::cuda

// cuda/kernels/common/conv_thin_last.cuh: convolution of few channels in each of several groups, as
// depthwise, of images whose channels lie side by side: both ways and the gradient of the weight,
// without products and without copies to planes; depthwise ones by packs of channels. Counts in 32
// bits.
#pragma once

#include "cuda/kernels/common/conv_last.cuh"
#include "cuda/kernels/common/divide.cuh"

namespace moonlet::cuda {

// Positions side by side of which a thread computes packs: they share the weights that it reads.
inline constexpr int kThinStrip = 4;
// Threads of a block beside one another along the channels, and the elements of the weight for
// which a thread adds up a gradient at once: they share the gradients that it reads.
inline constexpr int kThinLanes = 32, kThinTaps = 3;

// One axis of the images that are computed (`to`) and of those that these are made of.
struct ThinAxis {
  int to, from, kernel, stride, pad, dilation;
  Divisor<int32_t> by_to, by_stride;

  // Where a position begins among those of the other side, and where it sees through a tap: outside
  // of [0, from) nothing.
  template <bool kBack>
  __device__ __forceinline__ int start(int position) const {
    return kBack ? position + pad : position * stride - pad;
  }
  template <bool kBack>
  __device__ __forceinline__ int seen(int start, int tap) const {
    if constexpr (!kBack) return start + tap * dilation;
    int rest = start - tap * dilation;
    if (rest < 0) return -1;
    const int at = by_stride.split(rest);
    return rest == 0 ? at : -1;
  }
  __device__ __forceinline__ bool has(int at) const {
    return static_cast<unsigned>(at) < static_cast<unsigned>(from);
  }
};

// `ins` channels of the images that are read make `outs` of the others in each group; `packs` of
// all of these lie side by side, `strips` of positions in a line.
struct ThinShape {
  int batch, groups, ins, outs, packs, strips;
  ThinAxis axis[kAxes];
  Divisor<int32_t> by_packs, by_strips, by_outs;
  __host__ __device__ int width() const { return groups * outs; }
  __host__ __device__ int from_width() const { return groups * ins; }
};

// Whether these kernels can count what there is: strips may reach behind their lines.
inline bool counts_are_narrow(const ConvShape& s) {
  int64_t most = s.groups * std::max({s.batch * s.ins * s.in.volume,
                                      s.batch * s.outs * s.out.volume, s.taps() * s.outs});
  for (int d = 0; d < kAxes; ++d)
    most = std::max({most, s.in.sizes.of[d] + 2 * s.pad.of[d], s.stride.of[d],
                     s.kernel.sizes.of[d] * s.dilation.of[d]});
  return most < kDividerLimit / 4;
}

// The shape for as many channels at once.
inline ThinShape thin_shape(const ConvShape& s, bool back, int64_t pack) {
  const Grid3 &to = back ? s.in : s.out, &from = back ? s.out : s.in;
  const auto narrow = [](int64_t n) { return static_cast<int>(n); };
  ThinShape out{};
  for (int d = 0; d < kAxes; ++d)
    out.axis[d] = {narrow(to.sizes.of[d]),
                   narrow(from.sizes.of[d]),
                   narrow(s.kernel.sizes.of[d]),
                   narrow(s.stride.of[d]),
                   narrow(s.pad.of[d]),
                   narrow(s.dilation.of[d]),
                   Divisor<int32_t>(to.sizes.of[d]),
                   Divisor<int32_t>(s.stride.of[d])};
  out.batch = narrow(s.batch), out.groups = narrow(s.groups);
  out.ins = narrow(back ? s.outs : s.ins), out.outs = narrow(back ? s.ins : s.outs);
  out.packs = narrow(out.width() / pack);
  const int strip = pack > 1 ? kThinStrip : 1;
  out.strips = (out.axis[2].to + strip - 1) / strip;
  out.by_packs = Divisor<int32_t>(out.packs), out.by_strips = Divisor<int32_t>(out.strips);
  out.by_outs = Divisor<int32_t>(out.outs);
  return out;
}

// The image of a position among those that are computed, and its coordinates.
struct ThinPosition {
  int image, at[kAxes];
};
__device__ __forceinline__ ThinPosition thin_position(const ThinShape& s, int line, int along) {
  ThinPosition out;
  out.at[2] = along;
  out.at[0] = s.axis[1].by_to.split(line);
  out.at[1] = line;
  out.image = s.axis[0].by_to.split(out.at[0]);
  return out;
}

// Adds up what a strip from a position on sees; `x` and `weight` begin with the group's channels.
template <bool kBack, int kPack, int kStrip, class C, class E>
__device__ __forceinline__ void add_seen(const ThinShape& s, const ThinPosition& position,
                                         const E* x, const E* weight, C (&sums)[kStrip][kPack]) {
  const ThinAxis &deep = s.axis[0], &down = s.axis[1], &along = s.axis[2];
  const int first = deep.template start<kBack>(position.at[0]),
            top = down.template start<kBack>(position.at[1]),
            left = along.template start<kBack>(position.at[2]), width = s.width();
  for (int a = 0; a < deep.kernel; ++a) {
    const int z = deep.template seen<kBack>(first, a);
    for (int b = 0; b < down.kernel; ++b) {
      const int v = down.template seen<kBack>(top, b);
      const bool inside = deep.has(z) && down.has(v);
      const int line = inside ? (position.image * deep.from + z) * down.from + v : 0;
      const E* const from = x + static_cast<int64_t>(line) * along.from * s.from_width();
      for (int c = 0; c < along.kernel; ++c, weight += s.ins * width) {
        for (int k = 0; inside && k < s.ins; ++k) {
          C factors[kPack];
          load_floats<kPack>(weight + k * width, factors);
          MOONLET_UNROLL
          for (int r = 0; r < kStrip; ++r) {
            const int start = kBack ? left + r : left + r * along.stride;
            const int at = along.template seen<kBack>(start, c);
            if (!along.has(at)) continue;
            C seen[kPack];
            load_floats<kPack>(from + static_cast<int64_t>(at) * s.from_width() + k, seen);
            MOONLET_UNROLL
            for (int e = 0; e < kPack; ++e) sums[r][e] += seen[e] * factors[e];
          }
        }
      }
    }
  }
}

// `weight` lies as (taps, channels that are read in a group, all channels of the result).
template <bool kBack, int kPack, class C, class E>
__global__ void __launch_bounds__(kBlock, 2)
    thin_last_kernel(MOONLET_GRID_CONSTANT const ThinShape s, const E* x, const E* weight,
                     Epilogue<C> epilogue, E* y) {
  constexpr int kStrip = kPack > 1 ? kThinStrip : 1;
  const int lines = s.batch * s.axis[0].to * s.axis[1].to, length = s.axis[2].to, width = s.width();
  for (MOONLET_EACH_OF(int, i, lines* s.strips* s.packs)) {
    int pack = i;
    int strip = s.by_packs.split(pack);
    const int line = s.by_strips.split(strip);
    const ThinPosition position = thin_position(s, line, strip * kStrip);
    const int channel = pack * kPack;
    int rest = channel;
    const int group = kPack > 1 ? channel : s.by_outs.split(rest);
    C sums[kStrip][kPack];
    MOONLET_UNROLL
    for (int e = 0; e < kPack; ++e) {
      sums[0][e] = epilogue.shift(channel + e);
      MOONLET_UNROLL
      for (int r = 1; r < kStrip; ++r) sums[r][e] = sums[0][e];
    }
    add_seen<kBack>(s, position, x + group * s.ins, weight + channel, sums);
    E* const to = y + (static_cast<int64_t>(line) * length + position.at[2]) * width + channel;
    MOONLET_UNROLL
    for (int r = 0; r < kStrip; ++r) {
      if (position.at[2] + r >= length) continue;
      MOONLET_UNROLL
      for (int e = 0; e < kPack; ++e) sums[r][e] = epilogue.clipped(sums[r][e]);
      store_floats<kPack>(to + static_cast<int64_t>(r) * width, sums[r]);
    }
  }
}

// Columns of the gradient of the weight, taps with the channels that are read in them: where each
// sees from the start of a position on, and its channel.
struct ThinColumns {
  int taps[kThinTaps][kAxes], channels[kThinTaps];
  __device__ ThinColumns(const ThinShape& s, int column, int columns, int group) {
    const ThinAxis &deep = s.axis[0], &down = s.axis[1], &along = s.axis[2];
    MOONLET_UNROLL
    for (int t = 0; t < kThinTaps; ++t) {
      const bool is_one = column + t < columns;
      const int tap = is_one ? (column + t) / s.ins : 0;
      channels[t] = group * s.ins + (column + t) % s.ins;
      taps[t][2] = tap % along.kernel * along.dilation - along.pad;
      taps[t][1] = tap / along.kernel % down.kernel * down.dilation - down.pad;
      // No position sees what lies behind the last column.
      taps[t][0] = is_one ? tap / along.kernel / down.kernel * deep.dilation - deep.pad
                          : -1 - (deep.to - 1) * deep.stride;
    }
  }
};

// Adds up the gradients of some columns, of every `step`th position in [begin, end).
template <int kPack, class C, class E>
__device__ __forceinline__ void add_gradients(const ThinShape& s, const ThinColumns& columns,
                                              int begin, int end, int step, const E* x,
                                              const E* grad, C (&sums)[kThinTaps][kPack]) {
  const ThinAxis &deep = s.axis[0], &down = s.axis[1], &along = s.axis[2];
  for (int p = begin; p < end; p += step) {
    C given[kPack];
    load_floats<kPack>(grad + static_cast<int64_t>(p) * s.width(), given);
    int rest = p;
    const int line = along.by_to.split(rest);
    const ThinPosition position = thin_position(s, line, rest);
    MOONLET_UNROLL
    for (int t = 0; t < kThinTaps; ++t) {
      const int z = position.at[0] * deep.stride + columns.taps[t][0],
                v = position.at[1] * down.stride + columns.taps[t][1],
                u = position.at[2] * along.stride + columns.taps[t][2];
      if (!deep.has(z) || !down.has(v) || !along.has(u)) continue;
      const int at = ((position.image * deep.from + z) * down.from + v) * along.from + u;
      C seen[kPack];
      load_floats<kPack>(x + static_cast<int64_t>(at) * s.from_width() + columns.channels[t], seen);
      MOONLET_UNROLL
      for (int e = 0; e < kPack; ++e) sums[t][e] += given[e] * seen[e];
    }
  }
}

// The gradient of the weight, in pieces of the positions, of which each lies as the weight does
// where it is contiguous. A block has some packs of the results' channels and some columns; its
// rows of threads share its positions.
template <int kPack, class C, class E>
__global__ void __launch_bounds__(kBlock)
    thin_last_weight_kernel(MOONLET_GRID_CONSTANT const ThinShape s, Pieces pieces, const E* x,
                            const E* grad, C* y) {
  constexpr int kRows = kBlock / kThinLanes;
  __shared__ SharedArray<C, kBlock> shared;
  const int width = s.width(), volume = s.axis[0].kernel * s.axis[1].kernel * s.axis[2].kernel,
            columns = volume * s.ins;
  const int depth = s.batch * s.axis[0].to * s.axis[1].to * s.axis[2].to;
  const int wide = (s.packs + kThinLanes - 1) / kThinLanes,
            high = (columns + kThinTaps - 1) / kThinTaps;
  const int lane = threadIdx.x % kThinLanes, row = threadIdx.x / kThinLanes;
  for (int i = blockIdx.x; i < wide * high * static_cast<int>(pieces.count); i += gridDim.x) {
    const int channel = (i % wide * kThinLanes + lane) * kPack,
              column = i / wide % high * kThinTaps, piece = i / wide / high;
    const int begin = piece * static_cast<int>(pieces.length),
              end = min(begin + static_cast<int>(pieces.length), depth);
    C sums[kThinTaps][kPack] = {};
    if (channel < width)
      add_gradients(s, ThinColumns(s, column, columns, kPack > 1 ? channel : channel / s.outs),
                    begin + row, end, kRows, x, grad + channel, sums);
    MOONLET_UNROLL
    for (int t = 0; t < kThinTaps; ++t) {
      MOONLET_UNROLL
      for (int e = 0; e < kPack; ++e) {
        __syncthreads();
        shared.get()[threadIdx.x] = sums[t][e];
        __syncthreads();
        if (row != 0 || channel >= width || column + t >= columns) continue;
        C sum = sums[t][e];
        for (int r = 1; r < kRows; ++r) sum += shared.get()[r * kThinLanes + lane];
        const int tap = (column + t) / s.ins, k = (column + t) % s.ins;
        y[piece * pieces.step + (static_cast<int64_t>(channel + e) * s.ins + k) * volume + tap] =
            sum;
      }
    }
  }
}

}  // namespace moonlet::cuda

// cuda/kernels/common/reduce_packs.cuh: reductions of tensors whose memory runs along what is
// reduced (rows) or along what is kept (columns): packs of 16 bytes, several on their way at once.
//
// A policy for these also has `Value`, the type that elements are read as, and `Acc take(Value v,
// int64_t out, int64_t position)` in place of `load`; `kFlight`, how many packs a thread reads
// before it combines them; and `Array x`, what is reduced.
#pragma once

#include "cuda/kernels/common/packs.cuh"
#include "cuda/kernels/common/reduce.cuh"
#include "cuda/kernels/common/team.cuh"

namespace moonlet::cuda {

// The elements [first, last) of output `out`, as member `me` of a team does them.
template <class P, int kElement>
__device__ __forceinline__ typename P::Acc reduce_row(const ReduceGrid& g, const P& policy,
                                                      const PackSource& x, int64_t out,
                                                      int64_t first, int64_t last, int me,
                                                      int team) {
  constexpr int kCount = 16 / kElement, kFlight = P::kFlight;
  const int64_t base = offsets(g.kept, out).at[0], step = int64_t{team} * kCount;
  typename P::Acc total = policy.start();
  for (int64_t i = first + int64_t{me} * kCount; i < last; i += kFlight * step) {
    Words<16> packs[kFlight];
    MOONLET_UNROLL
    for (int f = 0; f < kFlight; ++f) {
      const int64_t at = i + f * step;
      if (at < last)
        packs[f] = load_pack<kElement>(x, base + offsets(g.reduced, at).at[0], last - at);
    }
    // Each round has a sum of its own: rounding errors grow with a round's length, not the whole's.
    typename P::Acc round = policy.start();
    MOONLET_UNROLL
    for (int f = 0; f < kFlight; ++f) {
      const int64_t left = last - (i + f * step);
      MOONLET_UNROLL
      for (int k = 0; k < kCount; ++k)
        if (k < left) {
          const auto v =
              decoded<typename P::Value, kElement>(bits_at<kElement>(packs[f], k), x.code);
          round = policy.combine(round, policy.take(v, out, i + f * step + k));
        }
    }
    total = policy.combine(total, round);
  }
  return total;
}

// A team of lanes for each output, or a block for each piece of one.
template <class P, int kElement>
__global__ void __launch_bounds__(kBlock, 2)
    reduce_rows_kernel(const MOONLET_GRID_CONSTANT ReduceGrid g,
                       const MOONLET_GRID_CONSTANT P policy, PackSource x, int team,
                       typename P::Acc* parts) {
  const auto combine = [&](const auto& a, const auto& b) { return policy.combine(a, b); };
  const int teams = kBlock / team, me = threadIdx.x % team;
  const int64_t jobs = g.outs * g.pieces;
  for (int64_t start = int64_t{blockIdx.x} * teams; start < jobs;
       start += int64_t{gridDim.x} * teams) {
    const int64_t job = start + threadIdx.x / team;
    typename P::Acc total = policy.start();
    const int64_t out = g.pieces == 1 ? job : job / g.pieces;
    if (job < jobs) {
      const int64_t first = g.pieces == 1 ? 0 : job % g.pieces * g.piece;
      const int64_t last = first + g.piece < g.count ? first + g.piece : g.count;
      total = reduce_row<P, kElement>(g, policy, x, out, first, last, me, team);
    }
    total = combine_team(total, team, combine);
    if (me != 0 || job >= jobs) continue;
    if (g.pieces == 1)
      policy.finish(total, out);
    else
      parts[job] = total;
  }
}

// Where the columns of a reduction lie: rows of them, each of packs that `lanes` threads walk.
struct ColumnTiles {
  int64_t width;  // kept elements side by side
  int lanes;
  Divider tiles, rows;  // tiles of a row; rows
};

// The elements of one pack of columns that one team reduces, an accumulator each.
template <class P, int kElement>
__device__ __forceinline__ void reduce_columns(const ReduceGrid& g, const P& policy,
                                               const PackSource& x, int64_t out, int valid,
                                               int64_t first, int64_t last, int step,
                                               typename P::Acc* total) {
  constexpr int kCount = 16 / kElement, kFlight = P::kFlight;
  const int64_t base = offsets(g.kept, out).at[0];
  for (int64_t i = first; i < last; i += int64_t{kFlight} * step) {
    Words<16> packs[kFlight];
    MOONLET_UNROLL
    for (int f = 0; f < kFlight; ++f) {
      const int64_t at = i + int64_t{f} * step;
      if (at < last) packs[f] = load_pack<kElement>(x, base + offsets(g.reduced, at).at[0], valid);
    }
    MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k) {
      if (k >= valid) continue;
      typename P::Acc round = policy.start();
      MOONLET_UNROLL
      for (int f = 0; f < kFlight; ++f) {
        const int64_t at = i + int64_t{f} * step;
        if (at >= last) continue;
        const auto v = decoded<typename P::Value, kElement>(bits_at<kElement>(packs[f], k), x.code);
        round = policy.combine(round, policy.take(v, out + k, at));
      }
      total[k] = policy.combine(total[k], round);
    }
  }
}

// A block per tile of columns and piece of what is reduced; its teams take turns.
template <class P, int kElement>
__global__ void __launch_bounds__(kBlock, 2)
    reduce_columns_kernel(const MOONLET_GRID_CONSTANT ReduceGrid g,
                          const MOONLET_GRID_CONSTANT P policy, PackSource x, ColumnTiles t,
                          typename P::Acc* parts) {
  constexpr int kCount = 16 / kElement;
  __shared__ SharedArray<typename P::Acc, kBlock> memory;
  auto* shared = memory.get();
  const int lane = threadIdx.x % t.lanes, team = threadIdx.x / t.lanes, teams = kBlock / t.lanes;
  const uint32_t job = blockIdx.x, position = t.tiles.quotient(job);
  const uint32_t piece = t.rows.quotient(position), row = position - piece * t.rows.divisor;
  const int64_t column = (int64_t{job - position * t.tiles.divisor} * t.lanes + lane) * kCount;
  const int64_t out = row * t.width + column;
  const int valid = static_cast<int>(t.width - column < kCount ? t.width - column : kCount);
  typename P::Acc total[kCount];
  for (int k = 0; k < kCount; ++k) total[k] = policy.start();
  const int64_t first = piece * g.piece;
  const int64_t last = first + g.piece < g.count ? first + g.piece : g.count;
  if (valid > 0)
    reduce_columns<P, kElement>(g, policy, x, out, valid, first + team, last, teams, total);
  MOONLET_UNROLL
  for (int k = 0; k < kCount; ++k) {
    shared[threadIdx.x] = total[k];
    __syncthreads();
    for (int half_way = teams / 2; half_way > 0; half_way /= 2) {
      auto* mine = shared + threadIdx.x;
      if (team < half_way) *mine = policy.combine(*mine, mine[half_way * t.lanes]);
      __syncthreads();
    }
    if (team == 0 && k < valid) {
      if (g.pieces == 1)
        policy.finish(shared[lane], out + k);
      else
        parts[(out + k) * g.pieces + piece] = shared[lane];
    }
    __syncthreads();
  }
}

// Whether packs of the dimension that a geometry ends with lie one after the other in memory; if so
// `aligned` tells whether at multiples of 16 bytes, with these other strides.
inline bool lies_in_packs(const Geometry<1>& along, const Geometry<1>& across, int count,
                          bool& aligned) {
  const int last = along.rank - 1;
  if (last < 0 || along.strides[0][last] != 1) return false;
  if (last > 0 && along.sizes[last] % count != 0) return false;
  int64_t joint = 0;
  for (int d = 0; d < last; ++d) joint |= along.strides[0][d];
  for (int d = 0; d < across.rank; ++d) joint |= across.strides[0][d];
  aligned = aligned && joint % count == 0;
  return true;
}

// `parts` elements of scratch memory for what blocks leave to reduce_parts_kernel.
template <class P>
void combine_parts(const Call& call, const ReduceGrid& g, const P& policy,
                   const typename P::Acc* parts) {
  MOONLET_LAUNCH((reduce_parts_kernel<P>), blocks_for(g.outs * kBlock), kBlock, 0, call.stream(), g,
                 policy, parts);
  call.done();
}

template <class P, int kElement>
bool try_rows(const Call& call, ReduceGrid g, const P& policy, PackSource x) {
  constexpr int kCount = 16 / kElement;
  if (!lies_in_packs(g.reduced, g.kept, kCount, x.aligned)) return false;
  const int64_t packs = (g.count + kCount - 1) / kCount;
  const int team = packs > 8 * kWarp ? kBlock : lanes_for(packs);
  // Whole packs to each piece.
  g.piece = (g.piece + kCount - 1) / kCount * kCount;
  Tensor parts;
  if (team < kBlock) g.pieces = 1, g.piece = g.count;
  const int64_t jobs = g.outs * g.pieces;
  using Acc = typename P::Acc;
  if (g.pieces > 1) parts = call.scratch({jobs * static_cast<int64_t>(sizeof(Acc))}, DType::UInt8);
  Acc* memory = parts.defined() ? parts.elements<Acc>() : nullptr;
  MOONLET_LAUNCH((reduce_rows_kernel<P, kElement>), blocks_for(jobs * team), kBlock, 0,
                 call.stream(), g, policy, x, team, memory);
  call.done();
  if (g.pieces > 1) combine_parts(call, g, policy, static_cast<const Acc*>(memory));
  return true;
}

template <class P, int kElement>
bool try_columns(const Call& call, ReduceGrid g, const P& policy, PackSource x) {
  constexpr int kCount = 16 / kElement;
  const int last = g.kept.rank - 1;
  // One kept row of any width, or several of whole packs.
  if (!lies_in_packs(g.kept, g.reduced, kCount, x.aligned)) return false;
  const int64_t width = g.kept.sizes[last], rows = g.outs / width;
  const int64_t packs = (width + kCount - 1) / kCount;
  const int lanes = lanes_for(packs);
  const int64_t tiles = (packs + lanes - 1) / lanes, teams = kBlock / lanes;
  // Enough blocks for a device, of enough work each.
  constexpr int64_t kEnough = 512;
  const int64_t most = (g.count + teams * P::kFlight * 2 - 1) / (teams * P::kFlight * 2);
  g.pieces = std::clamp<int64_t>(kEnough / (tiles * rows), 1, std::max<int64_t>(most, 1));
  g.piece = (g.count + g.pieces - 1) / g.pieces;
  if (tiles * rows * g.pieces >= kDividerLimit) return false;
  using Acc = typename P::Acc;
  Tensor parts;
  if (g.pieces > 1)
    parts = call.scratch({g.outs * g.pieces * static_cast<int64_t>(sizeof(Acc))}, DType::UInt8);
  Acc* memory = parts.defined() ? parts.elements<Acc>() : nullptr;
  MOONLET_LAUNCH((reduce_columns_kernel<P, kElement>),
                 static_cast<unsigned>(tiles * rows * g.pieces), kBlock, 0, call.stream(), g,
                 policy, x, (ColumnTiles{width, lanes, Divider(tiles), Divider(rows)}), memory);
  call.done();
  if (g.pieces > 1) combine_parts(call, g, policy, static_cast<const Acc*>(memory));
  return true;
}

template <class P, int kElement>
bool try_width(const Call& call, const ReduceGrid& g, const P& policy, const PackSource& x) {
  return try_rows<P, kElement>(call, g, policy, x) || try_columns<P, kElement>(call, g, policy, x);
}

// Reduces the tensor whose elements the policy has by packs where they lie so, else one by one.
// `kNarrow` asks for kernels of integers narrower than 64 bits, too.
template <bool kNarrow = false, class P>
void reduce_tensor(const Call& call, const ReduceGrid& g, const P& policy) {
  using Value = typename P::Value;
  const DType dtype = policy.x.dtype;
  const PackSource x = {policy.x.data, code_of(dtype), aligned_to(policy.x.data, 16)};
  const bool works = g.outs > 0 && g.count > 0 && !is_device_complex<Value> &&
                     compute_dtype(dtype) == DTypeOnDevice<Value>::value;
  bool done = false;
  if constexpr (std::is_same_v<Value, float>) {
    if (works && size_of(dtype) == 4) done = try_width<P, 4>(call, g, policy, x);
    if (works && size_of(dtype) == 2) done = try_width<P, 2>(call, g, policy, x);
  } else if constexpr (!is_device_complex<Value>) {
    if (works && size_of(dtype) == 8) done = try_width<P, 8>(call, g, policy, x);
    if constexpr (kNarrow && std::is_same_v<Value, int64_t>) {
      if (works && size_of(dtype) == 4) done = try_width<P, 4>(call, g, policy, x);
      if (works && size_of(dtype) == 1) done = try_width<P, 1>(call, g, policy, x);
    }
  }
  if (!done) reduce_by(call, g, policy);
}

}  // namespace moonlet::cuda

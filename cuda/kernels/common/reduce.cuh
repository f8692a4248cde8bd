// cuda/kernels/common/reduce.cuh: the reduction engine: a policy says what is loaded, combined and
// stored, and the engine walks the reduced dimensions in an order that depends on the shapes alone,
// so that results repeat.
//
// A policy has: `Acc`, `Acc start()`, `Acc load(int64_t at, int64_t out, int64_t position)` (`at`
// an offset in elements), `Acc combine(Acc a, Acc b)` with a before b, and
// `void finish(Acc acc, int64_t out)`.
#pragma once

#include "cuda/kernels/common/geometry.cuh"
#include "cuda/kernels/common/team.cuh"
#include "cuda/runtime/device.h"

namespace moonlet::cuda {

// What is kept and what is reduced of one tensor.
struct ReduceGrid {
  Geometry<1> kept, reduced;
  int64_t outs, count;
  // The reduced elements of an output in pieces, one block each; 1 where a block does them all.
  int64_t pieces, piece;
};

// `dims` is wrapped.
inline ReduceGrid reduce_grid(const Tensor& x, const Dims& dims) {
  Dims kept, kept_strides, reduced, reduced_strides;
  ReduceGrid g;
  g.outs = g.count = 1;
  for (int d = 0; d < x.dim(); ++d) {
    const bool drop = dims.contains(d);
    (drop ? reduced : kept).push_back(x.size(d));
    (drop ? reduced_strides : kept_strides).push_back(x.stride(d));
    (drop ? g.count : g.outs) *= x.size(d);
  }
  g.kept = geometry(kept, kept_strides);
  g.reduced = geometry(reduced, reduced_strides);
  constexpr int64_t kPiece = 16 * 1024;
  g.pieces = g.outs < 1024 ? (g.count + kPiece - 1) / kPiece : 1;
  if (g.pieces > 1024) g.pieces = 1024;
  if (g.pieces < 1) g.pieces = 1;
  g.piece = (g.count + g.pieces - 1) / g.pieces;
  return g;
}

// Positions [first, last) of one output, `step` apart, in runs whose sums are added up in a second
// level: rounding errors grow with the length of a run, not of the whole.
template <class P>
__device__ typename P::Acc reduce_run(const ReduceGrid& g, const P& policy, int64_t out,
                                      int64_t first, int64_t last, int64_t step) {
  constexpr int kRun = 64;
  const int64_t base = offsets(g.kept, out).at[0];
  typename P::Acc total = policy.start();
  for (int64_t i = first; i < last;) {
    typename P::Acc run = policy.start();
    for (int k = 0; k < kRun && i < last; ++k, i += step)
      run = policy.combine(run, policy.load(base + offsets(g.reduced, i).at[0], out, i));
    total = policy.combine(total, run);
  }
  return total;
}

template <class P>
__global__ void reduce_threads_kernel(const MOONLET_GRID_CONSTANT ReduceGrid g,
                                      const MOONLET_GRID_CONSTANT P policy) {
  for (MOONLET_EACH(out, g.outs)) policy.finish(reduce_run(g, policy, out, 0, g.count, 1), out);
}

// The combination of the block's values, at every thread.
template <class P>
__device__ typename P::Acc reduce_block(const P& policy, typename P::Acc value) {
  return combine_block(value, [&](const auto& a, const auto& b) { return policy.combine(a, b); });
}

// A block per piece of an output. With one piece the block finishes; else it leaves its part.
template <class P>
__global__ void reduce_blocks_kernel(const MOONLET_GRID_CONSTANT ReduceGrid g,
                                     const MOONLET_GRID_CONSTANT P policy, typename P::Acc* parts) {
  for (int64_t job = blockIdx.x; job < g.outs * g.pieces; job += gridDim.x) {
    const int64_t out = job / g.pieces, first = job % g.pieces * g.piece;
    const int64_t last = first + g.piece < g.count ? first + g.piece : g.count;
    const auto total =
        reduce_block(policy, reduce_run(g, policy, out, first + threadIdx.x, last, kBlock));
    if (threadIdx.x == 0) {
      if (g.pieces == 1)
        policy.finish(total, out);
      else
        parts[job] = total;
    }
  }
}

template <class P>
__global__ void reduce_parts_kernel(const MOONLET_GRID_CONSTANT ReduceGrid g,
                                    const MOONLET_GRID_CONSTANT P policy,
                                    const typename P::Acc* parts) {
  for (int64_t out = blockIdx.x; out < g.outs; out += gridDim.x) {
    typename P::Acc total = policy.start();
    for (int64_t i = threadIdx.x; i < g.pieces; i += kBlock)
      total = policy.combine(total, parts[out * g.pieces + i]);
    total = reduce_block(policy, total);
    if (threadIdx.x == 0) policy.finish(total, out);
  }
}

template <class P>
void reduce_by(const Call& call, const ReduceGrid& g, const P& policy) {
  using Acc = typename P::Acc;
  if (g.outs == 0) return;
  // A thread per output where the outputs are many and lie side by side, or there is little to do.
  const bool side_by_side = g.kept.rank > 0 && g.kept.strides[0][g.kept.rank - 1] == 1;
  if (g.count <= 32 || (side_by_side && g.outs >= 4096)) {
    MOONLET_LAUNCH((reduce_threads_kernel<P>), blocks_for(g.outs), kBlock, 0, call.stream(), g,
                   policy);
    return call.done();
  }
  const int64_t jobs = g.outs * g.pieces;
  Tensor parts;
  if (g.pieces > 1) parts = call.scratch({jobs * static_cast<int64_t>(sizeof(Acc))}, DType::UInt8);
  Acc* memory = parts.defined() ? parts.elements<Acc>() : nullptr;
  MOONLET_LAUNCH((reduce_blocks_kernel<P>), blocks_for(jobs * kBlock), kBlock, 0, call.stream(), g,
                 policy, memory);
  call.done();
  if (g.pieces == 1) return;
  MOONLET_LAUNCH((reduce_parts_kernel<P>), blocks_for(g.outs * kBlock), kBlock, 0, call.stream(), g,
                 policy, static_cast<const Acc*>(memory));
  call.done();
}

}  // namespace moonlet::cuda

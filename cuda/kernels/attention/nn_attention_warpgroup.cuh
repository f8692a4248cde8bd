// cuda/kernels/attention/nn_attention_warpgroup.cuh: attention forward by products of warpgroups,
// on devices of compute capability 9.0, and whether it is to be used.
#pragma once

#include "cuda/kernels/attention/nn_attention.cuh"

namespace moonlet::cuda::attention {

// The keys of a tile.
inline constexpr int kWarpgroupKeys = 64;

// Whether there are tiles for rows of so many columns of that dtype.
bool fits_warpgroups(DType dtype, int64_t columns);
// Whether this build has code for the device, which a kernel answers.
bool has_warpgroup_code(const Call& call);
// p.parts is 1, and p.range a multiple of a tile's keys.
void attend_by_warpgroups(const Call& call, DType dtype, int64_t columns, const Problem<float>& p);
// The gradients of keys and values, or of queries.
void attend_back_by_warpgroups(const Call& call, DType dtype, int64_t columns, bool by_keys,
                               const Problem<float>& p);

// Whether rows fit and the device computes the same as by products of warps: what is found out at
// the first use of each kernel on a device, and not in a capture. Where it does not, a warning says
// so. MOONLET_CUDA_WITHOUT=wgmma leaves it alone.
bool warpgroups_are_right(const Call& call, DType dtype, int64_t columns);

}  // namespace moonlet::cuda::attention

// cuda/kernels/attention/nn_attention_warpgroup.cu: attention forward of 16-bit floats as in
// nn_attention.cu, with products of the warpgroup that a block is. A thread holds its part of the
// queries, of the scores and of the sums; keys and values pass by in shared memory.
#include "cuda/kernels/attention/nn_attention_warpgroup.cuh"

#include "cuda/kernels/attention/nn_attention_forward.cuh"
#include "cuda/kernels/attention/nn_attention_warpgroup_tiles.cuh"

namespace moonlet::cuda::attention {

namespace {

#ifdef MOONLET_HAS_WGMMA

template <class T>
__device__ __forceinline__ Factors<T::kWidth> read_queries(const typename T::Element* tile) {
  const int lane = threadIdx.x % kWarp, row = warp_rows() + lane % 16;
  Factors<T::kWidth> out;
  MOONLET_UNROLL
  for (int k = 0; k < T::kWidth; k += 16)
    load_matrices<false>(out.v[k / 16], tile + T::position(row, k + lane / 16 * 8));
  return out;
}

template <class T>
__device__ __forceinline__ void attend(const Problem<float>& p, const Work& w,
                                       typename T::Element* pairs, uint64_t* state) {
  const Offsets<kOperands> position = positions(p.apart, w.entry);
  const auto& at = position.at;
  const Rows of_keys = rows_at<T>(p.rows[kKey], at[kKey]),
             of_values = rows_at<T>(p.rows[kValue], at[kValue]);
  const int64_t first = w.tile * kOwn, mine = first + warp_rows();
  const KeyRange range(p, w);
  const auto fetch = [&](typename T::Element* pair, int64_t key) {
    fetch_tile<T, kWarpgroupKeys>(pair, of_keys, key, range.end, 0);
    fetch_tile<T, kWarpgroupKeys>(pair + T::kTileSize, of_values, key, range.end, 0);
  };
  Running<float> row;
  Part<float, T::kWidth> sums;
  sums.clear();
  __syncthreads();
  read_state(p, at[kStates], state);
  if (range.begin < range.end) {
    // Where the second pair comes once they are in registers.
    fetch_tile<T, kOwn>(pairs + T::kPairSize, rows_at<T>(p.rows[kQuery], at[kQuery]), first,
                        p.queries, 0);
    fetch(pairs, range.begin);
  }
  wait_copies();
  __syncthreads();
  const Factors<T::kWidth> queries = read_queries<T>(pairs + T::kPairSize);
  int turn = 0;
  for (int64_t key = range.begin; key < range.end; key += kWarpgroupKeys, turn ^= 1) {
    const auto* keys = pairs + turn * T::kPairSize;
    wait_copies();
    show_to_products();
    __syncthreads();
    if (key + kWarpgroupKeys < range.end)
      fetch(pairs + (turn ^ 1) * T::kPairSize, key + kWarpgroupKeys);
    const uint32_t dropped =
        p.states != nullptr ? dropped_scores<false, kWarpgroupKeys>(p, state, mine, key) : 0;
    Part<float, kWarpgroupKeys> scores;
    begin_products(scores);
    multiply_rows<T>(
        scores, [&](int k) -> const auto& { return queries.v[k / 16]; }, keys);
    end_products(scores);
    score<false>(p, at[kMask], mine, key, scores);
    weigh<T>(scores, row, sums);
    if (p.states != nullptr) drop(scores, dropped, 1.0f);
    add_values<T>(sums, narrowed<typename T::Element>(scores), keys + T::kTileSize);
  }
  // Results are staged where other warps' products may still read.
  __syncthreads();
  finish<T>(p, w, at[kEntry], mine, rows_at<T>(p.rows[kGradient], at[kGradient]), row, sums,
            pairs + warp_rows() * T::kStride);
}

#endif

template <class T>
__global__ void __launch_bounds__(kThreads, T::kWidth > 64 ? 2 : 4)
    attend_warpgroup_kernel(MOONLET_GRID_CONSTANT const Problem<float> p) {
#ifdef MOONLET_HAS_WGMMA
  MOONLET_DYNAMIC_SHARED(typename T::Element, memory);
  __shared__ State state;
  auto* pairs = swizzle_aligned(memory);
  each_work(p, [&](const Work& work) { attend<T>(p, work, pairs, state.get()); });
#endif
}

__global__ void warpgroup_code_kernel(int* answer) {
#ifdef MOONLET_HAS_WGMMA
  *answer = 1;
#else
  *answer = 0;
#endif
}

}  // namespace

bool fits_warpgroups(DType dtype, int64_t columns) {
  // Narrower heads would be filled up with zeros to twice their width.
  return (dtype == DType::Float16 || dtype == DType::BFloat16) && columns > 32 && columns <= 128;
}

bool has_warpgroup_code(const Call& call) {
  int major = 0, minor = 0;
  const int device = call.device().index;
  ensure(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), call.op());
  ensure(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), call.op());
  if (major != 9 || minor != 0) return false;
  const Tensor answer = call.scratch({1}, DType::Int32);
  Tensor there = empty_plain({1}, {DType::Int32, Device{}}, call.op());
  MOONLET_LAUNCH(warpgroup_code_kernel, 1, 1, 0, call.stream(), answer.elements<int>());
  call.done();
  transfer(there, answer);
  return *there.elements<int>() == 1;
}

void attend_by_warpgroups(const Call& call, DType dtype, int64_t columns, const Problem<float>& p) {
  visit_warpgroup_tiles(dtype, columns, [&]<class T>() {
    launch_tiles<float>(call, attend_warpgroup_kernel<T>, T::kForwardBytes, p.queries, p);
  });
}

}  // namespace moonlet::cuda::attention

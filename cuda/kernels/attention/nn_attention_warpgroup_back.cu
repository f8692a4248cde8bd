// cuda/kernels/attention/nn_attention_warpgroup_back.cu: the gradients of attention of 16-bit
// floats as in nn_attention_back.cu, with products of the warpgroup that a block is.
#include "cuda/kernels/attention/nn_attention_warpgroup_tiles.cuh"

namespace moonlet::cuda::attention {

namespace {

template <class T, bool kByKeys>
__global__ void __launch_bounds__(kThreads, T::kWidth > 64 ? 2 : 3)
    attend_warpgroup_back_kernel(MOONLET_GRID_CONSTANT const Problem<float> p) {
#ifdef MOONLET_HAS_WGMMA
  MOONLET_DYNAMIC_SHARED(typename T::Element, memory);
  __shared__ State state;
  each_tile_back<T, kByKeys>(p, swizzle_aligned(memory), state.get());
#endif
}

}  // namespace

void attend_back_by_warpgroups(const Call& call, DType dtype, int64_t columns, bool by_keys,
                               const Problem<float>& p) {
  visit_warpgroup_tiles(dtype, columns, [&]<class T>() {
    if (by_keys)
      launch_tiles<float>(call, attend_warpgroup_back_kernel<T, true>, T::kBackwardBytes, p.keys,
                          p);
    else
      launch_tiles<float>(call, attend_warpgroup_back_kernel<T, false>, T::kBackwardBytes,
                          p.queries, p);
  });
}

}  // namespace moonlet::cuda::attention

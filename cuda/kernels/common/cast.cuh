// cuda/kernels/common/cast.cuh: casts of dense elements, packs at once, between the common dtypes.
#pragma once

#include <algorithm>

#include "cuda/kernels/common/cells.cuh"
#include "cuda/kernels/common/geometry.cuh"
#include "cuda/kernels/common/packs.cuh"
#include "cuda/runtime/device.h"

namespace moonlet::cuda {

template <class From, class To>
__device__ __forceinline__ uint64_t recoded(uint64_t bits, Code from, Code to) {
  const auto v = decoded<typename From::Type, From::bytes>(bits, from);
  if constexpr (To::bytes == 1)
    if (to == Code::kTruth) return v != typename From::Type(0) ? 1 : 0;
  return encoded<typename To::Type, To::bytes>(convert<typename To::Type>(v), to);
}

template <class From, class To>
inline constexpr int cast_count = 16 / std::max(std::min(From::bytes, To::bytes), 2);

// Every thread casts cast_count elements at a time, of which the wider side takes several loads or
// stores.
template <class From, class To>
__global__ void __launch_bounds__(kBlock)
    cast_kernel(int64_t packs, int64_t count, char* to, const char* from, Code to_code,
                Code from_code) {
  constexpr int kCount = cast_count<From, To>;
  constexpr int kIn = std::min(16, kCount * From::bytes), kOut = std::min(16, kCount * To::bytes);
  constexpr int kLoads = kCount * From::bytes / kIn, kStores = kCount * To::bytes / kOut;
  for (MOONLET_EACH(pack, packs)) {
    Words<kIn> in[kLoads];
    MOONLET_UNROLL
    for (int l = 0; l < kLoads; ++l) in[l] = load_words<kIn>(from + (pack * kLoads + l) * kIn);
    Words<kOut> out[kStores] = {};
    MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k) {
      constexpr int kPerIn = kIn / From::bytes, kPerOut = kOut / To::bytes;
      set_bits<To::bytes>(
          out[k / kPerOut], k % kPerOut,
          recoded<From, To>(bits_at<From::bytes>(in[k / kPerIn], k % kPerIn), from_code, to_code));
    }
    MOONLET_UNROLL
    for (int s = 0; s < kStores; ++s) store_words(to + (pack * kStores + s) * kOut, out[s]);
  }
  const int64_t alone =
      packs * kCount + static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (alone < count) {
    const auto one = load_words<From::bytes>(from + alone * From::bytes);
    Words<To::bytes> out{};
    set_bits<To::bytes>(out, 0,
                        recoded<From, To>(bits_at<From::bytes>(one, 0), from_code, to_code));
    store_words(to + alone * To::bytes, out);
  }
}

// Casts `count` dense elements of `source` into x; false where no kernel is made for the dtypes.
inline bool cast_dense(const Call& call, int64_t count, Tensor& x, const Tensor& source) {
  if (!aligned_to(x.raw(), 16) || !aligned_to(source.raw(), 16)) return false;
  return visit_cell(source.dtype(), [&]<class From>() {
    return visit_cell(x.dtype(), [&]<class To>() {
      const int64_t packs = count / cast_count<From, To>;
      MOONLET_LAUNCH((cast_kernel<From, To>), blocks_for(packs), kBlock, 0, call.stream(), packs,
                     count, x.raw(), static_cast<const char*>(source.raw()), code_of(x.dtype()),
                     code_of(source.dtype()));
      return true;
    });
  });
}

}  // namespace moonlet::cuda

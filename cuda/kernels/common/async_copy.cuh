// cuda/kernels/common/async_copy.cuh: copies from the device's memory to shared memory that go on
// while the thread computes (cp.async, PTX ISA 7.0).
#pragma once

#include <cstring>

#include "cuda/kernels/common/elements.cuh"
#ifdef MOONLET_CUDA_EMULATED
#include "cuda/emulated/include/wgmma.h"
#endif

namespace moonlet::cuda {

// Begins to copy the first `count` of kBytes (4, 8 or 16), with zeros behind them. Both addresses
// are multiples of kBytes. Nothing of `from` is read where `count` is 0.
template <int kBytes>
__device__ __forceinline__ void copy_async(void* to, const void* from, int count) {
#ifdef MOONLET_CUDA_EMULATED
  const auto fits = [](const void* p) { return reinterpret_cast<uintptr_t>(p) % kBytes == 0; };
  if (!fits(to) || (count > 0 && !fits(from)))
    emulated::fail_launch("cp.async: an address is no multiple of its bytes");
  if (count > 0) std::memcpy(to, from, static_cast<size_t>(count));
  std::memset(static_cast<char*>(to) + count, 0, static_cast<size_t>(kBytes - count));
  emulated::begin_copy(to, kBytes);
#else
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  if constexpr (kBytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(count)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(at), "l"(from), "n"(kBytes),
                 "r"(count)
                 : "memory");
#endif
}

// Waits for all copies that this thread began. Other threads see them behind a barrier.
__device__ __forceinline__ void wait_copies() {
#ifdef MOONLET_CUDA_EMULATED
  emulated::wait_copies();
#else
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

}  // namespace moonlet::cuda

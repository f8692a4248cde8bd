// cuda/kernels/common/wgmma.cuh: products of a warpgroup, 128 threads, on Hopper's tensor cores
// (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions"): the sums in registers, the first
// factor there or in shared memory, the second factor in shared memory.
#pragma once

#include "cuda/kernels/common/mma.cuh"
#ifdef MOONLET_CUDA_EMULATED
#include "cuda/emulated/include/wgmma.h"
#endif

// Where the compiler knows these instructions: in code for sm_90a, which runs on no other device.
#if defined(MOONLET_CUDA_EMULATED) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define MOONLET_HAS_WGMMA
#endif

namespace moonlet::cuda {

// A tile in shared memory: 64 rows of 64 elements of 16 bits, row after row
// ------------------------

inline constexpr int kSwizzledRow = 64, kSwizzledTile = 64 * kSwizzledRow, kSwizzledAlign = 1024;

// Where an element of a tile lies: of each 8 rows, which are 1024 bytes, the 16-byte packs of row r
// are exchanged by r ("Swizzling Modes", 128 bytes), so that what is read together, packs of one
// column too, lies in different banks.
__device__ __forceinline__ constexpr int swizzled(int row, int col) {
  return row * kSwizzledRow + (col ^ row % 8 * 8);
}

// The first multiple of 1024 bytes from there on, in shared memory: where tiles begin.
template <class T>
__device__ __forceinline__ T* swizzle_aligned(T* memory) {
#ifdef MOONLET_CUDA_EMULATED
  const uint32_t at = emulated::shared_address(memory);
#else
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(memory));
#endif
  constexpr uint32_t kLast = kSwizzledAlign - 1;
  return memory + (((at + kLast) & ~kLast) - at) / sizeof(T);
}

// A factor from a position in a tile on ("Matrix Descriptor Format"): bits 0-13 its
// address, 16-29 an offset that these tiles do without, 32-45 how far 8 rows are from the next 8,
// all in packs of 16 bytes; 62-63 the swizzling of 128 bytes.
template <class T>
__device__ __forceinline__ uint64_t describe_tile(const T* at) {
#ifdef MOONLET_CUDA_EMULATED
  const uint32_t address = emulated::shared_address(at);
#else
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(at));
#endif
  constexpr uint64_t kEightRows = 8 * kSwizzledRow * sizeof(T) / 16;
  return (address & 0x3ffff) >> 4 | uint64_t{1} << 16 | kEightRows << 32 | uint64_t{1} << 62;
}

// The factor that begins so many elements, of whole packs, behind a described one.
__device__ __forceinline__ constexpr uint64_t further(uint64_t described, int elements) {
  return described + static_cast<uint64_t>(elements / 8);
}

#ifdef MOONLET_HAS_WGMMA

// What threads wrote to shared memory, and copies that a thread has waited for, before products
// read it ("Async proxy"): each thread calls it for its own, a barrier follows.
__device__ __forceinline__ void show_to_products() {
#ifdef MOONLET_CUDA_EMULATED
  emulated::fence_proxy();
#else
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// Keeps the compiler from reading or writing sums on the other side of it.
template <int kCols>
__device__ __forceinline__ void hold([[maybe_unused]] Part<float, kCols>& sums) {
#ifndef MOONLET_CUDA_EMULATED
  MOONLET_UNROLL
  for (int n = 0; n < kCols / 8; ++n) MOONLET_UNROLL
  for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(sums.v[n][i])::"memory");
#endif
}

// Before products, once their factors and sums are in the registers.
template <int... kCols>
__device__ __forceinline__ void begin_products(Part<float, kCols>&... sums) {
  (hold(sums), ...);
#ifdef MOONLET_CUDA_EMULATED
  emulated::fence_products();
#else
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

// Waits for the products since begin_products, whose sums nothing may touch until then.
template <int... kCols>
__device__ __forceinline__ void end_products(Part<float, kCols>&... sums) {
#ifdef MOONLET_CUDA_EMULATED
  emulated::wait_products();
#else
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#endif
  (hold(sums), ...);
}

// 16-bit factors, their sums in float32. a (64, 16) lies in registers, a warp's 16 rows as in those
// of PTX's m16n8k16, or is described, its rows those of a tile; the sums (64, 64) are in the 8 rows
// of `sums`, each as a result of m16n8k16. b (16, 64) is described from its first element on: its
// columns are rows of the tile (kAlong) or its rows are. Without kAdd the sums are only these.
#define MOONLET_SUMS(n) "+f"(sums[n][0]), "+f"(sums[n][1]), "+f"(sums[n][2]), "+f"(sums[n][3])
#define MOONLET_WGMMA(type, add, factors, ...)                                                  \
  asm volatile(                                                                                 \
      "{\n.reg .pred add;\nsetp.ne.b32 add, " add                                               \
      ", 0;\n"                                                                                  \
      "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type                               \
      " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, " \
      "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, " factors ";\n}"       \
      : MOONLET_SUMS(0), MOONLET_SUMS(1), MOONLET_SUMS(2), MOONLET_SUMS(3), MOONLET_SUMS(4),    \
        MOONLET_SUMS(5), MOONLET_SUMS(6), MOONLET_SUMS(7)                                       \
      : __VA_ARGS__, "l"(b), "n"(kAdd ? 1 : 0), "n"(kAlong ? 0 : 1))
#define MOONLET_WGMMA_HELD(type)                                                                \
  MOONLET_WGMMA(type, "%37", "{%32, %33, %34, %35}, %36, add, 1, 1, %38", "r"(a[0]), "r"(a[1]), \
                "r"(a[2]), "r"(a[3]))
#define MOONLET_WGMMA_SHARED(type) MOONLET_WGMMA(type, "%34", "%32, %33, add, 1, 1, 0, %35", "l"(a))

template <bool kAlong, bool kAdd, class T>
__device__ __forceinline__ void multiply_warpgroup(T, float (*sums)[4], const uint32_t (&a)[4],
                                                   uint64_t b) {
#ifdef MOONLET_CUDA_EMULATED
  emulated::wgmma_64<T>(sums, a, b, kAdd, !kAlong);
#else
  if constexpr (std::is_same_v<T, half>)
    MOONLET_WGMMA_HELD("f16");
  else
    MOONLET_WGMMA_HELD("bf16");
#endif
}
template <bool kAlong, bool kAdd, class T>
__device__ __forceinline__ void multiply_warpgroup(T, float (*sums)[4], uint64_t a, uint64_t b) {
#ifdef MOONLET_CUDA_EMULATED
  emulated::wgmma_64<T>(sums, a, b, kAdd, !kAlong);
#else
  if constexpr (std::is_same_v<T, half>)
    MOONLET_WGMMA_SHARED("f16");
  else
    MOONLET_WGMMA_SHARED("bf16");
#endif
}

#undef MOONLET_WGMMA_HELD
#undef MOONLET_WGMMA_SHARED
#undef MOONLET_WGMMA
#undef MOONLET_SUMS

#endif

}  // namespace moonlet::cuda

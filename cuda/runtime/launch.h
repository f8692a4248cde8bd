// cuda/runtime/launch.h: the few spellings that let one .cu source compile under nvcc and under the
// host compiler over cuda/emulated/: kernel launches and dynamic shared memory.
#pragma once

#include <cuda_runtime.h>

/// MOONLET_LAUNCH(kernel, grid, block, shared_bytes, stream, args...): launches `kernel`.
/// A kernel whose template list holds a comma goes in parentheses: `(copy<float, 4>)`.
/// Errors of the launch itself come from cudaGetLastError(), as with `<<<>>>`.

/// MOONLET_DYNAMIC_SHARED(type, name): inside a kernel, declares `type* name`, the start of the
/// block's dynamic shared memory, aligned to 16 bytes.

/// MOONLET_GRID_CONSTANT: of a kernel's argument that is const and long: it is read where it lies,
/// not copied.

/// MOONLET_UNROLL: before a loop of a few turns, whose arrays shall be registers.

#ifdef MOONLET_CUDA_EMULATED

#define MOONLET_UNROLL
#define MOONLET_GRID_CONSTANT

#define MOONLET_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                           \
  ::moonlet::emulated::launch(                                                                   \
      ::moonlet::emulated::Kernel{::moonlet::emulated::kernel_address(kernel), #kernel}, (grid), \
      (block), (shared_bytes), (stream),                                                         \
      [=](const auto&... moonlet_args) { (kernel)(moonlet_args...); } __VA_OPT__(, ) __VA_ARGS__)

#define MOONLET_DYNAMIC_SHARED(type, name) \
  type* name = static_cast<type*>(::moonlet::emulated::context.dynamic_shared)

#else

#define MOONLET_UNROLL _Pragma("unroll")
#define MOONLET_GRID_CONSTANT __grid_constant__

#define MOONLET_LAUNCH(kernel, grid, block, shared_bytes, stream, ...) \
  kernel<<<(grid), (block), (shared_bytes), (stream)>>>(__VA_ARGS__)

#define MOONLET_DYNAMIC_SHARED(type, name)                                \
  extern __shared__ __align__(16) unsigned char moonlet_dynamic_shared[]; \
  type* name = reinterpret_cast<type*>(moonlet_dynamic_shared)

#endif

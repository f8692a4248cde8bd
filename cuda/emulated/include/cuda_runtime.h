// cuda/emulated/include/cuda_runtime.h: what `#include <cuda_runtime.h>` means in the emulated
// build: the language's keywords as macros, the host API, the launcher and the device functions.
//
// How it differs from a GPU: streams run eagerly and in order (unless queue.h makes them queues),
// so a call has finished when it returns and a failing kernel shows at once; all devices share one
// copy of a __device__ or __constant__ variable; static __shared__ memory is not counted against
// the limits; a thread that spins on another one of its block without a barrier spins for ever.
// Device code owns nothing: when a kernel fails its stacks are dropped and no destructor runs.
#pragma once

#define MOONLET_CUDA_EMULATED 1

#define __global__
#define __device__
#define __host__
#define __constant__
#define __shared__ static thread_local
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

#include "cuda_runtime_api.h"
#include "device_functions.h"
#include "grid.h"
#include "vector_types.h"

// cuda/runtime/graph.h: work that is recorded instead of done, to be done again and again: captures
// of streams, the memory that belongs to them, and random numbers that are new at each replay.
#pragma once

#include <cuda_runtime.h>

#include <memory>

#include "cuda/runtime/capture.h"
#include "cuda/runtime/device.h"
#include "tensor/functors/philox.h"
#include "tensor/runtime/backend.h"

namespace moonlet::cuda {

std::unique_ptr<DeviceGraph> new_graph();
int64_t new_graph_pool() noexcept;

// Bytes of the host into memory of the call's device, before the work that follows. They have been
// read when it returns; in a capture they are kept, and copied again at each replay.
void upload(const Call& call, void* to, const void* from, size_t bytes);

// What a replay adds to the random numbers of a graph, in the device's memory.
struct Redraw {
  uint64_t seed, offset;
};

// The numbers of an op as its kernel reads them: those of the host's generator, or in a graph those
// that follow them at each replay.
struct DeviceRandom {
  Philox numbers;
  const Redraw* redraw;  // null outside of graphs
#if defined(__CUDACC__) || defined(MOONLET_CUDA_EMULATED)
  __device__ __forceinline__ Philox now() const {
    if (redraw == nullptr) return numbers;
    return {redraw->seed, numbers.offset + redraw->offset};
  }
#endif
};
DeviceRandom device_random(const Call& call, const Philox& numbers);

}  // namespace moonlet::cuda

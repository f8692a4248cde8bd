// cuda/runtime/streams.h: the streams of the pool by their numbers, and events.
#pragma once

#include <cuda_runtime.h>

#include "tensor/runtime/streams.h"

namespace moonlet::cuda {

// What the rest of Moonlet sees of them; never destroyed.
Streams& streams();

// The runtime's stream of that number, which exists.
cudaStream_t stream_of(DeviceStream stream) noexcept;

}  // namespace moonlet::cuda

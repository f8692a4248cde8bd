// cuda/runtime/capture.h: which streams record their work for a graph, and what cannot be recorded.
#pragma once

#include <cuda_runtime.h>

namespace moonlet {
class DeviceGraph;
}

namespace moonlet::cuda {

// The graph that records the work of a stream, or null.
DeviceGraph* capture_of(cudaStream_t stream) noexcept;

// Whether work in a stream is recorded.
bool is_captured(cudaStream_t stream) noexcept;
// Throws where it is: `what` says what cannot be.
void refuse_in_capture(cudaStream_t stream, const char* op, const char* what);

}  // namespace moonlet::cuda

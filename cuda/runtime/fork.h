// cuda/runtime/fork.h: streams that join a capture by waiting for an event of it, the events that
// were recorded in captures, and where what is made meanwhile has its memory.
#pragma once

#include <cuda_runtime.h>

#include "cuda/runtime/capture.h"

namespace moonlet::cuda {

// The stream's work is the graph's, and memory for it that of the stream `memory`, until
// `end_capture`, which is for all streams of the graph.
void add_to_capture(cudaStream_t stream, int device, cudaStream_t memory, DeviceGraph& graph);
void end_capture(DeviceGraph& graph) noexcept;

// Whether a stream of that device is captured.
bool is_captured_on(int device) noexcept;

// After an event was recorded in a stream, or destroyed.
void note_recorded(cudaEvent_t event, cudaStream_t stream);
void forget_event(cudaEvent_t event) noexcept;
// Throws when the event was last recorded in a capture, which has no moment that the host could
// know.
void refuse_captured(cudaEvent_t event, const char* op);
// The graph whose capture the stream joins by waiting for the event; null where it joins none. What
// cannot wait for what is an error.
DeviceGraph* joined_by(cudaEvent_t event, cudaStream_t stream, const char* op);

// The stream's work is the graph's from now on, until its capture ends. Gives it memory of the
// graph's pool.
void join_capture(cudaStream_t stream, int device, DeviceGraph& graph);

// That whose memory is used for work in a stream: the stream itself; of one that has joined a
// capture another, which stands for it in the graph's pool.
cudaStream_t memory_stream(cudaStream_t stream) noexcept;

}  // namespace moonlet::cuda

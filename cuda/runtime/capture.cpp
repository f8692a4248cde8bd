// cuda/runtime/capture.cpp: the captures that are under way, by their streams.
#include "cuda/runtime/capture.h"

#include <atomic>
#include <map>
#include <mutex>

#include "tensor/core/error.h"

namespace moonlet::cuda {

namespace {
struct Captures {
  std::mutex mutex;
  std::atomic<int> count{0};
  std::map<cudaStream_t, DeviceGraph*> graphs;
};
Captures& captures() {
  static Captures& it = *new Captures;
  return it;
}
}  // namespace

DeviceGraph* capture_of(cudaStream_t stream) noexcept {
  Captures& all = captures();
  if (all.count.load(std::memory_order_relaxed) == 0) [[likely]]
    return nullptr;
  const std::lock_guard lock(all.mutex);
  const auto found = all.graphs.find(stream);
  return found == all.graphs.end() ? nullptr : found->second;
}

void begin_capture(cudaStream_t stream, DeviceGraph& graph) {
  Captures& all = captures();
  const std::lock_guard lock(all.mutex);
  all.graphs[stream] = &graph;
  ++all.count;
}

void end_capture(cudaStream_t stream) noexcept {
  Captures& all = captures();
  const std::lock_guard lock(all.mutex);
  all.graphs.erase(stream);
  --all.count;
}

bool is_captured(cudaStream_t stream) noexcept { return capture_of(stream) != nullptr; }

void refuse_in_capture(cudaStream_t stream, const char* op, const char* what) {
  if (!is_captured(stream)) [[likely]]
    return;
  fail(op, ": ", what, " cannot be captured in a CUDA graph");
}

}  // namespace moonlet::cuda

// cuda/runtime/capture.cpp: the captures that are under way, by their streams.
#include "cuda/runtime/capture.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

#include "cuda/runtime/fork.h"
#include "tensor/core/error.h"

namespace moonlet::cuda {

namespace {

// A stream that is captured, and whose memory it uses.
struct Captured {
  DeviceGraph* graph;
  int device;
  cudaStream_t memory;
};

struct Captures {
  std::mutex mutex;
  std::atomic<int> count{0};  // of both lists
  std::map<cudaStream_t, Captured> streams;
  // Events that were last recorded in a capture; null when it has ended.
  std::map<cudaEvent_t, DeviceGraph*> events;

  void count_all() { count.store(static_cast<int>(streams.size() + events.size())); }
  bool is_empty() const { return count.load(std::memory_order_relaxed) == 0; }
};
Captures& captures() {
  static Captures& it = *new Captures;
  return it;
}

// With the lock held.
DeviceGraph* graph_of(cudaStream_t stream) {
  const auto found = captures().streams.find(stream);
  return found == captures().streams.end() ? nullptr : found->second.graph;
}

}  // namespace

DeviceGraph* capture_of(cudaStream_t stream) noexcept {
  Captures& all = captures();
  if (all.is_empty()) [[likely]]
    return nullptr;
  const std::lock_guard lock(all.mutex);
  return graph_of(stream);
}

void add_to_capture(cudaStream_t stream, int device, cudaStream_t memory, DeviceGraph& graph) {
  Captures& all = captures();
  const std::lock_guard lock(all.mutex);
  all.streams[stream] = {&graph, device, memory};
  all.count_all();
}

void end_capture(DeviceGraph& graph) noexcept {
  Captures& all = captures();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.streams, [&](const auto& entry) { return entry.second.graph == &graph; });
  for (auto& [event, of] : all.events)
    if (of == &graph) of = nullptr;
  all.count_all();
}

bool is_captured_on(int device) noexcept {
  Captures& all = captures();
  if (all.is_empty()) [[likely]]
    return false;
  const std::lock_guard lock(all.mutex);
  return std::any_of(all.streams.begin(), all.streams.end(),
                     [device](const auto& entry) { return entry.second.device == device; });
}

cudaStream_t memory_stream(cudaStream_t stream) noexcept {
  Captures& all = captures();
  if (all.is_empty()) [[likely]]
    return stream;
  const std::lock_guard lock(all.mutex);
  const auto found = all.streams.find(stream);
  return found == all.streams.end() ? stream : found->second.memory;
}

void note_recorded(cudaEvent_t event, cudaStream_t stream) {
  Captures& all = captures();
  if (all.is_empty()) [[likely]]
    return;
  const std::lock_guard lock(all.mutex);
  if (DeviceGraph* graph = graph_of(stream))
    all.events[event] = graph;
  else
    all.events.erase(event);
  all.count_all();
}

void forget_event(cudaEvent_t event) noexcept {
  Captures& all = captures();
  if (all.is_empty()) [[likely]]
    return;
  const std::lock_guard lock(all.mutex);
  all.events.erase(event);
  all.count_all();
}

void refuse_captured(cudaEvent_t event, const char* op) {
  Captures& all = captures();
  if (all.is_empty()) [[likely]]
    return;
  const std::lock_guard lock(all.mutex);
  check(all.events.count(event) == 0, op,
        ": the event was recorded in the capture of a CUDA graph, where it is a position in the "
        "graph "
        "and no moment; expected one that was recorded outside");
}

DeviceGraph* joined_by(cudaEvent_t event, cudaStream_t stream, const char* op) {
  Captures& all = captures();
  if (all.is_empty()) [[likely]]
    return nullptr;
  const std::lock_guard lock(all.mutex);
  DeviceGraph* const own = graph_of(stream);
  const auto found = all.events.find(event);
  if (found == all.events.end()) {
    check(own == nullptr, op,
          ": a stream that is captured in a CUDA graph cannot wait for an event that was recorded "
          "outside; wait for it before the capture begins");
    return nullptr;
  }
  check(found->second != nullptr, op,
        ": the event was recorded in a capture of a CUDA graph that has ended; expected one that "
        "was recorded since");
  check(own == nullptr || own == found->second, op, ": the event belongs to another capture");
  check(stream != nullptr, op,
        ": the default stream cannot join the capture of a CUDA graph; expected a stream of "
        "ml.cuda.Stream()");
  return own == nullptr ? found->second : nullptr;
}

bool is_captured(cudaStream_t stream) noexcept { return capture_of(stream) != nullptr; }

void refuse_in_capture(cudaStream_t stream, const char* op, const char* what) {
  if (!is_captured(stream)) [[likely]]
    return;
  fail(op, ": ", what, " cannot be captured in a CUDA graph");
}

}  // namespace moonlet::cuda

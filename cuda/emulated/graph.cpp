// cuda/emulated/graph.cpp: graphs: the work of a stream that is being captured is kept, in its
// order, and run by each launch. Other streams cannot join a capture.
#include <atomic>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "cuda_runtime_api.h"
#include "queue.h"
#include "state.h"

using moonlet::emulated::WorkRef;
using Pieces = std::vector<std::function<void()>>;

struct CUgraph_st {
  int device;
  Pieces pieces;
};

struct CUgraphExec_st {
  int device;
  std::shared_ptr<const Pieces> pieces;
  WorkRef last{};  // launch, which the next one waits for
};

namespace moonlet::emulated {
namespace {

struct Capture {
  CUgraph_st* graph;
  bool broken = false;
};

struct Captures {
  std::mutex mutex;
  std::map<cudaStream_t, Capture> list;
  std::atomic<int> count{0};
};

// Never destroyed, as streams are not.
Captures& captures() {
  static Captures& it = *new Captures;
  return it;
}

}  // namespace

bool is_captured(cudaStream_t stream) {
  if (captures().count.load() == 0) return false;
  const std::lock_guard lock(captures().mutex);
  return captures().list.count(stream) != 0;
}

bool is_captured_on(int device) {
  if (captures().count.load() == 0) return false;
  const std::lock_guard lock(captures().mutex);
  for (const auto& [stream, capture] : captures().list)
    if (capture.graph->device == device) return true;
  return false;
}

cudaError_t break_capture(cudaStream_t stream) {
  const std::lock_guard lock(captures().mutex);
  const auto found = captures().list.find(stream);
  if (found != captures().list.end()) found->second.broken = true;
  return cudaErrorStreamCaptureUnsupported;
}

bool record(cudaStream_t stream, std::function<void()>& run) {
  if (captures().count.load() == 0) return false;
  const std::lock_guard lock(captures().mutex);
  const auto found = captures().list.find(stream);
  if (found == captures().list.end()) return false;
  found->second.graph->pieces.push_back(std::move(run));
  return true;
}

}  // namespace moonlet::emulated

using namespace moonlet::emulated;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (const cudaError_t error = device_error()) return report(error);
  // The default stream cannot be captured.
  if (!stream || stream == cudaStreamLegacy) return report(cudaErrorStreamCaptureUnsupported);
  if (!valid_stream(stream)) return report(cudaErrorInvalidResourceHandle);
  const std::lock_guard lock(captures().mutex);
  if (captures().list.count(stream) != 0) return report(cudaErrorIllegalState);
  captures().list[stream] = {new CUgraph_st{current_device(), {}}};
  ++captures().count;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  if (!graph) return report(cudaErrorInvalidValue);
  *graph = nullptr;
  const std::lock_guard lock(captures().mutex);
  const auto found = captures().list.find(stream);
  if (found == captures().list.end()) return report(cudaErrorIllegalState);
  const Capture capture = found->second;
  captures().list.erase(found);
  --captures().count;
  if (capture.broken) {
    delete capture.graph;
    return report(cudaErrorStreamCaptureInvalidated);
  }
  *graph = capture.graph;
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  if (!status) return report(cudaErrorInvalidValue);
  const std::lock_guard lock(captures().mutex);
  const auto found = captures().list.find(stream);
  *status = found == captures().list.end() ? cudaStreamCaptureStatusNone
            : found->second.broken         ? cudaStreamCaptureStatusInvalidated
                                           : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  if (!exec || !graph) return report(cudaErrorInvalidValue);
  *exec = new CUgraphExec_st{graph->device, std::make_shared<const Pieces>(graph->pieces)};
  ++state().graphs;
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  if (!exec) return report(cudaErrorInvalidValue);
  if (const cudaError_t error = device_error()) return report(error);
  if (!valid_stream(stream)) return report(cudaErrorInvalidResourceHandle);
  enqueue_wait(stream, exec->last);
  exec->last = enqueue(stream, [pieces = exec->pieces] {
    for (const auto& piece : *pieces) {
      if (device_error()) return;
      piece();
    }
  });
  return report(device_error());
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  if (exec) --state().graphs;
  delete exec;
  return cudaSuccess;
}

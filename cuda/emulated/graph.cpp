// cuda/emulated/graph.cpp: graphs: the work of streams that are being captured is kept with what it
// comes after, and run by each launch in an order that these allow, at random where streams are
// queues. A stream joins a capture by waiting for an event of it.
#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "cuda_runtime_api.h"
#include "queue.h"
#include "state.h"

using moonlet::emulated::WorkRef;

namespace {

struct Piece {
  std::function<void()> run;
  std::vector<std::size_t> after;
};
using Pieces = std::vector<Piece>;

/// Runs each piece when those that it comes after have run.
void run_all_of(const Pieces& pieces) {
  std::vector<std::size_t> left(pieces.size());
  std::vector<std::vector<std::size_t>> next(pieces.size());
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    left[i] = pieces[i].after.size();
    for (const std::size_t other : pieces[i].after) next[other].push_back(i);
    if (left[i] == 0) ready.push_back(i);
  }
  while (!ready.empty()) {
    if (moonlet::emulated::device_error()) return;
    const std::size_t at = moonlet::emulated::draw_below(ready.size());
    const std::size_t now = ready[at];
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(at));
    pieces[now].run();
    for (const std::size_t other : next[now])
      if (--left[other] == 0) ready.push_back(other);
  }
}

// The runtime's errors of captures, and their numbers.
constexpr auto kCaptureMerge = static_cast<cudaError_t>(902);
constexpr auto kCaptureUnmatched = static_cast<cudaError_t>(903);
constexpr auto kCaptureUnjoined = static_cast<cudaError_t>(904);
constexpr auto kCaptureIsolation = static_cast<cudaError_t>(905);
constexpr auto kCaptureImplicit = static_cast<cudaError_t>(906);
constexpr auto kCapturedEvent = static_cast<cudaError_t>(907);

}  // namespace

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

struct Capture {
  CUgraph_st* graph;  // null when it has ended
  cudaStream_t origin;
  bool broken = false;
  /// The pieces that the next one of each stream comes after.
  std::map<cudaStream_t, std::vector<std::size_t>> ends{};
};

namespace {

struct Captures {
  std::mutex mutex;
  std::map<cudaStream_t, std::shared_ptr<Capture>> list;
  std::atomic<int> count{0};
};

// Never destroyed, as streams are not.
Captures& captures() {
  static Captures& it = *new Captures;
  return it;
}

std::shared_ptr<Capture> find(cudaStream_t stream) {
  const auto found = captures().list.find(stream);
  return found == captures().list.end() ? nullptr : found->second;
}

/// Whether all pieces come before the next one of the stream in which the capture began.
bool is_joined(const Capture& capture) {
  const Pieces& pieces = capture.graph->pieces;
  std::vector<bool> seen(pieces.size());
  std::vector<std::size_t> open = capture.ends.at(capture.origin);
  while (!open.empty()) {
    const std::size_t at = open.back();
    open.pop_back();
    if (seen[at]) continue;
    seen[at] = true;
    open.insert(open.end(), pieces[at].after.begin(), pieces[at].after.end());
  }
  return std::find(seen.begin(), seen.end(), false) == seen.end();
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
    if (capture->graph->device == device) return true;
  return false;
}

cudaError_t break_capture(cudaStream_t stream) {
  const std::lock_guard lock(captures().mutex);
  if (const auto capture = find(stream)) capture->broken = true;
  return cudaErrorStreamCaptureUnsupported;
}

bool record(cudaStream_t stream, std::function<void()>& run) {
  if (captures().count.load() == 0) return false;
  const std::lock_guard lock(captures().mutex);
  const auto capture = find(stream);
  if (!capture) return false;
  Pieces& pieces = capture->graph->pieces;
  std::vector<std::size_t>& end = capture->ends[stream];
  pieces.push_back({std::move(run), end});
  end = {pieces.size() - 1};
  return true;
}

CapturePosition position_of(cudaStream_t stream) {
  if (captures().count.load() == 0) return {};
  const std::lock_guard lock(captures().mutex);
  const auto capture = find(stream);
  return capture ? CapturePosition{capture, capture->ends[stream]} : CapturePosition{};
}

cudaError_t wait_for_position(cudaStream_t stream, const CapturePosition& position) {
  const std::lock_guard lock(captures().mutex);
  const auto own = find(stream);
  if (own && position.capture != own) {
    own->broken = true;
    if (!position.capture) return kCaptureIsolation;
    position.capture->broken = true;
    return kCaptureMerge;
  }
  if (!position.capture) return cudaSuccess;
  if (!position.capture->graph) return kCapturedEvent;
  if (!stream || stream == cudaStreamLegacy) {
    position.capture->broken = true;
    return kCaptureImplicit;
  }
  captures().list[stream] = position.capture;
  captures().count.store(static_cast<int>(captures().list.size()));
  std::vector<std::size_t>& end = position.capture->ends[stream];
  for (const std::size_t piece : position.after)
    if (std::find(end.begin(), end.end(), piece) == end.end()) end.push_back(piece);
  return cudaSuccess;
}

cudaError_t ask_of_position(const CapturePosition& position) {
  const std::lock_guard lock(captures().mutex);
  position.capture->broken = true;
  return kCapturedEvent;
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
  auto capture = std::make_shared<Capture>(Capture{new CUgraph_st{current_device(), {}}, stream});
  capture->ends[stream] = {};
  captures().list[stream] = std::move(capture);
  captures().count.store(static_cast<int>(captures().list.size()));
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  if (!graph) return report(cudaErrorInvalidValue);
  *graph = nullptr;
  const std::lock_guard lock(captures().mutex);
  const auto capture = find(stream);
  if (!capture) return report(cudaErrorIllegalState);
  if (capture->origin != stream) {
    capture->broken = true;
    return report(kCaptureUnmatched);
  }
  std::erase_if(captures().list, [&](const auto& entry) { return entry.second == capture; });
  captures().count.store(static_cast<int>(captures().list.size()));
  const bool joined = is_joined(*capture);
  CUgraph_st* const made = std::exchange(capture->graph, nullptr);
  if (!capture->broken && joined) {
    *graph = made;
    return cudaSuccess;
  }
  delete made;
  return report(capture->broken ? cudaErrorStreamCaptureInvalidated : kCaptureUnjoined);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  if (!status) return report(cudaErrorInvalidValue);
  const std::lock_guard lock(captures().mutex);
  const auto capture = find(stream);
  *status = !capture          ? cudaStreamCaptureStatusNone
            : capture->broken ? cudaStreamCaptureStatusInvalidated
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
  exec->last = enqueue(stream, [pieces = exec->pieces] { run_all_of(*pieces); });
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

// cuda/emulated/streams.cpp: error texts, streams and events. Where work runs when it is issued, a
// stream is only an identity and an event only a moment; else queue.h has what they order.
#include <chrono>
#include <memory>

#include "cuda_runtime_api.h"
#include "queue.h"
#include "state.h"

using Clock = std::chrono::steady_clock;

struct CUstream_st {
  int device;
  bool non_blocking;
};

struct CUevent_st {
  int device;
  bool timed, recorded;
  std::shared_ptr<Clock::time_point> at;
  moonlet::emulated::WorkRef work;                // the last record
  moonlet::emulated::CapturePosition position{};  // where that was a part of a capture
};

using namespace moonlet::emulated;

namespace moonlet::emulated {

bool valid_stream(cudaStream_t stream) {
  if (!stream || stream == cudaStreamLegacy || stream == cudaStreamPerThread) return true;
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  return s.streams.count(stream) && stream->device == current_device();
}

namespace {
bool is_default(cudaStream_t stream) {
  return !stream || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
}
}  // namespace

bool is_non_blocking(cudaStream_t stream) { return !is_default(stream) && stream->non_blocking; }

int device_of(cudaStream_t stream) {
  return is_default(stream) ? current_device() : stream->device;
}

namespace {

/// Like valid_stream, for calls that may name a stream of any device.
bool live(cudaStream_t stream) {
  if (!stream || stream == cudaStreamLegacy || stream == cudaStreamPerThread) return true;
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  return s.streams.count(stream) != 0;
}

bool live(cudaEvent_t event) {
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  return s.events.count(event) != 0;
}

cudaError_t finished(bool alive) {
  if (const cudaError_t error = device_error()) return report(error);
  return report(alive ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

struct Text {
  cudaError_t error;
  const char *name, *text;
};

constexpr Text kTexts[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorCudartUnloading, "cudaErrorCudartUnloading", "driver shutting down"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInvalidSymbol, "cudaErrorInvalidSymbol", "invalid device symbol"},
    {cudaErrorInvalidDevicePointer, "cudaErrorInvalidDevicePointer", "invalid device pointer"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection",
     "invalid copy direction for memcpy"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources",
     "too many resources requested for launch"},
    {cudaErrorPeerAccessAlreadyEnabled, "cudaErrorPeerAccessAlreadyEnabled",
     "peer access is already enabled"},
    {cudaErrorPeerAccessNotEnabled, "cudaErrorPeerAccessNotEnabled",
     "peer access has not been enabled"},
    {cudaErrorAssert, "cudaErrorAssert", "device-side assert triggered"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {static_cast<cudaError_t>(902), "cudaErrorStreamCaptureMerge",
     "operation would result in a merge of separate capture sequences"},
    {static_cast<cudaError_t>(903), "cudaErrorStreamCaptureUnmatched",
     "capture was not ended in the same stream as it began"},
    {static_cast<cudaError_t>(904), "cudaErrorStreamCaptureUnjoined",
     "capturing stream has unjoined work"},
    {static_cast<cudaError_t>(905), "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {static_cast<cudaError_t>(906), "cudaErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {static_cast<cudaError_t>(907), "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorIllegalState, "cudaErrorIllegalState",
     "the operation cannot be performed in the present state"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};

}  // namespace
}  // namespace moonlet::emulated

const char* cudaGetErrorName(cudaError_t error) {
  for (const Text& t : kTexts) {
    if (t.error == error) return t.name;
  }
  return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  for (const Text& t : kTexts) {
    if (t.error == error) return t.text;
  }
  return "unrecognized error code";
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return report(device_error());
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (flags > cudaStreamNonBlocking) return report(cudaErrorInvalidValue);
  if (const cudaError_t error = device_error()) return report(error);
  if (!stream) return report(cudaErrorInvalidValue);
  *stream = new CUstream_st{current_device(), (flags & cudaStreamNonBlocking) != 0};
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  s.streams.insert(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  State& s = state();
  {
    const std::lock_guard<std::mutex> lock(s.mutex);
    if (s.streams.count(stream) == 0) return report(cudaErrorInvalidResourceHandle);
  }
  run_until(last_of(stream));
  forget(stream);
  {
    const std::lock_guard<std::mutex> lock(s.mutex);
    s.streams.erase(stream);
  }
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const bool alive = live(stream);
  if (is_captured(stream)) return report(break_capture(stream));
  if (alive) run_until(last_of(stream));
  return finished(alive);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (is_captured(stream)) return report(break_capture(stream));
  if (!live(stream)) return finished(false);
  const bool ready = look_at(last_of(stream));
  const cudaError_t error = finished(true);
  return error || ready ? error : cudaErrorNotReady;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  if (flags) return report(cudaErrorInvalidValue);
  const bool alive = live(stream) && live(event);
  if (!alive) return finished(alive);
  if (is_captured(stream) || event->position.capture)
    return report(wait_for_position(stream, event->position));
  enqueue_wait(stream, event->work);
  return finished(alive);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  if (!function) return report(cudaErrorInvalidValue);
  if (const cudaError_t error = finished(valid_stream(stream))) return error;
  enqueue(stream, [function, data] { function(data); });
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (const cudaError_t error = device_error()) return report(error);
  if (!event || flags > (cudaEventBlockingSync | cudaEventDisableTiming)) {
    return report(cudaErrorInvalidValue);
  }
  *event = new CUevent_st{current_device(), !(flags & cudaEventDisableTiming), false,
                          std::make_shared<Clock::time_point>(), nullptr};
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  s.events.insert(*event);
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  State& s = state();
  {
    const std::lock_guard<std::mutex> lock(s.mutex);
    if (s.events.erase(event) == 0) return report(cudaErrorInvalidResourceHandle);
  }
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (const cudaError_t error = finished(live(event) && live(stream))) return error;
  if (device_of(stream) != event->device) return report(cudaErrorInvalidResourceHandle);
  event->position = position_of(stream);
  event->recorded = !event->position.capture;
  if (event->position.capture) return cudaSuccess;
  event->at = std::make_shared<Clock::time_point>();
  event->work = enqueue(stream, [at = event->at] { *at = Clock::now(); });
  return cudaSuccess;
}

namespace {
/// An event that is a position in a capture tells nothing, and who asks breaks that.
cudaError_t captured_event(cudaEvent_t event) {
  if (!live(event) || !event->position.capture) return cudaSuccess;
  return report(ask_of_position(event->position));
}
}  // namespace

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const cudaError_t error = captured_event(event)) return error;
  const bool alive = live(event);
  if (alive) run_until(event->work);
  return finished(alive);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (const cudaError_t error = captured_event(event)) return error;
  if (!live(event)) return finished(false);
  const bool ready = look_at(event->work);
  const cudaError_t error = finished(true);
  return error || ready ? error : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  if (!milliseconds) return report(cudaErrorInvalidValue);
  if (const cudaError_t error = finished(live(from) && live(to))) return error;
  if (!from->timed || !to->timed || !from->recorded || !to->recorded) {
    return report(cudaErrorInvalidResourceHandle);
  }
  if (!has_run(from->work) || !has_run(to->work)) return cudaErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(*to->at - *from->at).count();
  return cudaSuccess;
}

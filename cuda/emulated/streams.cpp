// cuda/emulated/streams.cpp: error texts, streams and events. Work runs when it is issued, so a
// stream is only an identity and an event only a moment.
#include <chrono>

#include "cuda_runtime_api.h"
#include "state.h"

using Clock = std::chrono::steady_clock;

struct CUstream_st {
  int device;
};

struct CUevent_st {
  int device;
  bool timed, recorded;
  Clock::time_point at;
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
  if (greatest) *greatest = 0;
  return report(device_error());
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  if (const cudaError_t error = device_error()) return report(error);
  if (!stream) return report(cudaErrorInvalidValue);
  *stream = new CUstream_st{current_device()};
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  s.streams.insert(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (flags > cudaStreamNonBlocking) return report(cudaErrorInvalidValue);
  return cudaStreamCreate(stream);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  State& s = state();
  {
    const std::lock_guard<std::mutex> lock(s.mutex);
    if (s.streams.erase(stream) == 0) return report(cudaErrorInvalidResourceHandle);
  }
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return finished(live(stream)); }

cudaError_t cudaStreamQuery(cudaStream_t stream) { return finished(live(stream)); }

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  if (flags) return report(cudaErrorInvalidValue);
  return finished(live(stream) && live(event));
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  if (!function) return report(cudaErrorInvalidValue);
  if (const cudaError_t error = finished(valid_stream(stream))) return error;
  function(data);
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
  *event = new CUevent_st{current_device(), !(flags & cudaEventDisableTiming), false, {}};
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
  const bool own = !stream || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
  const int device = own ? current_device() : stream->device;
  if (device != event->device) return report(cudaErrorInvalidResourceHandle);
  event->recorded = true;
  event->at = Clock::now();
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) { return finished(live(event)); }

cudaError_t cudaEventQuery(cudaEvent_t event) { return finished(live(event)); }

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  if (!milliseconds) return report(cudaErrorInvalidValue);
  if (const cudaError_t error = finished(live(from) && live(to))) return error;
  if (!from->timed || !to->timed || !from->recorded || !to->recorded) {
    return report(cudaErrorInvalidResourceHandle);
  }
  *milliseconds = std::chrono::duration<float, std::milli>(to->at - from->at).count();
  return cudaSuccess;
}

// tensor/runtime/streams.cpp: the current device and streams of each thread, guards, and events
// made at their first use.
#include "tensor/runtime/streams.h"

#include "tensor/runtime/backend.h"
#include "tensor/runtime/execution.h"

namespace moonlet {

constinit thread_local DeviceState device_state;

void set_current_stream(DeviceStream stream) {
  check(cuda_streams("set_stream").exists(stream), "set_stream: there is no stream ", stream.id,
        " on device ", stream.device);
  if (stream.device < kMaxStreamDevices)
    device_state.streams[static_cast<uint8_t>(stream.device)] = stream.id;
}

void set_current_device(int device) {
  const Device wanted{DeviceType::CUDA, static_cast<int8_t>(device)};
  check(device >= 0 && device < 128, "set_device: there is no device ", device);
  require_device(wanted, "set_device");
  device_state.current = wanted.index;
  if (device_state.default_follows) execution.default_device = wanted;
}

StreamGuard::StreamGuard(DeviceStream stream)
    : before_(current_stream(stream.device)), device_before_(device_state.current) {
  set_current_stream(stream);
  device_state.current = stream.device;
}

StreamGuard::~StreamGuard() {
  if (before_.device < kMaxStreamDevices)
    device_state.streams[static_cast<uint8_t>(before_.device)] = before_.id;
  device_state.current = device_before_;
}

Streams& cuda_streams(const char* op) {
  Backend* backend = cuda_backend();
  if (backend == nullptr) fail(op, ": CUDA is not available: ", cuda_unavailable_reason());
  return backend->streams();
}

Event::~Event() {
  if (event_ != nullptr) cuda_backend()->streams().free_event(event_, device_);
}

void Event::record(DeviceStream stream) {
  Streams& streams = cuda_streams("record");
  check(device_ < 0 || device_ == stream.device, "record: the event belongs to cuda:", device_,
        ", where it was first recorded, and the stream to cuda:", static_cast<int>(stream.device));
  if (event_ == nullptr) event_ = streams.new_event(stream.device, timing_, blocking_);
  device_ = static_cast<uint8_t>(stream.device);
  streams.record(event_, stream);
}

void Event::wait(DeviceStream stream) const {
  if (event_ != nullptr) cuda_streams("wait").wait(event_, stream);
}

bool Event::query() const {
  return event_ == nullptr || cuda_streams("query").query_event(event_, device_);
}

void Event::synchronize() const {
  if (event_ != nullptr) cuda_streams("synchronize").synchronize_event(event_, device_);
}

float Event::elapsed_time(const Event& end) const {
  check(timing_ && end.timing_, "elapsed_time: both events must be made with enable_timing = true");
  check(event_ != nullptr && end.event_ != nullptr,
        "elapsed_time: both events must have been recorded");
  check(query() && end.query(),
        "elapsed_time: both events must have happened: call synchronize() of the later one");
  check(device_ == end.device_, "elapsed_time: the events are of cuda:", device_,
        " and cuda:", end.device_);
  return cuda_streams("elapsed_time").elapsed(event_, end.event_, device_);
}

void wait_stream(DeviceStream stream, DeviceStream other) {
  if (stream == other) return;
  Event event;
  event.record(other);
  event.wait(stream);
}

void record_stream(const Tensor& x, DeviceStream stream) {
  if (!x.device().real().is_cuda() || x.device().is_batched() || x.storage().bytes() == 0) return;
  cuda_backend()->record_stream(x.storage(), stream);
}

}  // namespace moonlet

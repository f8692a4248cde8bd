// tensor/runtime/streams.cpp: the current device and streams of each thread, guards, and events
// made at their first use.
#include "tensor/runtime/streams.h"

#include <atomic>

#include "tensor/runtime/backend.h"
#include "tensor/runtime/execution.h"

namespace moonlet {

constinit thread_local DeviceState device_state;

void set_current_stream(DeviceStream stream) {
  check(require_streams("set_stream").exists(stream), "set_stream: there is no stream ", stream.id,
        " on device ", stream.device);
  if (stream.device < kMaxStreamDevices)
    device_state.streams[static_cast<uint8_t>(stream.device)] = stream.id;
}

void set_current_device(Device device) {
  require_device(device, "set_device");
  check(has_streams(device), "set_device: ", device, " is of a kind without a current device");
  device_state.current = device.index;
  if (device_state.default_follows && execution.default_device.type == device.type)
    execution.default_device = device;
}

Device current_device(DeviceType type) noexcept {
  return {type, has_streams({type, 0}) ? device_state.current : int8_t{0}};
}

namespace {
// The kind is written last.
constinit std::atomic<Streams*> streams_in_use{nullptr};
constinit std::atomic<DeviceType> streams_are_of{DeviceType::CPU};
}  // namespace

Streams* opened_streams() noexcept { return streams_in_use.load(std::memory_order_acquire); }
DeviceType stream_type() noexcept { return streams_are_of.load(std::memory_order_acquire); }

void set_streams(DeviceType type, Streams& streams) {
  Streams* none = nullptr;
  check(streams_in_use.compare_exchange_strong(none, &streams), title_of(type),
        ": another kind of device has streams already, and one may");
  streams_are_of.store(type, std::memory_order_release);
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

Streams& require_streams(const char* op) {
  Streams* const streams = opened_streams();
  check(streams != nullptr, op, ": no device with streams is in use");
  return *streams;
}

Event::~Event() {
  if (event_ != nullptr) opened_streams()->free_event(event_, device_);
}

void Event::record(DeviceStream stream) {
  Streams& streams = require_streams("record");
  check(device_ < 0 || device_ == stream.device, "record: the event belongs to ",
        name(stream_type()), ":", device_, ", where it was first recorded, and the stream to ",
        name(stream_type()), ":", static_cast<int>(stream.device));
  if (event_ == nullptr) event_ = streams.new_event(stream.device, timing_, blocking_);
  device_ = static_cast<uint8_t>(stream.device);
  streams.record(event_, stream);
}

void Event::wait(DeviceStream stream) const {
  if (event_ != nullptr) require_streams("wait").wait(event_, stream);
}

bool Event::query() const {
  return event_ == nullptr || require_streams("query").query_event(event_, device_);
}

void Event::synchronize() const {
  if (event_ != nullptr) require_streams("synchronize").synchronize_event(event_, device_);
}

float Event::elapsed_time(const Event& end) const {
  check(timing_ && end.timing_, "elapsed_time: both events must be made with enable_timing = true");
  check(event_ != nullptr && end.event_ != nullptr,
        "elapsed_time: both events must have been recorded");
  check(query() && end.query(),
        "elapsed_time: both events must have happened: call synchronize() of the later one");
  check(device_ == end.device_, "elapsed_time: the events are of ", name(stream_type()), ":",
        device_, " and ", name(stream_type()), ":", end.device_);
  return require_streams("elapsed_time").elapsed(event_, end.event_, device_);
}

void wait_stream(DeviceStream stream, DeviceStream other) {
  if (stream == other) return;
  Event event;
  event.record(other);
  event.wait(stream);
}

void record_stream(const Tensor& x, DeviceStream stream) {
  if (!has_streams(x.device()) || x.storage().bytes() == 0) return;
  opened_streams()->record_use(x.storage(), stream);
}

}  // namespace moonlet

// tensor/runtime/streams.h: streams, the queues of work of a device, which one is current, and
// events, the moments in them that other streams and the host can wait for.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "tensor/core/tensor.h"

namespace moonlet {

// Streams belong to one kind of device in a process: that of the first opened backend that has
// them. A stream by its number, which stays good as long as the process lives: 0 is the default
// stream of a device, the others come from a pool or from a host's program.
struct DeviceStream {
  int8_t device = 0;
  uint16_t id = 0;
  bool operator==(const DeviceStream&) const = default;
};

// Those of devices behind it have the default stream only.
inline constexpr int kMaxStreamDevices = 16;

// The current device, and the current stream of each. It belongs to an interpreter and is kept per
// coroutine, as the execution state (tensor/runtime/execution.h) is; a thread without one has its
// own.
struct DeviceState {
  int8_t current = 0;  // what a device without a number stands for
  // The default device was named without a number, so it goes with the current one.
  bool default_follows = false;
  // Whether copies between the host and a device are waited for where they need not be. Off only
  // inside of `to` with non_blocking, where memory of the host is page-locked too.
  bool copies_wait = true;
  uint32_t guard = 0;  // the innermost guard of a script, by number, or 0
  std::array<uint16_t, kMaxStreamDevices> streams{};
};
extern constinit thread_local DeviceState device_state;

// The current stream of a device, by its number from 0.
inline DeviceStream current_stream(int device) {
  const auto number = static_cast<int8_t>(device);
  if (device < 0 || device >= kMaxStreamDevices) return {number, 0};
  return {number, device_state.streams[static_cast<size_t>(device)]};
}
// Makes it the current stream of its device. Throws when there is none of that number.
void set_current_stream(DeviceStream stream);
// Makes it what its kind without a number stands for. Throws when there is no such device.
void set_current_device(Device device);
// What a kind without a number stands for.
Device current_device(DeviceType type) noexcept;

// Work on the device of `stream` goes to it while the guard lives, and that device is current.
// Tensors made meanwhile belong to the stream: what another stream does with them, the caller
// orders with events, and says so by `record_stream` before they are freed.
class StreamGuard {
 public:
  explicit StreamGuard(DeviceStream stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  const DeviceStream before_;
  const int8_t device_before_;
};

// What a backend does with streams and events. All may be called on any thread.
class Streams {
 public:
  virtual ~Streams() = default;
  // One of the pool of that device and priority, in turn. Lower numbers come first; those outside
  // of the range stand for its ends.
  virtual DeviceStream from_pool(int device, int priority) = 0;
  // A stream of a host's program, by the handle that the backend's library has for it, which must
  // stay as long as work is put there.
  virtual DeviceStream external(void* handle, int device) = 0;
  virtual bool exists(DeviceStream stream) = 0;
  // That handle.
  virtual void* handle(DeviceStream stream) = 0;
  virtual int priority(DeviceStream stream) = 0;
  // The least and the greatest.
  virtual std::pair<int, int> priority_range() = 0;
  // Whether all work has been done.
  virtual bool query(DeviceStream stream) = 0;
  virtual void synchronize(DeviceStream stream) = 0;
  // Events, as Event below has them.
  virtual void* new_event(int device, bool timing, bool blocking) = 0;
  virtual void free_event(void* event, int device) noexcept = 0;
  virtual void record(void* event, DeviceStream stream) = 0;
  virtual void wait(void* event, DeviceStream stream) = 0;
  virtual bool query_event(void* event, int device) = 0;
  virtual void synchronize_event(void* event, int device) = 0;
  virtual float elapsed(void* from, void* to, int device) = 0;
  // Work that `stream` has or gets until the storage is freed uses its memory, which another
  // stream reuses only after that work. Nothing for memory that is not of the backend's allocator.
  virtual void record_use(const Storage& storage, DeviceStream stream) = 0;
};

// Those of the opened backend that has them, and its kind; null and the CPU where none has.
Streams* opened_streams() noexcept;
DeviceType stream_type() noexcept;
// The same; throws naming `op` where there are none.
Streams& require_streams(const char* op);
// Whether ops on the device go to streams.
inline bool has_streams(Device device) noexcept {
  return !device.is_cpu() && device.type == stream_type();
}
// For backends as they are opened. Throws when another kind has streams already.
void set_streams(DeviceType type, Streams& streams);

// A moment in a stream: that at which all work has been done which was there when `record` ran.
// It belongs to the device of the first stream that records it. One that was never recorded has
// happened. For one thread at a time.
class Event {
 public:
  explicit Event(bool timing = false, bool blocking = false)
      : timing_(timing), blocking_(blocking) {}
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(DeviceStream stream);
  // Work put into `stream` from now on waits for it; the host does not.
  void wait(DeviceStream stream) const;
  bool query() const;
  void synchronize() const;
  // Milliseconds from this one to `end`.
  float elapsed_time(const Event& end) const;
  // The device's number, or -1 before it is recorded.
  int device() const { return device_; }

 private:
  const bool timing_, blocking_;
  int device_ = -1;
  void* event_ = nullptr;
};

// Work put into `stream` from now on waits for what is in `other` now.
void wait_stream(DeviceStream stream, DeviceStream other);
// Says that work in `stream` uses the memory of x, which was made for another: freed, it is used
// again only when that work is done. Nothing for what is on a device without streams.
void record_stream(const Tensor& x, DeviceStream stream);

}  // namespace moonlet

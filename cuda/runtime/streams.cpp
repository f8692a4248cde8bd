// cuda/runtime/streams.cpp: a pool of streams per device and priority, made at their first use and
// never destroyed, so that no work can outlive its stream; streams of hosts; events.
#include "cuda/runtime/streams.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>

#include "cuda/memory/allocator.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/faults.h"
#include "cuda/runtime/fork.h"
#include "cuda/runtime/quiet_guard.h"
#include "tensor/runtime/backend.h"

namespace moonlet::cuda {
namespace {

constexpr int kPerPriority = 32;
constexpr int kPriorities = 4;  // from 0 to -3
constexpr int kFirstOfPool = 1;
constexpr int kFirstOfHosts = kFirstOfPool + kPerPriority * kPriorities;
constexpr int kMostOfHosts = 1024;
// Numbers below 2048: nodes of the tape remember them in 11 bits.
constexpr int kNumbers = kFirstOfHosts + kMostOfHosts;

struct DeviceStreams {
  std::array<std::atomic<cudaStream_t>, kNumbers> by_number{};
  std::array<std::atomic<unsigned>, kPriorities> next{};
  int of_hosts = 0;
  std::mutex mutex;
};

class CudaStreams final : public Streams {
 public:
  DeviceStream from_pool(int device, int priority) override;
  DeviceStream external(void* handle, int device) override;
  bool exists(DeviceStream stream) override {
    const int count = opened_backend(device_type())->device_count();
    if (stream.device < 0 || stream.device >= count) return false;
    if (stream.id == 0) return true;
    return stream.device < kMaxStreamDevices && stream.id < kNumbers && at(stream) != nullptr;
  }
  void* handle(DeviceStream stream) override { return stream_of(stream); }
  int priority(DeviceStream stream) override;
  std::pair<int, int> priority_range() override;
  bool query(DeviceStream stream) override {
    const DeviceGuard guard(stream.device, "query");
    refuse_in_capture(stream_of(stream), "query", "whether a stream has done its work");
    return ready(cudaStreamQuery(stream_of(stream)));
  }
  void synchronize(DeviceStream stream) override {
    const DeviceGuard guard(stream.device, "synchronize");
    wait_for(stream_of(stream), stream.device, "synchronize");
  }
  void* new_event(int device, bool timing, bool blocking) override;
  void free_event(void* event, int device) noexcept override;
  void record(void* event, DeviceStream stream) override {
    const DeviceGuard guard(stream.device, "record");
    ensure(cudaEventRecord(static_cast<cudaEvent_t>(event), stream_of(stream)), "record");
    note_recorded(static_cast<cudaEvent_t>(event), stream_of(stream));
  }
  void wait(void* event, DeviceStream stream) override {
    const DeviceGuard guard(stream.device, "wait");
    const cudaEvent_t awaited = static_cast<cudaEvent_t>(event);
    if (DeviceGraph* graph = joined_by(awaited, stream_of(stream), "wait"))
      join_capture(stream_of(stream), stream.device, *graph);
    ensure(cudaStreamWaitEvent(stream_of(stream), awaited, 0), "wait");
  }
  bool query_event(void* event, int device) override {
    const DeviceGuard guard(device, "query");
    refuse_captured(static_cast<cudaEvent_t>(event), "query");
    return ready(cudaEventQuery(static_cast<cudaEvent_t>(event)));
  }
  void synchronize_event(void* event, int device) override {
    const DeviceGuard guard(device, "synchronize");
    refuse_captured(static_cast<cudaEvent_t>(event), "synchronize");
    count_wait();
    ensure(cudaEventSynchronize(static_cast<cudaEvent_t>(event)), "synchronize");
    throw_reported(device, "synchronize");
  }
  float elapsed(void* from, void* to, int device) override {
    const DeviceGuard guard(device, "elapsed_time");
    for (void* event : {from, to}) refuse_captured(static_cast<cudaEvent_t>(event), "elapsed_time");
    float out = 0;
    ensure(cudaEventElapsedTime(&out, static_cast<cudaEvent_t>(from), static_cast<cudaEvent_t>(to)),
           "elapsed_time");
    return out;
  }

  void record_use(const Storage& storage, DeviceStream stream) override {
    caching_allocator().record_stream(storage.data(), storage.device().index, stream_of(stream));
  }

  cudaStream_t at(DeviceStream stream) noexcept {
    DeviceStreams* const of = devices_[static_cast<size_t>(stream.device)].load();
    return of == nullptr ? nullptr : of->by_number[stream.id].load(std::memory_order_acquire);
  }

 private:
  static bool ready(cudaError_t error) {
    if (error != cudaErrorNotReady) ensure(error, "query");
    return error == cudaSuccess;
  }
  DeviceStreams& of_device(int device);

  std::mutex mutex_;
  std::array<std::atomic<DeviceStreams*>, kMaxStreamDevices> devices_{};
};

DeviceStreams& CudaStreams::of_device(int device) {
  require_device(device_of(device), "Stream");
  check(device < kMaxStreamDevices, "Stream: only the first ", kMaxStreamDevices,
        " devices have streams besides the default one");
  std::atomic<DeviceStreams*>& slot = devices_[static_cast<size_t>(device)];
  if (DeviceStreams* made = slot.load()) return *made;
  const std::lock_guard lock(mutex_);
  if (slot.load() == nullptr) slot.store(new DeviceStreams);
  return *slot.load();
}

DeviceStream CudaStreams::from_pool(int device, int priority) {
  DeviceStreams& of = of_device(device);
  const auto [least, greatest] = priority_range();
  const int level = least - std::clamp(priority, greatest, least);
  const int turn =
      static_cast<int>(of.next[static_cast<size_t>(level)].fetch_add(1) % kPerPriority);
  const int id = kFirstOfPool + level * kPerPriority + turn;
  std::atomic<cudaStream_t>& slot = of.by_number[static_cast<size_t>(id)];
  if (slot.load() == nullptr) {
    const DeviceGuard guard(device, "Stream");
    const std::lock_guard lock(of.mutex);
    if (slot.load() == nullptr) {
      cudaStream_t made = nullptr;
      ensure(cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, least - level), "Stream");
      slot.store(made, std::memory_order_release);
    }
  }
  return {static_cast<int8_t>(device), static_cast<uint16_t>(id)};
}

DeviceStream CudaStreams::external(void* handle, int device) {
  DeviceStreams& of = of_device(device);
  if (handle == nullptr) return {static_cast<int8_t>(device), 0};
  const std::lock_guard lock(of.mutex);
  for (int id = kFirstOfPool; id < kFirstOfHosts + of.of_hosts; ++id)
    if (of.by_number[static_cast<size_t>(id)].load() == handle)
      return {static_cast<int8_t>(device), static_cast<uint16_t>(id)};
  check(of.of_hosts < kMostOfHosts, "external: more than ", kMostOfHosts,
        " streams of the host's own on one device");
  const int id = kFirstOfHosts + of.of_hosts++;
  of.by_number[static_cast<size_t>(id)].store(static_cast<cudaStream_t>(handle));
  return {static_cast<int8_t>(device), static_cast<uint16_t>(id)};
}

int CudaStreams::priority(DeviceStream stream) {
  if (stream.id < kFirstOfPool || stream.id >= kFirstOfHosts) return 0;
  return priority_range().first - (stream.id - kFirstOfPool) / kPerPriority;
}

// As many as the pool has; devices may know more.
std::pair<int, int> CudaStreams::priority_range() {
  static const std::pair<int, int> range = [] {
    const DeviceGuard guard(0, "priority_range");
    int least = 0, greatest = 0;
    ensure(cudaDeviceGetStreamPriorityRange(&least, &greatest), "priority_range");
    return std::pair{least, std::max(greatest, least - kPriorities + 1)};
  }();
  return range;
}

void* CudaStreams::new_event(int device, bool timing, bool blocking) {
  const DeviceGuard guard(device, "Event");
  cudaEvent_t out = nullptr;
  const unsigned flags =
      (timing ? 0u : cudaEventDisableTiming) | (blocking ? cudaEventBlockingSync : 0u);
  ensure(cudaEventCreateWithFlags(&out, flags), "Event");
  return out;
}

void CudaStreams::free_event(void* event, int device) noexcept {
  const QuietDeviceGuard guard(device);
  forget_event(static_cast<cudaEvent_t>(event));
  // A device that was lost has no events any more.
  if (cudaEventDestroy(static_cast<cudaEvent_t>(event)) != cudaSuccess) cudaGetLastError();
}

CudaStreams& all() {
  static CudaStreams& it = *new CudaStreams;
  return it;
}

}  // namespace

Streams& streams() { return all(); }

cudaStream_t stream_of(DeviceStream stream) noexcept {
  return stream.id == 0 ? nullptr : all().at(stream);
}

}  // namespace moonlet::cuda

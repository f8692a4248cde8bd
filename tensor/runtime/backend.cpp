// tensor/runtime/backend.cpp: the registry of backends, each of which is opened at its first use;
// plugin.cpp opens those that are plugins.
#include "tensor/runtime/backend.h"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>

#include "tensor/core/dispatch.h"
#include "tensor/core/platform/libraries.h"
#include "tensor/runtime/registered_backends.h"

namespace moonlet {

namespace {

// A registered kind of device. Never destroyed, as threads may outlive static objects.
struct Entry {
  BackendInfo info{};
  std::once_flag once;
  std::string reason;
  std::atomic<Backend*> opened{nullptr};
};

class Registry {
 public:
  Registry() {
    types_[0] = DeviceType::CPU;
    entries_[0].info = {.name = "cpu", .title = "CPU", .open = nullptr};
    count_ = 1;
    for (const BackendInfo& info : registered_backends()) add(info);
  }

  DeviceType add(const BackendInfo& info) {
    const std::lock_guard lock(mutex_);
    check(!find(info.name), "a device type is named '", info.name, "' already");
    const size_t i = count_.load(std::memory_order_relaxed);
    check(i < entries_.size(), "there are ", entries_.size(),
          " device types, no more can be added");
    entries_[i].info = info;
    types_[i] = static_cast<DeviceType>(i);
    count_.store(i + 1, std::memory_order_release);
    return types_[i];
  }

  std::span<const DeviceType> types() const {
    return {types_.data(), count_.load(std::memory_order_acquire)};
  }

  std::optional<DeviceType> find(std::string_view wanted) {
    for (const DeviceType type : types())
      if (of(type).info.name == wanted) return type;
    return {};
  }

  Entry& of(DeviceType type) { return entries_[static_cast<size_t>(type)]; }

 private:
  std::mutex mutex_;
  std::array<Entry, kMaxDeviceTypes> entries_;
  std::array<DeviceType, kMaxDeviceTypes> types_{};
  std::atomic<size_t> count_{0};
};

Registry& registry() {
  static Registry& it = *new Registry;
  return it;
}

// The entry of a kind other than the CPU, after its backend was opened.
Entry& opened(DeviceType type) {
  Entry& entry = registry().of(type);
  std::call_once(entry.once, [&] {
    Backend* const backend = entry.info.open(type, &entry.reason);
    if (backend == nullptr) return;
    set_default_allocator(type, &backend->allocator());
    register_kernels(type, &backend->kernels());
    if (Streams* const streams = backend->streams()) set_streams(type, *streams);
    entry.opened.store(backend, std::memory_order_release);
  });
  return entry;
}

}  // namespace

std::span<const DeviceType> device_types() noexcept { return registry().types(); }
const char* name(DeviceType type) { return registry().of(type).info.name; }
const char* title_of(DeviceType type) { return registry().of(type).info.title; }
std::optional<DeviceType> find_device_type(std::string_view name) { return registry().find(name); }
DeviceType register_backend(const BackendInfo& info) {
  const DeviceType type = registry().add(info);
  // Opened once more and never closed: Lua closes its C modules with the interpreter.
  platform::reopen(platform::object_of(reinterpret_cast<const void*>(info.open)));
  return type;
}

Backend* backend_of(DeviceType type) { return opened(type).opened.load(std::memory_order_relaxed); }
const std::string& unavailable_reason(DeviceType type) { return opened(type).reason; }
Backend* opened_backend(DeviceType type) noexcept {
  return registry().of(type).opened.load(std::memory_order_acquire);
}

Backend& require_backend(DeviceType type, const char* op) {
  Backend* const backend = backend_of(type);
  if (backend == nullptr)
    fail(op, ": ", title_of(type), " is not available: ", unavailable_reason(type));
  return *backend;
}

PinnedMemory* pinned_memory() {
  for (const DeviceType type : device_types()) {
    Backend* const backend = type == DeviceType::CPU ? nullptr : backend_of(type);
    if (PinnedMemory* found = backend ? backend->pinned_memory() : nullptr) return found;
  }
  return nullptr;
}

void fail_forked(DeviceType type, const char* op) {
  const char* const title = title_of(type);
  fail(op, ": ", title,
       " cannot be used here: this process was forked from one that uses it; fork ",
       "before the first use of ", title, ", or start another process");
}

void require_device(Device device, const char* op) {
  if (device.is_cpu()) return;
  Backend* const backend = backend_of(device.type);
  const char* const title = title_of(device.type);
  if (backend && !kernel_table(device.type)) fail_forked(device.type, op);
  if (!backend) fail(op, ": there is no ", title, " device: ", unavailable_reason(device.type));
  const int count = backend->device_count();
  if (device.index >= count)
    fail(op, ": there is no device ", device, "; this machine has ", count, " ", title, " device",
         count == 1 ? "" : "s");
}

}  // namespace moonlet

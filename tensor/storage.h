// tensor/storage.h: a counted block of bytes on one device, which tensors view. It knows how to
// give its memory back and counts changes made in place.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "tensor/allocator.h"

namespace moonlet {

class Storage {
 public:
  // A counted storage with one reference. Contents are undefined. Throws OutOfMemory.
  static Storage* allocate(size_t bytes, Device device);
  // Memory somebody else owns; `deleter` (may be empty) runs when the last reference goes.
  static Storage* foreign(void* data, size_t bytes, Device device, std::function<void()> deleter);
  // A file's bytes mapped copy-on-write: writes stay in this process. Throws naming the path.
  static Storage* map_file(const std::string& path);

  void retain() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept {
    // The only holder needs no locked decrement: nobody else can add a reference.
    if (references_.load(std::memory_order_acquire) == 1 ||
        references_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      destroy();
  }

  char* data() const noexcept { return data_; }
  size_t bytes() const noexcept { return bytes_; }
  Device device() const noexcept { return device_; }
  // Whether only one tensor views it.
  bool sole_owner() const noexcept { return references_.load(std::memory_order_acquire) == 1; }
  // Rises by one at each in-place change through any tensor that views this storage.
  uint32_t version() const noexcept { return version_.load(std::memory_order_relaxed); }
  void bump_version() noexcept { version_.fetch_add(1, std::memory_order_relaxed); }
  // The in-place op that changed it last, for error messages ("add_"); a string literal.
  const char* last_writer() const noexcept { return last_writer_.load(std::memory_order_relaxed); }
  void set_last_writer(const char* op) noexcept {
    last_writer_.store(op, std::memory_order_relaxed);
  }

 private:
  Storage() = default;
  static Storage* make(void* data, size_t bytes, Device device, Allocator* allocator,
                       void* context);
  void destroy() noexcept;

  std::atomic<int32_t> references_{1};
  std::atomic<uint32_t> version_{0};
  Device device_;
  char* data_ = nullptr;
  size_t bytes_ = 0;
  Allocator* allocator_ = nullptr;
  void* context_ = nullptr;
  std::atomic<const char*> last_writer_{nullptr};
};

// Bytes of all live storages on all devices, and on one kind of device.
int64_t live_bytes() noexcept;
int64_t live_bytes(DeviceType type) noexcept;
// Live bytes plus what the allocators keep for reuse; its highest value since reset_peak_bytes.
int64_t held_bytes() noexcept;
int64_t peak_held_bytes() noexcept;
void reset_peak_bytes() noexcept;
// Bytes ever allocated by this thread; the interpreter pays its collector by it.
int64_t thread_allocated_bytes() noexcept;

}  // namespace moonlet

// tensor/core/storage.h: a counted block of bytes on one device, which tensors view. It knows how
// to give its memory back and counts changes made in place. Scripts and hosts hold it through
// TypedStorage (tensor/core/typed_storage.h).
//
// Invariants of the version:
// - It is the storage's, so that all tensors on the same storage share it, detached ones too.
// - Each op that changes what a script can see raises it (mark_changed), and does so before its
//   kernel runs, as a kernel that throws may have made a part of the change. Filling a result that
//   nobody has seen (tensor/core/plain_copy.h) does not.
// - Who keeps a tensor for later keeps the version beside it, and takes any other number for a
//   change: a saved tensor (Saved, autograd/node.h) is then an error, and the history of a view
//   (ViewRecord, autograd/meta.h) is made again.
// - For a tensor that moves to another storage the version goes up too (pass_version).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tensor/runtime/allocator.h"

namespace moonlet {

// What a write to a mapped file does: it stays in this process, reaches the file (and everybody who
// maps it), or is refused.
enum class Mapping : uint8_t { Private, Shared, ReadOnly };

// What a storage without memory of its own stands for.
class StandIn {
 public:
  StandIn() = default;
  virtual ~StandIn() = default;
  StandIn(const StandIn&) = delete;
  StandIn& operator=(const StandIn&) = delete;
};

class Storage;

// Who put off the ops that fill a storage, and runs them when its contents are asked for.
class DeferredContents {
 public:
  DeferredContents() = default;
  virtual ~DeferredContents() = default;
  DeferredContents(const DeferredContents&) = delete;
  DeferredContents& operator=(const DeferredContents&) = delete;

  // Gives the storage its contents (`Storage::settle`), or throws.
  virtual void fill(Storage& storage) = 0;
  // The last reference to the storage has gone; nobody will ask for its contents.
  virtual void drop(Storage& storage) noexcept = 0;
};

class Storage {
 public:
  // A counted storage with one reference. Contents are undefined. Throws OutOfMemory.
  static Storage* allocate(size_t bytes, Device device);
  // Memory somebody else owns; `deleter` (may be empty) runs when the last reference goes.
  static Storage* foreign(void* data, size_t bytes, Device device, std::function<void()> deleter);
  // The first `bytes` bytes of a file, or all of them, mapped. A shared mapping of a given size
  // makes the file, or makes it longer, when needed. Throws naming the path.
  static Storage* map_file(const std::string& path, Mapping mapping = Mapping::Private,
                           std::optional<size_t> bytes = {});

  // A storage without memory, of a tensor inside vmap. Its version is that of `counted`, which
  // `what` keeps alive.
  static Storage* standing_for(std::unique_ptr<const StandIn> what, Device device,
                               Storage& counted);

  // A storage that has no memory until its contents are asked for, on the thread that made it.
  // `contents` must outlive it, or fill it before.
  static Storage* deferred(size_t bytes, Device device, DeferredContents& contents);
  bool is_deferred() const noexcept { return deferred_ != nullptr; }
  // Takes the memory of `fresh`, of as many bytes, which has no other holder and is given up. One
  // that is deferred itself has none: it says whom to ask before what is here is used; null,
  // nobody.
  void settle(Storage* fresh) noexcept;

  void retain() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept {
    // The only holder needs no locked decrement: nobody else can add a reference.
    if (references_.load(std::memory_order_acquire) == 1 ||
        references_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      destroy();
  }

  char* data() const {
    if (deferred_ != nullptr) [[unlikely]]
      deferred_->fill(const_cast<Storage&>(*this));
    return data_;
  }
  size_t bytes() const noexcept { return bytes_; }
  Device device() const noexcept { return device_; }
  bool is_foreign() const noexcept;
  bool is_mapped() const noexcept;
  // Whether writes reach a mapped file.
  bool is_shared() const noexcept { return shared_; }
  // Whether others than the interpreter that runs may write to it at any time: another interpreter,
  // or another process that maps its file. Its size is fixed then, and what is looked at twice,
  // such as a position that is checked and used, is copied first (`steady`,
  // tensor/core/dispatch.h). Memory that was handed over and has one holder left is nobody else's
  // any more.
  bool has_other_writers() const noexcept {
    const Sharing sharing = sharing_.load(std::memory_order_relaxed);
    return sharing != Sharing::None &&
           (sharing == Sharing::Handles || is_mapped() || !sole_owner());
  }
  // Whether other interpreters may hold the same tensors on it, not only tensors of their own.
  bool has_shared_handles() const noexcept {
    return sharing_.load(std::memory_order_relaxed) == Sharing::Handles;
  }
  // For who is about to hand it to another interpreter, for tensors of that one's own.
  void hand_over() noexcept {
    Sharing none = Sharing::None;
    sharing_.compare_exchange_strong(none, Sharing::Memory, std::memory_order_relaxed);
  }
  // For hosts, which give tensors themselves to interpreters and get them from there: when they
  // come to a second one, it shares them.
  void note_interpreter(const void* interpreter) noexcept {
    const void* first = nullptr;
    const bool is_first =
        interpreter_.compare_exchange_strong(first, interpreter, std::memory_order_relaxed);
    if (!is_first && first != interpreter) share_handles();
  }
  // For what is reached through a tensor that interpreters share, such as its gradient.
  void share_handles() noexcept { sharing_.store(Sharing::Handles, std::memory_order_relaxed); }
  // As note_interpreter, for a storage that a tensor moves to from `other`.
  void note_interpreter_of(const Storage& other) noexcept {
    const void* first = other.interpreter_.load(std::memory_order_relaxed);
    if (first != nullptr) note_interpreter(first);
  }
  // Refused by check_writable, which every op that writes calls.
  bool is_read_only() const noexcept { return read_only_; }
  // Whether it was made in inference mode: the tape saves no tensor of it, and outside of the mode
  // nothing changes it in place.
  bool is_inference() const noexcept { return inference_; }
  // For a host whose foreign memory must not change. Nothing makes a storage writable again.
  void make_read_only() noexcept { read_only_ = true; }
  // Changes how many bytes there are; contents stay as far as they fit, new bytes are 0. A smaller
  // size gives memory back only when nobody else holds the storage: what tensors reach stays valid.
  // Throws naming `op` for foreign, mapped and read-only memory, for a storage that has other
  // writers, whose kernels hold the old memory, and OutOfMemory. Must not run while another thread
  // reads or writes through this storage.
  void resize(size_t bytes, const char* op);

  // Whether there is one holder only: a tensor, a TypedStorage or a view's base.
  bool sole_owner() const noexcept { return references_.load(std::memory_order_acquire) == 1; }
  // Rises at each in-place change through any tensor that views this storage.
  uint32_t version() const noexcept { return counter_->load(std::memory_order_relaxed); }
  void bump_version() noexcept { counter_->fetch_add(1, std::memory_order_relaxed); }
  // Null for storages with memory.
  const StandIn* stand_in() const noexcept { return stand_in_.get(); }
  // Makes the version higher than `other`: for a tensor that moves here from a storage of that
  // version, so that who remembers its old one sees a change.
  void pass_version(uint32_t other) noexcept;
  // The op that changed it last, for error messages: "add_", or "cat" when this is its `out`; a
  // string literal.
  const char* last_writer() const noexcept { return last_writer_.load(std::memory_order_relaxed); }
  void set_last_writer(const char* op) noexcept {
    last_writer_.store(op, std::memory_order_relaxed);
  }

 private:
  Storage() = default;
  enum class Sharing : uint8_t { None, Memory, Handles };
  static Storage* make(void* data, size_t bytes, Device device, Allocator* allocator,
                       void* context);
  void destroy() noexcept;
  void take_memory(Storage& other) noexcept;

  std::atomic<int32_t> references_{1};
  std::atomic<uint32_t> version_{0};
  std::atomic<uint32_t>* counter_ = &version_;
  std::unique_ptr<const StandIn> stand_in_;
  Device device_;
  char* data_ = nullptr;
  DeferredContents* deferred_ = nullptr;
  size_t bytes_ = 0;
  size_t capacity_ = 0;  // what the allocator gave; `bytes_` is less after a resize
  bool shared_ = false, read_only_ = false;
  bool counted_ = false;  // its capacity is among live_bytes()
  bool inference_ = false;
  Allocator* allocator_ = nullptr;
  void* context_ = nullptr;
  std::atomic<const char*> last_writer_{nullptr};
  std::atomic<Sharing> sharing_{Sharing::None};
  std::atomic<const void*> interpreter_{nullptr};  // the first that a host dealt with it in
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

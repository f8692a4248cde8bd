// tensor/core/storage.cpp: making and ending storages (from an allocator, foreign memory or a
// mapped file), and the counters of bytes the memory rules are built on.
#include "tensor/core/storage.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "tensor/core/plain_copy.h"
#include "tensor/core/platform/files.h"
#include "tensor/core/platform/static_mutex.h"
#include "tensor/io/file_system.h"
#include "tensor/memory/budget.h"
#include "tensor/memory/free_list.h"
#include "tensor/memory/live_bound.h"
#include "tensor/memory/live_peak.h"
#include "tensor/runtime/backend.h"
#include "tensor/runtime/execution.h"
#include "tensor/runtime/streams.h"

namespace moonlet {

namespace {

using Headers = memory::FreeListOf<Storage>;

// Live bytes are counted per thread, without locked instructions, and summed when asked for; a
// thread's part may be negative, and is kept in `ended` when the thread is gone.
struct Counters {
  std::atomic<int64_t> live[kMaxDeviceTypes];
  Counters* next;
  bool listed, over;
};
constinit thread_local Counters counters = {};
constinit std::atomic<int64_t> ended[kMaxDeviceTypes] = {};
constinit platform::StaticMutex counters_mutex;
constinit Counters* all_counters = nullptr;

struct CountersGuard {
  ~CountersGuard() {
    std::lock_guard lock(counters_mutex);
    Counters** at = &all_counters;
    while (*at != &counters) at = &(*at)->next;
    *at = counters.next;
    counters.over = true;
    for (int i = 0; i < kMaxDeviceTypes; ++i) ended[i] += counters.live[i].exchange(0);
  }
};
[[gnu::noinline]] void list_counters() {
  thread_local CountersGuard guard;
  (void)&guard;
  std::lock_guard lock(counters_mutex);
  counters.next = all_counters;
  all_counters = &counters;
  counters.listed = true;
}

void count_live(DeviceType type, int64_t bytes) {
  memory::live_bytes_changed(bytes);
  const int i = static_cast<int>(type);
  Counters& mine = counters;
  if (mine.over) [[unlikely]] {
    ended[i].fetch_add(bytes, std::memory_order_relaxed);
    return;
  }
  if (!mine.listed) [[unlikely]]
    list_counters();
  mine.live[i].store(mine.live[i].load(std::memory_order_relaxed) + bytes,
                     std::memory_order_relaxed);
}

constinit std::atomic<int64_t> peak = 0;
constinit thread_local int64_t allocated_here = 0;
// Below this a block does not update the peak, which then lags by less than it.
constexpr size_t kPeakStep = 65536;

// Memory that somebody else owns; the context is the deleter, or null.
class ForeignMemory final : public Allocator {
 public:
  void* allocate(size_t, Device, void**) override { fail("foreign memory cannot be allocated"); }
  void deallocate(void*, size_t, Device, void* context) noexcept override {
    std::unique_ptr<std::function<void()>> deleter(static_cast<std::function<void()>*>(context));
    if (deleter && *deleter) (*deleter)();
  }
};

// The pages of a mapped file.
class MappedFile final : public Allocator {
 public:
  void* allocate(size_t, Device, void**) override { fail("a mapped file cannot be allocated"); }
  void deallocate(void* data, size_t bytes, Device, void*) noexcept override {
    platform::unmap(data, bytes);
  }
};

// Never destroyed, since storages may outlive static objects.
Allocator& foreign_memory() {
  static ForeignMemory* const it = new ForeignMemory;
  return *it;
}
Allocator& mapped_file() {
  static MappedFile* const it = new MappedFile;
  return *it;
}

int64_t cached_bytes() noexcept {
  int64_t total = pooled_allocator().cached_bytes();
  for (const DeviceType type : device_types())
    if (type != DeviceType::CPU && live_bytes(type) > 0)
      total += allocator_for(type).cached_bytes();
  return total;
}

void raise_peak(int64_t held) noexcept {
  int64_t seen = peak.load(std::memory_order_relaxed);
  while (held > seen && !peak.compare_exchange_weak(seen, held, std::memory_order_relaxed)) {
  }
}

}  // namespace

Storage* Storage::make(void* data, size_t bytes, Device device, Allocator* allocator,
                       void* context) {
  Storage* out = new (Headers::get()) Storage;
  out->device_ = device;
  out->data_ = static_cast<char*>(data);
  out->bytes_ = out->capacity_ = bytes;
  out->allocator_ = allocator;
  out->context_ = context;
  out->inference_ = execution.inference_mode;
  return out;
}

namespace {

// Page-locked memory of the host, for what a copy from a device fills while the host goes on.
class PinnedAllocator final : public Allocator {
 public:
  void* allocate(size_t bytes, Device, void** context) override {
    memory::Budget* const budget = memory::account.budget;
    if (budget != nullptr) budget->charge(bytes);
    *context = budget;
    try {
      return pinned_memory()->allocate(bytes);
    } catch (const std::exception&) {
      if (budget != nullptr) budget->refund(bytes);
      throw;
    }
  }
  void deallocate(void* data, size_t bytes, Device, void* context) noexcept override {
    pinned_memory()->release(data, bytes);
    if (context != nullptr) static_cast<memory::Budget*>(context)->refund(bytes);
  }
};

Allocator& pinned_allocator() {
  static PinnedAllocator& it = *new PinnedAllocator;
  return it;
}

Allocator& allocator_now(size_t bytes, Device device) {
  if (!device_state.copies_wait && device.is_cpu() && bytes > 0 && pinned_memory() != nullptr)
    return pinned_allocator();
  memory::Budget* const budget = memory::account.budget;
  return budget != nullptr ? budget->over(device.type) : allocator_for(device.type);
}

}  // namespace

Storage* Storage::allocate(size_t bytes, Device device) {
  if (memory::live_bound != nullptr) [[unlikely]]
    memory::live_bound->check(bytes);
  Allocator& allocator = allocator_now(bytes, device);
  void* context = nullptr;
  void* data = allocator.allocate(bytes, device, &context);
  Storage* out;
  try {
    out = make(data, bytes, device, &allocator, context);
  } catch (const std::bad_alloc&) {
    allocator.deallocate(data, bytes, device, context);
    throw OutOfMemory("out of memory: could not allocate a storage header");
  } catch (const memory::BudgetExceeded&) {
    allocator.deallocate(data, bytes, device, context);
    throw;
  }
  out->counted_ = true;
  count_live(device.type, static_cast<int64_t>(bytes));
  allocated_here += static_cast<int64_t>(bytes);
  if (bytes >= kPeakStep) raise_peak(held_bytes());
  return out;
}

Storage* Storage::foreign(void* data, size_t bytes, Device device, std::function<void()> deleter) {
  auto context = std::make_unique<std::function<void()>>(std::move(deleter));
  Storage* out = make(data, bytes, device, &foreign_memory(), context.get());
  static_cast<void>(context.release());  // the storage's now
  return out;
}

Storage* Storage::standing_for(std::unique_ptr<const StandIn> what, Device device,
                               Storage& counted) {
  Storage* out = foreign(nullptr, 0, device, {});
  out->counter_ = counted.counter_;
  out->stand_in_ = std::move(what);
  return out;
}

namespace {

struct Releaser {
  void operator()(Storage* storage) const { storage->release(); }
};

// The part of a bundle that a file in it is, whose bytes never change.
void* map_bundled(const std::string& path, Mapping mapping, const io::FilePart& part,
                  size_t bytes) {
  check(mapping != Mapping::Shared, "cannot map '", path,
        "' to write into it: it is in a bundle, which is only read");
  check(bytes <= part.bytes, "cannot map '", path, "': it has ", part.bytes, " bytes, ", bytes,
        " are expected");
  void* data = bytes > 0 ? platform::map_part(part.descriptor, part.at, bytes) : nullptr;
  check(data != nullptr || bytes == 0, "cannot map '", path, "': ", std::strerror(errno));
  return data;
}

void* map_of_system(const std::string& path, Mapping mapping, std::optional<size_t> bytes,
                    size_t& mapped) {
  const platform::FileToMap file(path, mapping == Mapping::Shared, bytes.has_value());
  const size_t there = file.size();
  mapped = bytes.value_or(there);
  if (mapped > there) {
    check(mapping == Mapping::Shared, "cannot map '", path, "': it has ", there, " bytes, ", mapped,
          " are expected");
    file.grow_to(mapped);
  }
  return mapped > 0 ? file.map(mapped) : nullptr;
}

}  // namespace

Storage* Storage::map_file(const std::string& path, Mapping mapping, std::optional<size_t> bytes) {
  std::unique_ptr<Storage, Releaser> out(make(nullptr, 0, {}, &mapped_file(), nullptr));
  size_t mapped = 0;
  if (io::file_system_of(path) != nullptr) {
    const std::optional<io::FilePart> part = io::mappable_part(path);
    check(part.has_value(), "cannot map '", path, "': it is no file of the system's");
    mapped = bytes.value_or(static_cast<size_t>(part->bytes));
    out->data_ = static_cast<char*>(map_bundled(path, mapping, *part, mapped));
  } else {
    out->data_ = static_cast<char*>(map_of_system(path, mapping, bytes, mapped));
  }
  out->bytes_ = out->capacity_ = mapped;
  out->shared_ = mapping == Mapping::Shared;
  // Pages of a private mapping that nobody has written to here show what others write to the file.
  out->hand_over();
  out->read_only_ = mapping == Mapping::ReadOnly;
  return out.release();
}

bool Storage::is_foreign() const noexcept {
  return allocator_ == &foreign_memory() && !is_deferred();
}

bool Storage::is_mapped() const noexcept { return allocator_ == &mapped_file(); }

void Storage::pass_version(uint32_t other) noexcept {
  counter_->store(std::max(version(), other) + 1, std::memory_order_relaxed);
}

namespace {
Tensor bytes_of(Storage& storage, size_t first, size_t count) {
  return view_of(storage, {static_cast<int64_t>(count)}, {1}, static_cast<int64_t>(first),
                 DType::UInt8, "resize");
}
}  // namespace

// Changes memory with `other`.
void Storage::take_memory(Storage& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(capacity_, other.capacity_);
  std::swap(context_, other.context_);
  std::swap(allocator_, other.allocator_);
  std::swap(counted_, other.counted_);
}

void Storage::resize(size_t bytes, const char* op) {
  data();  // what was put off runs now
  check(!read_only_, op, ": this storage is read-only");
  check(!is_mapped(), op, ": this storage is a mapped file, whose size is fixed");
  check(!is_foreign(), op, ": this storage is memory of the host's, whose size is fixed");
  check(!has_other_writers(), op,
        ": this storage is shared with another interpreter, such as a DataLoader's worker, so its "
        "size is fixed; clone the tensor to get memory that can be resized");
  const bool fits = bytes <= capacity_ && !(bytes < bytes_ && sole_owner());
  if (!fits) {
    const std::unique_ptr<Storage, Releaser> fresh(allocate(bytes, device_));
    const size_t kept = std::min(bytes, bytes_);
    if (kept > 0) {
      Tensor to = bytes_of(*fresh, 0, kept);
      copy_plain(to, bytes_of(*this, 0, kept), op);
    }
    take_memory(*fresh);
  }
  const size_t before = std::exchange(bytes_, bytes);
  if (bytes > before) {
    Tensor added = bytes_of(*this, before, bytes - before);
    fill_plain(added, Scalar(0), op);
  }
}

Storage* Storage::deferred(size_t bytes, Device device, DeferredContents& contents) {
  Storage* const out = make(nullptr, bytes, device, &foreign_memory(), nullptr);
  out->capacity_ = 0;
  out->deferred_ = &contents;
  return out;
}

// A `fresh` that is itself deferred has no memory to give: it hands over whom to ask before the
// contents are used, and the memory stays. Without one, nobody is to be asked any more.
void Storage::settle(Storage* fresh) noexcept {
  deferred_ = fresh == nullptr ? nullptr : std::exchange(fresh->deferred_, nullptr);
  if (fresh == nullptr) return;
  if (deferred_ == nullptr) take_memory(*fresh);
  fresh->release();
}

void Storage::destroy() noexcept {
  if (deferred_ != nullptr) deferred_->drop(*this);
  if (counted_) count_live(device_.type, -static_cast<int64_t>(capacity_));
  allocator_->deallocate(data_, capacity_, device_, context_);
  this->~Storage();
  Headers::put(this);
}

int64_t live_bytes(DeviceType type) noexcept {
  const int i = static_cast<int>(type);
  std::lock_guard lock(counters_mutex);
  int64_t total = ended[i].load(std::memory_order_relaxed);
  for (const Counters* c = all_counters; c; c = c->next)
    total += c->live[i].load(std::memory_order_relaxed);
  return total;
}

int64_t live_bytes() noexcept {
  int64_t total = 0;
  for (const DeviceType type : device_types()) total += live_bytes(type);
  return total;
}

int64_t held_bytes() noexcept { return live_bytes() + cached_bytes(); }

int64_t peak_held_bytes() noexcept {
  raise_peak(held_bytes());
  return peak.load(std::memory_order_relaxed);
}

void reset_peak_bytes() noexcept { peak.store(held_bytes(), std::memory_order_relaxed); }

int64_t thread_allocated_bytes() noexcept { return allocated_here; }

}  // namespace moonlet

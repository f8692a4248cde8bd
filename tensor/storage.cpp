// tensor/storage.cpp: making and ending storages (from an allocator, foreign memory or a mapped
// file), and the counters of bytes the memory rules are built on.
#include "tensor/storage.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>

#include "tensor/error.h"
#include "tensor/memory/free_list.h"

namespace moonlet {

namespace {

using Headers = memory::FreeListOf<Storage>;

// Live bytes are counted per thread, without locked instructions, and summed when asked for; a
// thread's part may be negative, and is kept in `ended` when the thread is gone.
struct Counters {
  std::atomic<int64_t> live[kDeviceTypeCount];
  Counters* next;
  bool listed, over;
};
constinit thread_local Counters counters = {};
constinit std::atomic<int64_t> ended[kDeviceTypeCount] = {};
constinit std::mutex counters_mutex;
constinit Counters* all_counters = nullptr;

struct CountersGuard {
  ~CountersGuard() {
    std::lock_guard lock(counters_mutex);
    Counters** at = &all_counters;
    while (*at != &counters) at = &(*at)->next;
    *at = counters.next;
    counters.over = true;
    for (int i = 0; i < kDeviceTypeCount; ++i) ended[i] += counters.live[i].exchange(0);
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
    if (bytes > 0) munmap(data, bytes);
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
  if (live_bytes(DeviceType::CUDA) > 0) total += allocator_for(DeviceType::CUDA).cached_bytes();
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
  out->bytes_ = bytes;
  out->allocator_ = allocator;
  out->context_ = context;
  return out;
}

Storage* Storage::allocate(size_t bytes, Device device) {
  Allocator& allocator = allocator_for(device.type);
  void* context = nullptr;
  void* data = allocator.allocate(bytes, device, &context);
  Storage* out;
  try {
    out = make(data, bytes, device, &allocator, context);
  } catch (const std::bad_alloc&) {
    allocator.deallocate(data, bytes, device, context);
    throw OutOfMemory("out of memory: could not allocate a storage header");
  }
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

Storage* Storage::map_file(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  check(file >= 0, "cannot open '", path, "': ", std::strerror(errno));
  struct stat info;
  const bool regular = fstat(file, &info) == 0 && S_ISREG(info.st_mode);
  const size_t bytes = regular ? static_cast<size_t>(info.st_size) : 0;
  void* data = nullptr;
  if (bytes > 0) data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
  const int problem = errno;
  close(file);
  check(regular, "cannot map '", path, "': it is not a regular file");
  check(data != MAP_FAILED, "cannot map '", path, "': ", std::strerror(problem));
  return make(data, bytes, {}, &mapped_file(), nullptr);
}

void Storage::destroy() noexcept {
  if (allocator_ != &foreign_memory() && allocator_ != &mapped_file())
    count_live(device_.type, -static_cast<int64_t>(bytes_));
  allocator_->deallocate(data_, bytes_, device_, context_);
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

int64_t live_bytes() noexcept { return live_bytes(DeviceType::CPU) + live_bytes(DeviceType::CUDA); }

int64_t held_bytes() noexcept { return live_bytes() + cached_bytes(); }

int64_t peak_held_bytes() noexcept {
  raise_peak(held_bytes());
  return peak.load(std::memory_order_relaxed);
}

void reset_peak_bytes() noexcept { peak.store(held_bytes(), std::memory_order_relaxed); }

int64_t thread_allocated_bytes() noexcept { return allocated_here; }

}  // namespace moonlet

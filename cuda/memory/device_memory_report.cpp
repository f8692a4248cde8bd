// cuda/memory/device_memory_report.cpp: what the allocator of a device tells: counters, its
// segments and blocks, and the trace of its events.
#include <algorithm>
#include <chrono>

#include "cuda/memory/device_memory.h"

namespace moonlet::cuda {
namespace {

uint64_t number(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }
int64_t count(size_t bytes) { return static_cast<int64_t>(bytes); }

int64_t now_us() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

}  // namespace

MemoryStatistics DeviceMemory::statistics() const {
  const std::lock_guard lock(mutex_);
  MemoryStatistics out = counters_.named();
  const size_t most = memory_settings().max_split_size;
  out.emplace_back("max_split_size", most == ~size_t{0} ? -1 : count(most));
  return out;
}

int64_t DeviceMemory::cached_bytes() const noexcept {
  const std::lock_guard lock(mutex_);
  return counters_.reserved_bytes.all.current - counters_.allocated_bytes.all.current;
}

void DeviceMemory::reset_peaks() {
  const std::lock_guard lock(mutex_);
  counters_.reset_peaks();
}

void DeviceMemory::reset_accumulated() {
  const std::lock_guard lock(mutex_);
  counters_.reset_accumulated();
}

void DeviceMemory::set_limit(double fraction, size_t bytes) {
  const std::lock_guard lock(mutex_);
  fraction_ = fraction;
  limit_ = fraction < 1 ? bytes : ~size_t{0};
}

double DeviceMemory::fraction() const {
  const std::lock_guard lock(mutex_);
  return fraction_;
}

void DeviceMemory::record_history(const MemoryHistory& history) {
  const std::lock_guard lock(mutex_);
  history_ = history;
  if (history.clear) trace_.clear();
  while (count(trace_.size()) > history_.max_entries) trace_.pop_front();
}

MemoryPosition DeviceMemory::position_of(bool wanted) const {
  return wanted && history_.where ? history_.where() : nullptr;
}

// Freeing must not fail: an event that there is no memory for is left out.
void DeviceMemory::note(const char* action, uint64_t address, size_t size, cudaStream_t stream,
                        const MemoryPosition& position) {
  if (!history_.events) return;
  try {
    trace_.push_back({action, address, count(size), number(stream), now_us(), position});
  } catch (const std::bad_alloc&) {
    return;
  }
  while (count(trace_.size()) > history_.max_entries) trace_.pop_front();
}

namespace {

const char* state_of(const DeviceMemory::Block& block) {
  if (block.allocated) return "active_allocated";
  return block.events > 0 ? "active_pending_free" : "inactive";
}

MemorySegment described(int device, const DeviceMemory::Block* first) {
  MemorySegment out;
  out.device = device;
  out.address = number(first->data);
  out.stream = number(first->stream);
  out.small = first->small;
  for (const DeviceMemory::Block* block = first; block; block = block->after) {
    const int64_t size = count(block->size);
    out.total_size += size;
    if (block->allocated) out.allocated_size += size;
    if (!block->is_free()) out.active_size += size;
    out.requested_size += count(block->requested);
    out.blocks.push_back(
        {number(block->data), size, count(block->requested), state_of(*block), block->position});
  }
  return out;
}

}  // namespace

void DeviceMemory::add_to(MemorySnapshot& snapshot) {
  const std::lock_guard lock(mutex_);
  note("snapshot", 0, static_cast<size_t>(counters_.reserved_bytes.all.current), nullptr, nullptr);
  std::vector<const Block*> firsts;
  for (const FreeBlocks* blocks : {&small_, &large_})
    for (const Block* block : *blocks)
      if (!block->before) firsts.push_back(block);
  for (const auto& [data, block] : active_)
    if (!block->before) firsts.push_back(block);
  std::sort(firsts.begin(), firsts.end(),
            [](const Block* a, const Block* b) { return std::less<>()(a->data, b->data); });
  for (const Block* first : firsts) snapshot.segments.push_back(described(device_, first));
  snapshot.trace.resize(static_cast<size_t>(device_) + 1);
  snapshot.trace.back().assign(trace_.begin(), trace_.end());
}

}  // namespace moonlet::cuda

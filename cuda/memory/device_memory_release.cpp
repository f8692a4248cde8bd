// cuda/memory/device_memory_release.cpp: events of other streams that blocks wait for, giving
// segments back to the device, and what the allocator says when none is left.
#include <algorithm>

#include "cuda/memory/device_memory.h"
#include "cuda/memory/poison.h"
#include "cuda/runtime/capture.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/quiet_guard.h"

namespace moonlet::cuda {
namespace {

constexpr size_t kHolders = 5;  // named in an error

uint64_t number(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }
int64_t count(size_t bytes) { return static_cast<int64_t>(bytes); }

}  // namespace

cudaEvent_t DeviceMemory::new_event() {
  cudaEvent_t event = nullptr;
  if (!events_.empty()) {
    event = events_.back();
    events_.pop_back();
  } else if (cudaEventCreateWithFlags(&event, cudaEventDisableTiming) != cudaSuccess) {
    cudaGetLastError();
    event = nullptr;
  }
  return event;
}

// Notes in each stream that uses the block that it has come this far. True when there is nothing to
// wait for: without an event the stream is waited for at once.
bool DeviceMemory::note_events(Block* block) {
  const QuietDeviceGuard here(device_);
  for (cudaStream_t stream : block->uses) {
    cudaEvent_t event = new_event();
    if (event && cudaEventRecord(event, stream) == cudaSuccess) {
      waiting_[stream].emplace_back(event, block);
      ++block->events;
      continue;
    }
    if (event) events_.push_back(event);
    if (cudaStreamSynchronize(stream) != cudaSuccess) cudaGetLastError();
  }
  block->uses.clear();
  return block->events == 0;
}

// Whether a stream that uses the block is being captured: an event there would be a part of the
// graph, and the work before it is not under way.
bool DeviceMemory::is_put_off(const Block& block) const {
  return std::any_of(block.uses.begin(), block.uses.end(), is_captured);
}

// Notes the events of blocks whose captures have ended.
void DeviceMemory::note_put_off() {
  std::vector<Block*> all;
  all.swap(put_off_);
  for (Block* block : all)
    if (is_put_off(*block))
      put_off_.push_back(block);
    else if (note_events(block))
      give_back(block);
}

void DeviceMemory::passed(const Waiting& waiting) {
  events_.push_back(waiting.first);
  if (--waiting.second->events == 0) give_back(waiting.second);
}

// Frees the blocks whose events have passed. What fails is not known to have passed.
void DeviceMemory::collect_passed() {
  if (!put_off_.empty()) note_put_off();
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    std::deque<Waiting>& list = it->second;
    while (!list.empty()) {
      if (cudaEventQuery(list.front().first) != cudaSuccess) {
        cudaGetLastError();
        break;
      }
      passed(list.front());
      list.pop_front();
    }
    it = list.empty() ? waiting_.erase(it) : std::next(it);
  }
}

void DeviceMemory::wait_for_events() {
  if (!put_off_.empty()) note_put_off();
  if (waiting_.empty()) return;
  ++counters_.num_sync_all_streams;
  for (const auto& [stream, list] : waiting_)
    if (cudaEventSynchronize(list.back().first) != cudaSuccess) cudaGetLastError();
  collect_passed();
}

void DeviceMemory::hold(cudaStream_t stream, bool holds) {
  const std::lock_guard lock(mutex_);
  if (holds)
    held_.insert(stream);
  else
    held_.erase(stream);
}

// Whether a free block is a whole segment that nothing else wants.
bool DeviceMemory::may_release(const Block& block) const {
  return !block.is_split() && held_.count(block.stream) == 0;
}

// Gives a segment that is one free block back; it stays where the device refuses it.
bool DeviceMemory::release(Block* block) {
  show(block->data, block->size);
  if (cudaFree(block->data) != cudaSuccess) {
    cudaGetLastError();
    hide(block->data, block->size);
    return false;
  }
  note("segment_free", number(block->data), block->size, block->stream, nullptr);
  ++counters_.num_device_free;
  counters_.segment.change(block->small, -1);
  counters_.reserved_bytes.change(block->small, -count(block->size));
  if (block->size >= memory_settings().max_split_size) counters_.oversize_segments.change(-1);
  pool_of(*block).erase(block);
  delete block;
  return true;
}

// Gives the smallest free segment of at least that size back, of any stream.
bool DeviceMemory::release_large_enough(size_t bytes) {
  Block* best = nullptr;
  for (const FreeBlocks* blocks : {&small_, &large_})
    for (Block* block : *blocks)
      if (may_release(*block) && block->size >= bytes && (!best || block->size < best->size))
        best = block;
  return best && release(best);
}

void DeviceMemory::release_all() {
  for (FreeBlocks* blocks : {&small_, &large_})
    for (auto it = blocks->begin(); it != blocks->end();) {
      Block* block = *it++;
      if (may_release(*block)) release(block);
    }
}

// Gives segments that have not been used for longer than the others back until the share of the
// device's memory that the settings allow is not passed.
void DeviceMemory::collect_garbage(size_t size) {
  size_t free_bytes = 0, total = 0;
  if (cudaMemGetInfo(&free_bytes, &total) != cudaSuccess) return void(cudaGetLastError());
  const auto allowed = static_cast<size_t>(memory_settings().garbage_collection_threshold *
                                           static_cast<double>(std::min(limit_, total)));
  size_t reserved = static_cast<size_t>(counters_.reserved_bytes.all.current) + size;
  std::vector<Block*> idle;
  for (Block* block : large_)
    if (may_release(*block)) idle.push_back(block);
  std::sort(idle.begin(), idle.end(),
            [](const Block* a, const Block* b) { return a->freed_at < b->freed_at; });
  for (Block* block : idle) {
    if (reserved <= allowed) return;
    const size_t bytes = block->size;
    if (release(block)) reserved -= bytes;
  }
}

void DeviceMemory::empty_cache() noexcept {
  const std::lock_guard lock(mutex_);
  if (counters_.reserved_bytes.all.current == 0) return;
  const QuietDeviceGuard here(device_);
  if (!here.good()) return;
  wait_for_events();
  release_all();
  for (cudaEvent_t event : events_)
    if (cudaEventDestroy(event) != cudaSuccess) cudaGetLastError();
  events_.clear();
}

// "cuda: out of memory: 4096 bytes wanted on cuda:0, 0 of 67108864 free; ..."
void DeviceMemory::out_of_memory(size_t bytes, cudaStream_t stream) {
  size_t free_bytes = 0, total = 0;
  if (cudaMemGetInfo(&free_bytes, &total) != cudaSuccess) cudaGetLastError();
  ++counters_.num_ooms;
  note("oom", free_bytes, bytes, stream, position_of(history_.positions));
  const int64_t held = counters_.active_bytes.all.current;
  std::string message = text("cuda: out of memory: ", bytes, " bytes expected on cuda:", device_,
                             ", ", free_bytes, " of ", total, " free; ", held, " held by tensors, ",
                             counters_.reserved_bytes.all.current - held, " cached");
  if (limit_ <= total) message += text(", at most ", limit_, " allowed in this process");
  std::vector<const Block*> holders;
  for (const auto& [data, block] : active_) holders.push_back(block);
  const size_t shown = std::min(kHolders, holders.size());
  std::partial_sort(holders.begin(), holders.begin() + static_cast<long>(shown), holders.end(),
                    [](const Block* a, const Block* b) { return a->size > b->size; });
  for (size_t i = 0; i < shown; ++i) {
    message += text(i == 0 ? "; the largest: " : ", ", holders[i]->size);
    if (holders[i]->position && !holders[i]->position->empty()) {
      const MemoryFrame& frame = holders[i]->position->front();
      message += text(" (", frame.filename, ":", frame.line, ")");
    }
  }
  if (shown > 0 && !history_.positions)
    message += "; ml.cuda.record_memory_history() tells the lines that made them";
  throw OutOfMemory(message);
}

}  // namespace moonlet::cuda

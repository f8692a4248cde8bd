// cuda/memory/device_memory.cpp: blocks: finding, cutting, joining, and those that other streams
// use.
#include "cuda/memory/device_memory.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "cuda/memory/poison.h"
#include "cuda/runtime/device.h"

namespace moonlet::cuda {
namespace {

constexpr size_t kRound = 512;
constexpr size_t kSmall = kMiB;  // blocks up to this come from small segments
constexpr size_t kSmallSegment = 2 * kMiB;
constexpr size_t kLargeSegment = 20 * kMiB;
constexpr size_t kLeastOwnSegment = 10 * kMiB;  // from here on segments hold one request
constexpr size_t kSegmentRound = 2 * kMiB;

size_t rounded(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

size_t segment_size(size_t size) {
  if (size <= kSmall) return kSmallSegment;
  return size < kLeastOwnSegment ? kLargeSegment : rounded(size, kSegmentRound);
}

// The next of `divisions` equal steps between the powers of two around `size`.
size_t next_division(size_t size, size_t divisions) {
  if (std::has_single_bit(size)) return size;
  const size_t floor = std::bit_floor(size), step = floor / divisions;
  return step == 0 ? 2 * floor : rounded(size, step);
}

uint64_t number(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }
int64_t count(size_t bytes) { return static_cast<int64_t>(bytes); }

}  // namespace

bool DeviceMemory::Order::operator()(const Block* a, const Block* b) const {
  if (a->stream != b->stream) return std::less<>()(a->stream, b->stream);
  if (a->size != b->size) return a->size < b->size;
  return std::less<>()(a->data, b->data);
}

size_t DeviceMemory::rounded_size(size_t bytes) const {
  if (bytes < kRound) return kRound;
  const size_t divisions = memory_settings().divisions_for(bytes);
  if (divisions > 1 && bytes > kRound * divisions) return next_division(bytes, divisions);
  return rounded(bytes, kRound);
}

// The smallest block of the stream that is large enough. What settings keep for large requests, and
// blocks much larger than a request that may not be cut, are left out where it is `restricted`.
DeviceMemory::Block* DeviceMemory::find(size_t size, cudaStream_t stream, bool restricted) {
  FreeBlocks& blocks = size <= kSmall ? small_ : large_;
  Block key;
  key.size = size;
  key.stream = stream;
  const auto found = blocks.lower_bound(&key);
  if (found == blocks.end() || (*found)->stream != stream) return nullptr;
  Block* block = *found;
  const MemorySettings& settings = memory_settings();
  const bool oversize = block->size >= settings.max_split_size;
  if (restricted && oversize && size < settings.max_split_size) return nullptr;
  if (restricted && oversize && block->size - size >= settings.max_non_split_rounding)
    return nullptr;
  blocks.erase(found);
  return block;
}

DeviceMemory::Block* DeviceMemory::new_segment(size_t size, cudaStream_t stream) {
  const size_t bytes = segment_size(size);
  const auto reserved = static_cast<size_t>(counters_.reserved_bytes.all.current);
  if (bytes > limit_ || reserved > limit_ - bytes) return nullptr;
  auto block = std::make_unique<Block>();
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, bytes);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  ensure(error, "cuda");
  hide(data, bytes);
  block->data = static_cast<char*>(data);
  block->size = bytes;
  block->stream = stream;
  block->small = size <= kSmall;
  ++counters_.num_device_alloc;
  counters_.segment.change(block->small, 1);
  counters_.reserved_bytes.change(block->small, count(bytes));
  if (bytes >= memory_settings().max_split_size) counters_.oversize_segments.change(1);
  note("segment_alloc", number(data), bytes, stream, position_of(history_.positions));
  return block.release();
}

// What is tried when the device refuses memory.
DeviceMemory::Block* DeviceMemory::without_cache(size_t size, cudaStream_t stream) {
  ++counters_.num_alloc_retries;
  collect_passed();
  if (Block* block = find(size, stream, false)) return block;
  if (release_large_enough(segment_size(size)))
    if (Block* block = new_segment(size, stream)) return block;
  release_all();
  if (Block* block = new_segment(size, stream)) return block;
  if (counters_.active.all.current == counters_.allocation.all.current) return nullptr;
  // cudaFree has waited for the device, as a rule, so this takes no time. Who catches OutOfMemory
  // collects Lua's garbage and comes back.
  wait_for_events();
  if (Block* block = find(size, stream, false)) return block;
  release_all();
  return new_segment(size, stream);
}

DeviceMemory::Block* DeviceMemory::obtain(size_t size, cudaStream_t stream) {
  collect_passed();
  if (Block* block = find(size, stream, true)) return block;
  if (memory_settings().garbage_collection_threshold > 0) collect_garbage(size);
  if (Block* block = new_segment(size, stream)) return block;
  return without_cache(size, stream);
}

bool DeviceMemory::should_split(const Block& block, size_t size) const {
  const size_t rest = block.size - size;
  if (block.small) return rest >= kRound;
  return size < memory_settings().max_split_size && block.size < memory_settings().max_split_size &&
         rest > kSmall;
}

// Makes a block that is in no pool one in use, of `size` where it is worth cutting.
void DeviceMemory::take(Block* block, size_t size) {
  const bool was_split = block->is_split();
  const size_t whole = block->size;
  if (should_split(*block, size)) {
    Block* tail = new Block;
    tail->data = block->data + size;
    tail->size = whole - size;
    tail->stream = block->stream;
    tail->before = block;
    tail->after = block->after;
    tail->small = block->small;
    tail->freed_at = block->freed_at;
    if (block->after) block->after->before = tail;
    block->after = tail;
    block->size = size;
    pool_of(*tail).insert(tail);
    if (!was_split) counters_.inactive_split.change(block->small, 1);
    counters_.inactive_split_bytes.change(block->small,
                                          was_split ? -count(size) : count(tail->size));
  } else if (was_split) {
    counters_.inactive_split.change(block->small, -1);
    counters_.inactive_split_bytes.change(block->small, -count(whole));
  }
  block->allocated = true;
}

DeviceMemory::Block* DeviceMemory::allocate(size_t bytes, cudaStream_t stream) {
  const size_t size = rounded_size(bytes);
  const std::lock_guard lock(mutex_);
  const MemoryPosition position = position_of(history_.positions);
  Block* block = obtain(size, stream);
  if (!block) out_of_memory(bytes, stream);
  take(block, size);
  ++allocations_;
  block->requested = bytes;
  block->position = position;
  active_.emplace(block->data, block);
  counters_.allocation.change(block->small, 1);
  counters_.active.change(block->small, 1);
  counters_.allocated_bytes.change(block->small, count(block->size));
  counters_.active_bytes.change(block->small, count(block->size));
  counters_.requested_bytes.change(block->small, count(bytes));
  if (block->size >= memory_settings().max_split_size) counters_.oversize_allocations.change(1);
  note("alloc", number(block->data), block->size, stream, position);
  // Kernels read the 16 bytes whole in which the last element lies.
  show(block->data, (bytes + 15) / 16 * 16);
  return block;
}

// Makes `neighbour` part of `block` where it is free; returns its bytes.
size_t DeviceMemory::join(Block* block, Block* neighbour) {
  if (!neighbour || !neighbour->is_free()) return 0;
  pool_of(*neighbour).erase(neighbour);
  const size_t bytes = neighbour->size;
  block->size += bytes;
  if (neighbour == block->before) {
    block->data = neighbour->data;
    block->before = neighbour->before;
    if (block->before) block->before->after = block;
  } else {
    block->after = neighbour->after;
    if (block->after) block->after->before = block;
  }
  delete neighbour;
  return bytes;
}

// Makes a block that nothing uses any more free.
void DeviceMemory::give_back(Block* block) {
  const size_t size = block->size;
  note("free_completed", number(block->data), size, block->stream, block->position);
  active_.erase(block->data);
  counters_.active.change(block->small, -1);
  counters_.active_bytes.change(block->small, -count(size));
  counters_.requested_bytes.change(block->small, -count(block->requested));
  block->requested = 0;
  block->position = nullptr;
  block->freed_at = allocations_;
  int64_t splits = 0, split_bytes = 0;
  for (Block* neighbour : {block->before, block->after}) {
    const size_t joined = join(block, neighbour);
    if (joined == 0) continue;
    --splits;
    split_bytes -= count(joined);
  }
  if (block->is_split()) {
    ++splits;
    split_bytes += count(block->size);
  }
  if (splits != 0) counters_.inactive_split.change(block->small, splits);
  if (split_bytes != 0) counters_.inactive_split_bytes.change(block->small, split_bytes);
  pool_of(*block).insert(block);
}

void DeviceMemory::deallocate(Block* block) noexcept {
  const std::lock_guard lock(mutex_);
  note("free_requested", number(block->data), block->size, block->stream,
       history_.event_positions ? position_of(true) : block->position);
  block->allocated = false;
  counters_.allocation.change(block->small, -1);
  counters_.allocated_bytes.change(block->small, -count(block->size));
  if (block->size >= memory_settings().max_split_size) counters_.oversize_allocations.change(-1);
  if (held_.count(block->stream) == 0) hide(block->data, block->size);
  if (is_put_off(*block)) return put_off_.push_back(block);
  if (block->uses.empty() || note_events(block)) give_back(block);
}

void DeviceMemory::record_stream(const void* data, cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  const auto found = active_.find(data);
  if (found == active_.end() || !found->second->allocated) return;
  Block& block = *found->second;
  if (stream == block.stream) return;
  if (std::find(block.uses.begin(), block.uses.end(), stream) == block.uses.end())
    block.uses.push_back(stream);
}

}  // namespace moonlet::cuda

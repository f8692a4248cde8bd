// cuda/allocator.cpp: segments, blocks and the free lists.
#include "cuda/allocator.h"

#include <algorithm>

#include "cuda/capability.h"
#include "cuda/device.h"
#include "cuda/pinned.h"
#include "tensor/backend.h"

// On the emulated device AddressSanitizer sees what is read of free blocks and behind the end of
// those in use.
#if defined(MOONLET_CUDA_EMULATED) && defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>

#include "queue.h"
// Where streams are queues, work that was issued before a block was freed may run after it.
#define MOONLET_HIDE(data, bytes)                                                     \
  (::moonlet::emulated::runs_later() ? static_cast<void>((void)(data), (void)(bytes)) \
                                     : ASAN_POISON_MEMORY_REGION(data, bytes))
#define MOONLET_SHOW(data, bytes) ASAN_UNPOISON_MEMORY_REGION(data, bytes)
#else
#define MOONLET_HIDE(data, bytes) ((void)(data), (void)(bytes))
#define MOONLET_SHOW(data, bytes) ((void)(data), (void)(bytes))
#endif

namespace moonlet::cuda {

namespace {

constexpr size_t kRound = 512;
constexpr size_t kSmall = size_t{1} << 20;  // blocks up to this come from small segments
constexpr size_t kSmallSegment = size_t{2} << 20;
constexpr size_t kLargeSegment = size_t{20} << 20;
constexpr size_t kSegmentRound = size_t{2} << 20;

size_t rounded(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

size_t segment_size(size_t size) {
  if (size <= kSmall) return kSmallSegment;
  return size < kLargeSegment / 2 ? kLargeSegment : rounded(size, kSegmentRound);
}

[[noreturn]] void out_of_memory(size_t bytes, Device device) {
  size_t free_bytes = 0, total = 0;
  cudaMemGetInfo(&free_bytes, &total);
  throw OutOfMemory(text("cuda: out of memory: ", bytes, " bytes wanted on ", device, ", ",
                         free_bytes, " of ", total, " free"));
}

}  // namespace

bool CachingAllocator::Order::operator()(const Block* a, const Block* b) const {
  if (a->stream != b->stream) return a->stream < b->stream;
  if (a->size != b->size) return a->size < b->size;
  return a->data < b->data;
}

CachingAllocator::Block* CachingAllocator::find(Pool& pool, size_t size, cudaStream_t stream) {
  FreeBlocks& blocks = size <= kSmall ? pool.small : pool.large;
  Block key{nullptr, size, stream};
  const auto found = blocks.lower_bound(&key);
  if (found == blocks.end() || (*found)->stream != stream) return nullptr;
  Block* block = *found;
  blocks.erase(found);
  return block;
}

CachingAllocator::Block* CachingAllocator::new_segment(Pool& pool, int device, size_t size,
                                                       cudaStream_t stream) {
  const size_t bytes = segment_size(size);
  void* data = nullptr;
  cudaError_t error = cudaMalloc(&data, bytes);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    take_finished(pool, true);
    release_free_segments(pool, device);
    error = cudaMalloc(&data, bytes);
  }
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  ensure(error, "cuda");
  MOONLET_HIDE(data, bytes);
  Block* block = new Block{static_cast<char*>(data), bytes, stream};
  block->small = size <= kSmall;
  pool.reserved += static_cast<int64_t>(bytes);
  return block;
}

// Cuts what `size` leaves of the block off, where it is worth keeping.
void CachingAllocator::split(Pool& pool, Block* block, size_t size) {
  const size_t rest = block->size - size;
  if (block->small ? rest < kRound : rest <= kSmall) return;
  Block* tail =
      new Block{block->data + size, rest, block->stream, block, block->after, true, block->small};
  if (block->after) block->after->before = tail;
  block->after = tail;
  block->size = size;
  (block->small ? pool.small : pool.large).insert(tail);
}

void* CachingAllocator::allocate(size_t bytes, Device device, void** context) {
  require_device(device, "cuda");
  check(device.index < kMaxDevices, "cuda: there is no device ", device);
  require_code_for(device.index);
  if (bytes > (size_t{1} << 62)) out_of_memory(bytes, device);
  const size_t size = rounded(std::max<size_t>(bytes, 1), kRound);
  const DeviceGuard guard(device.index, "cuda");
  const cudaStream_t stream = current_stream(device.index);
  const std::lock_guard lock(mutex_);
  Pool& pool = pools_[static_cast<size_t>(device.index)];
  if (!pool.waiting.empty()) take_finished(pool, false);
  Block* block = find(pool, size, stream);
  if (!block) block = new_segment(pool, device.index, size, stream);
  if (!block) out_of_memory(bytes, device);
  block->free = false;
  split(pool, block, size);
  pool.allocated += static_cast<int64_t>(block->size);
  pool.used.emplace(block->data, block);
  *context = block;
  MOONLET_SHOW(block->data, bytes);
  return block->data;
}

// Makes `neighbour`, which is free, part of `block`.
void CachingAllocator::join(FreeBlocks& blocks, Block* block, Block* neighbour) {
  blocks.erase(neighbour);
  block->size += neighbour->size;
  if (neighbour == block->before) {
    block->data = neighbour->data;
    block->before = neighbour->before;
    if (block->before) block->before->after = block;
  } else {
    block->after = neighbour->after;
    if (block->after) block->after->before = block;
  }
  delete neighbour;
}

void CachingAllocator::deallocate(void*, size_t, Device device, void* context) noexcept {
  if (!context) return;
  const std::lock_guard lock(mutex_);
  Pool& pool = pools_[static_cast<size_t>(device.index)];
  Block* block = static_cast<Block*>(context);
  MOONLET_HIDE(block->data, block->size);
  pool.allocated -= static_cast<int64_t>(block->size);
  pool.used.erase(block->data);
  if (block->users.empty() || !note_users(pool, device.index, block)) add_free(pool, block);
}

void CachingAllocator::record_stream(const void* data, int device, cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  Pool& pool = pools_[static_cast<size_t>(device)];
  const auto found = pool.used.find(data);
  if (found == pool.used.end() || found->second->stream == stream) return;
  std::vector<cudaStream_t>& users = found->second->users;
  if (std::find(users.begin(), users.end(), stream) == users.end()) users.push_back(stream);
}

// Puts the block aside until the streams that use it have done what they have now; false where
// there is nothing to wait for, as on a device that was lost. Where no event can be had, it waits
// here.
bool CachingAllocator::note_users(Pool& pool, int device, Block* block) noexcept {
  int before = 0;
  if (cudaGetDevice(&before) != cudaSuccess || cudaSetDevice(device) != cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  bool noted = false;
  try {
    pool.waiting.push_back({block, {}});
    std::vector<cudaEvent_t>& events = pool.waiting.back().events;
    events.reserve(block->users.size());
    for (cudaStream_t user : block->users) {
      cudaEvent_t event = nullptr;
      if (cudaEventCreateWithFlags(&event, cudaEventDisableTiming) != cudaSuccess) {
        cudaStreamSynchronize(user);
        cudaGetLastError();
        continue;
      }
      events.push_back(event);
      if (cudaEventRecord(event, user) != cudaSuccess) cudaGetLastError();
    }
    noted = true;
  } catch (const std::bad_alloc&) {
    if (!pool.waiting.empty() && pool.waiting.back().block == block) pool.waiting.pop_back();
    for (cudaStream_t user : block->users) cudaStreamSynchronize(user);
    cudaGetLastError();
  }
  block->users.clear();
  if (cudaSetDevice(before) != cudaSuccess) cudaGetLastError();
  return noted;
}

// Makes the blocks free whose events have happened; with `wait` all of them.
void CachingAllocator::take_finished(Pool& pool, bool wait) noexcept {
  std::erase_if(pool.waiting, [&](Waiting& waiting) {
    while (!waiting.events.empty()) {
      cudaEvent_t event = waiting.events.back();
      const cudaError_t state = wait ? cudaEventSynchronize(event) : cudaEventQuery(event);
      if (state == cudaErrorNotReady) return false;
      // An error is that of a kernel, which the next op will meet too.
      if (cudaEventDestroy(event) != cudaSuccess) cudaGetLastError();
      waiting.events.pop_back();
    }
    add_free(pool, waiting.block);
    return true;
  });
}

void CachingAllocator::add_free(Pool& pool, Block* block) {
  block->users.clear();
  FreeBlocks& blocks = block->small ? pool.small : pool.large;
  if (block->before && block->before->free) join(blocks, block, block->before);
  if (block->after && block->after->free) join(blocks, block, block->after);
  block->free = true;
  blocks.insert(block);
}

// Gives whole free segments back; cudaFree waits for the work that may still use them.
void CachingAllocator::release_free_segments(Pool& pool, int device) noexcept {
  int before = 0;
  if (cudaGetDevice(&before) != cudaSuccess || cudaSetDevice(device) != cudaSuccess) return;
  for (FreeBlocks* blocks : {&pool.small, &pool.large}) {
    for (auto it = blocks->begin(); it != blocks->end();) {
      Block* block = *it;
      if (block->before || block->after) {
        ++it;
        continue;
      }
      it = blocks->erase(it);
      MOONLET_SHOW(block->data, block->size);
      cudaFree(block->data);
      pool.reserved -= static_cast<int64_t>(block->size);
      delete block;
    }
  }
  cudaSetDevice(before);
}

void CachingAllocator::empty_cache() noexcept {
  empty_pinned_cache();
  const std::lock_guard lock(mutex_);
  for (int device = 0; device < kMaxDevices; ++device) {
    Pool& pool = pools_[static_cast<size_t>(device)];
    take_finished(pool, true);
    if (pool.reserved > 0) release_free_segments(pool, device);
  }
}

int64_t CachingAllocator::cached_bytes() const noexcept {
  const std::lock_guard lock(mutex_);
  int64_t total = 0;
  for (const Pool& pool : pools_) total += pool.reserved - pool.allocated;
  return total;
}

int64_t CachingAllocator::allocated_bytes(int device) const noexcept {
  const std::lock_guard lock(mutex_);
  return pools_[static_cast<size_t>(device)].allocated;
}

int64_t CachingAllocator::reserved_bytes(int device) const noexcept {
  const std::lock_guard lock(mutex_);
  return pools_[static_cast<size_t>(device)].reserved;
}

CachingAllocator& caching_allocator() {
  static CachingAllocator& allocator = *new CachingAllocator;
  return allocator;
}

}  // namespace moonlet::cuda

// cuda/memory/pinned.cpp: page-locked blocks by their size, a power of two, and those that are
// free.
#include "cuda/memory/pinned.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "cuda/runtime/capture.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/quiet_guard.h"
#include "cuda/runtime/streams.h"

namespace moonlet::cuda {
namespace {

constexpr size_t kLeast = 4096;                  // a page
constexpr size_t kMostKept = size_t{256} << 20;  // bytes of free blocks

// A block, and the streams with copies that nobody has waited for: their events when it has been
// given back. What is in `streams` then is still to be recorded.
struct Pinned {
  size_t size = 0;
  std::vector<DeviceStream> streams;
  std::vector<cudaEvent_t> events;  // has room for all streams
};
using PinnedBlocks = std::map<const char*, Pinned>;

// The mutex is held by nothing that waits or calls CUDA: a call that fails for want of memory comes
// back here by `empty_cache`.
struct Blocks {
  std::mutex mutex;
  std::map<size_t, std::vector<void*>> free;
  PinnedBlocks used;
  PinnedBlocks waiting;  // given back while copies were under way
  size_t kept = 0;
};

// Never destroyed, since tensors may outlive everything else.
Blocks& blocks() {
  static Blocks& value = *new Blocks;
  return value;
}

size_t rounded(size_t bytes) { return std::bit_ceil(std::max(bytes, kLeast)); }

void give_to_system(void* data) noexcept {
  if (cudaFreeHost(data) != cudaSuccess) cudaGetLastError();
}

// Keeps the block for reuse, where there is room.
void keep(void* data, size_t size) noexcept {
  try {
    const std::lock_guard<std::mutex> lock(blocks().mutex);
    if (blocks().kept + size <= kMostKept) {
      blocks().free[size].push_back(data);
      blocks().kept += size;
      return;
    }
  } catch (const std::bad_alloc&) {
    // Not kept then.
  }
  give_to_system(data);
}

// Whether an event is recorded in the stream, for the block to wait for; never in a capture, whose
// work is not under way.
bool record_event(DeviceStream stream, Pinned& block) noexcept {
  const cudaStream_t handle = stream_of(stream);
  if (is_captured(handle)) return false;
  const QuietDeviceGuard guard(stream.device);
  cudaEvent_t event = nullptr;
  if (cudaEventCreateWithFlags(&event, cudaEventDisableTiming) != cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  if (cudaEventRecord(event, handle) != cudaSuccess) {
    cudaGetLastError();
    if (cudaEventDestroy(event) != cudaSuccess) cudaGetLastError();
    return false;
  }
  block.events.push_back(event);
  return true;
}

bool has_passed(cudaEvent_t event, bool wait) noexcept {
  const cudaError_t error = wait ? cudaEventSynchronize(event) : cudaEventQuery(event);
  if (error != cudaSuccess) cudaGetLastError();
  if (error != cudaSuccess) return false;
  if (cudaEventDestroy(event) != cudaSuccess) cudaGetLastError();
  return true;
}

// Whether the copies of a block are done, now or after a wait. Of those whose event fails that is
// not known: it is asked again at the next time.
bool has_finished(Pinned& block, bool wait) noexcept {
  std::erase_if(block.streams, [&](DeviceStream stream) {
    if (record_event(stream, block)) return true;
    if (!wait || is_captured(stream_of(stream))) return false;
    const QuietDeviceGuard guard(stream.device);
    const bool done = cudaStreamSynchronize(stream_of(stream)) == cudaSuccess;
    if (!done) cudaGetLastError();
    return done;
  });
  std::erase_if(block.events, [wait](cudaEvent_t event) { return has_passed(event, wait); });
  return block.streams.empty() && block.events.empty();
}

// Makes the blocks free whose copies are done; with `wait` all of them.
void take_finished(bool wait) noexcept {
  PinnedBlocks all;
  {
    const std::lock_guard<std::mutex> lock(blocks().mutex);
    all.swap(blocks().waiting);
  }
  for (auto it = all.begin(); it != all.end();) {
    const auto next = std::next(it);
    if (has_finished(it->second, wait)) {
      keep(const_cast<char*>(it->first), it->second.size);
      all.erase(it);
    }
    it = next;
  }
  const std::lock_guard<std::mutex> lock(blocks().mutex);
  blocks().waiting.merge(all);
}

bool is_waiting() {
  const std::lock_guard<std::mutex> lock(blocks().mutex);
  return !blocks().waiting.empty();
}

void* take_kept(size_t size) {
  if (is_waiting()) take_finished(false);
  const std::lock_guard<std::mutex> lock(blocks().mutex);
  const auto found = blocks().free.find(size);
  if (found == blocks().free.end() || found->second.empty()) return nullptr;
  void* block = found->second.back();
  found->second.pop_back();
  blocks().kept -= size;
  return block;
}

}  // namespace

void* pin_memory(size_t bytes) {
  constexpr size_t kMost = size_t{1} << 62;
  if (bytes > kMost) throw OutOfMemory("pin_memory: out of memory");
  const size_t size = rounded(bytes);
  void* made = take_kept(size);
  if (made == nullptr) {
    cudaError_t error = cudaHostAlloc(&made, size, cudaHostAllocPortable);
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      empty_pinned_cache();
      error = cudaHostAlloc(&made, size, cudaHostAllocPortable);
    }
    ensure(error, "pin_memory");
  }
  try {
    const std::lock_guard<std::mutex> lock(blocks().mutex);
    blocks().used[static_cast<char*>(made)].size = size;
  } catch (const std::bad_alloc&) {
    keep(made, size);
    throw OutOfMemory("pin_memory: out of memory");
  }
  return made;
}

void unpin_memory(void* data, size_t bytes) noexcept {
  PinnedBlocks::node_type node;
  {
    const std::lock_guard<std::mutex> lock(blocks().mutex);
    node = blocks().used.extract(static_cast<char*>(data));
  }
  if (node.empty()) return keep(data, rounded(bytes));
  if (has_finished(node.mapped(), false)) return keep(data, node.mapped().size);
  const std::lock_guard<std::mutex> lock(blocks().mutex);
  blocks().waiting.insert(std::move(node));
}

void note_pinned_use(const void* data, DeviceStream stream) {
  const std::lock_guard<std::mutex> lock(blocks().mutex);
  const char* const at = static_cast<const char*>(data);
  auto found = blocks().used.upper_bound(at);
  if (found == blocks().used.begin()) return;
  --found;
  Pinned& block = found->second;
  if (static_cast<size_t>(at - found->first) >= block.size) return;
  if (std::find(block.streams.begin(), block.streams.end(), stream) != block.streams.end()) return;
  block.events.reserve(block.streams.size() + 1);
  block.streams.push_back(stream);
}

bool is_pinned(const void* data) noexcept {
  cudaPointerAttributes attributes;
  if (cudaPointerGetAttributes(&attributes, data) != cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  return attributes.type == cudaMemoryTypeHost;
}

void empty_pinned_cache() noexcept {
  take_finished(true);
  std::map<size_t, std::vector<void*>> all;
  {
    const std::lock_guard<std::mutex> lock(blocks().mutex);
    all.swap(blocks().free);
    blocks().kept = 0;
  }
  for (const auto& [size, list] : all)
    for (void* block : list) give_to_system(block);
}

}  // namespace moonlet::cuda

// cuda/memory/pinned.cpp: page-locked blocks by their size, a power of two, and those that are
// free.
#include "cuda/memory/pinned.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/runtime/device.h"
#include "cuda/runtime/streams.h"

namespace moonlet::cuda {
namespace {

constexpr size_t kLeast = 4096;                  // a page
constexpr size_t kMostKept = size_t{256} << 20;  // bytes of free blocks

// A block in use, and the streams with copies that nobody has waited for.
struct Used {
  size_t size;
  std::vector<DeviceStream> streams;
};

// One that was given back while copies were under way.
struct Waiting {
  void* data;
  size_t size;
  std::vector<std::unique_ptr<Event>> events;
};

struct Blocks {
  std::mutex mutex;
  std::map<size_t, std::vector<void*>> free;
  std::map<const char*, Used> used;
  std::vector<Waiting> waiting;
  size_t kept = 0;
};

// Never destroyed, since tensors may outlive everything else.
Blocks& blocks() {
  static Blocks& value = *new Blocks;
  return value;
}

size_t rounded(size_t bytes) { return std::bit_ceil(std::max(bytes, kLeast)); }

// Keeps the block for reuse, where there is room.
void keep(void* data, size_t size) noexcept {
  try {
    if (blocks().kept + size <= kMostKept) {
      blocks().free[size].push_back(data);
      blocks().kept += size;
      return;
    }
  } catch (const std::bad_alloc&) {
    // Not kept then.
  }
  cudaFreeHost(data);
}

// Makes the blocks free whose copies are done; with `wait` all of them. What an event says besides,
// as on a device that was lost, the next op will meet too.
void take_finished(bool wait) noexcept {
  std::erase_if(blocks().waiting, [wait](Waiting& waiting) {
    for (std::unique_ptr<Event>& event : waiting.events) try {
        if (wait)
          event->synchronize();
        else if (!event->query())
          return false;
      } catch (const std::exception&) {
        continue;
      }
    waiting.events.clear();
    keep(waiting.data, waiting.size);
    return true;
  });
}

void* take_kept(size_t size) {
  const std::lock_guard<std::mutex> lock(blocks().mutex);
  if (!blocks().waiting.empty()) take_finished(false);
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
  const std::lock_guard<std::mutex> lock(blocks().mutex);
  try {
    blocks().used.emplace(static_cast<char*>(made), Used{size, {}});
  } catch (const std::bad_alloc&) {
    keep(made, size);
    throw OutOfMemory("pin_memory: out of memory");
  }
  return made;
}

void unpin_memory(void* data, size_t bytes) noexcept {
  const std::lock_guard<std::mutex> lock(blocks().mutex);
  Used used{rounded(bytes), {}};
  if (const auto found = blocks().used.find(static_cast<char*>(data));
      found != blocks().used.end()) {
    used = std::move(found->second);
    blocks().used.erase(found);
  }
  std::vector<std::unique_ptr<Event>> events;
  for (const DeviceStream stream : used.streams) try {
      events.push_back(std::make_unique<Event>());
      events.back()->record(stream);
    } catch (const std::exception&) {
      // No event can be had: the wait is here, unless the device was lost.
      try {
        streams().synchronize(stream);
      } catch (const std::exception&) {
        continue;
      }
    }
  if (!events.empty()) try {
      blocks().waiting.push_back({data, used.size, {}});
      blocks().waiting.back().events = std::move(events);
      return;
    } catch (const std::bad_alloc&) {
      for (const std::unique_ptr<Event>& event : events) try {
          event->synchronize();
        } catch (const std::exception&) {
          continue;
        }
    }
  keep(data, used.size);
}

void note_pinned_use(const void* data, DeviceStream stream) {
  const std::lock_guard<std::mutex> lock(blocks().mutex);
  const char* const at = static_cast<const char*>(data);
  auto found = blocks().used.upper_bound(at);
  if (found == blocks().used.begin()) return;
  --found;
  if (static_cast<size_t>(at - found->first) >= found->second.size) return;
  std::vector<DeviceStream>& streams = found->second.streams;
  if (std::find(streams.begin(), streams.end(), stream) == streams.end()) streams.push_back(stream);
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
  const std::lock_guard<std::mutex> lock(blocks().mutex);
  take_finished(true);
  for (const auto& [size, list] : blocks().free)
    for (void* block : list) cudaFreeHost(block);
  blocks().free.clear();
  blocks().kept = 0;
}

}  // namespace moonlet::cuda

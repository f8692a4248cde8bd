// cuda/pinned.cpp: page-locked blocks by their size, a power of two, and those that are free.
#include "cuda/pinned.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <vector>

#include "cuda/device.h"

namespace moonlet::cuda {
namespace {

constexpr size_t kLeast = 4096;                  // a page
constexpr size_t kMostKept = size_t{256} << 20;  // bytes of free blocks

struct Blocks {
  std::mutex mutex;
  std::map<size_t, std::vector<void*>> free;
  size_t kept = 0;
};

// Never destroyed, since tensors may outlive everything else.
Blocks& blocks() {
  static Blocks& value = *new Blocks;
  return value;
}

size_t rounded(size_t bytes) { return std::bit_ceil(std::max(bytes, kLeast)); }

void* take_kept(size_t size) {
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
  if (void* kept = take_kept(size)) return kept;
  void* made = nullptr;
  cudaError_t error = cudaHostAlloc(&made, size, cudaHostAllocPortable);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    empty_pinned_cache();
    error = cudaHostAlloc(&made, size, cudaHostAllocPortable);
  }
  ensure(error, "pin_memory");
  return made;
}

void unpin_memory(void* data, size_t bytes) noexcept {
  const size_t size = rounded(bytes);
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
  cudaFreeHost(data);
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
  for (const auto& [size, list] : blocks().free)
    for (void* block : list) cudaFreeHost(block);
  blocks().free.clear();
  blocks().kept = 0;
}

}  // namespace moonlet::cuda

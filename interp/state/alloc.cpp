// interp/state/alloc.cpp: free lists carved out of 32 KiB chunks; chunks go back when the state
// closes.
#include "interp/state/alloc.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace moonlet {

BlockAllocator::~BlockAllocator() {
  while (chunks_ != nullptr) {
    Chunk* next = chunks_->next;
    std::free(chunks_);
    chunks_ = next;
  }
}

void* BlockAllocator::refill(size_t index) noexcept {
  const size_t size = (index + 1) * kStep;
  if (static_cast<size_t>(fresh_end_ - fresh_) < size) {
    auto* chunk = static_cast<Chunk*>(std::malloc(kChunkBytes));
    if (chunk == nullptr) return nullptr;
    chunk->next = chunks_;
    chunks_ = chunk;
    fresh_ = reinterpret_cast<char*>(chunk + 1);
    fresh_end_ = reinterpret_cast<char*>(chunk) + kChunkBytes;
  }
  void* block = fresh_;
  fresh_ += size;
  return block;
}

inline void* BlockAllocator::take(size_t size) noexcept {
  if (size > kLargest) return std::malloc(size);
  const size_t index = size_class(size);
  FreeBlock* block = free_[index];
  if (block == nullptr) return refill(index);
  free_[index] = block->next;
  return block;
}

inline void BlockAllocator::give(void* block, size_t size) noexcept {
  if (size > kLargest) {
    std::free(block);
    return;
  }
  auto* freed = static_cast<FreeBlock*>(block);
  FreeBlock*& head = free_[size_class(size)];
  freed->next = head;
  head = freed;
}

void* BlockAllocator::resize(void* block, size_t old_size, size_t new_size) noexcept {
  if (old_size > kLargest && new_size > kLargest) {
    void* moved = std::realloc(block, new_size);
    // Lua takes for granted that shrinking a block never fails.
    return moved == nullptr && new_size <= old_size ? block : moved;
  }
  if (old_size <= kLargest && new_size <= kLargest &&
      size_class(old_size) == size_class(new_size)) {
    return block;
  }
  void* moved = take(new_size);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, block, std::min(old_size, new_size));
  give(block, old_size);
  return moved;
}

void BlockAllocator::refuse(const void* block, size_t new_size) noexcept {
  constexpr int64_t kReserve = 64 * 1024;
  refused_ = true;
  const bool again = refused_block_ == block && refused_size_ == new_size;
  refused_block_ = block;
  refused_size_ = new_size;
  if (!again || limit_ != given_limit_) return;
  limit_ = given_limit_ + kReserve;
  exceeded_(data_);
}

bool BlockAllocator::end_refusals() noexcept {
  limit_ = given_limit_;
  refused_size_ = 0;
  return std::exchange(refused_, false);
}

bool BlockAllocator::is_granted(const void* block, size_t more, size_t size) noexcept {
  const int64_t held = total_ == nullptr ? bytes_ : total_->load(std::memory_order_relaxed);
  if (held + static_cast<int64_t>(more) > limit_) [[unlikely]] {
    refuse(block, size);
    return false;
  }
  refused_size_ = 0;
  return true;
}

void* BlockAllocator::allocate(void* self, void* block, size_t old_size, size_t new_size) noexcept {
  auto& blocks = *static_cast<BlockAllocator*>(self);
  if (block == nullptr) {  // then Lua passes the kind of object instead of a size
    if (new_size == 0 || !blocks.is_granted(block, new_size, new_size)) return nullptr;
    void* made = blocks.take(new_size);
    if (made != nullptr) blocks.add(static_cast<int64_t>(new_size));
    return made;
  }
  if (new_size == 0) {
    blocks.give(block, old_size);
    blocks.add(-static_cast<int64_t>(old_size));
    return nullptr;
  }
  if (new_size > old_size && !blocks.is_granted(block, new_size - old_size, new_size))
    return nullptr;
  void* result = blocks.resize(block, old_size, new_size);
  if (result == nullptr) return nullptr;
  blocks.add(static_cast<int64_t>(new_size) - static_cast<int64_t>(old_size));
  return result;
}

}  // namespace moonlet

// interp/c/handles.cpp: the slots behind the handles: an array that grows by chunks and is never
// moved or given back, and a stack of the free ones.
#include "interp/c/handles.h"

#include <bit>
#include <new>

#include "tensor/core/error.h"

namespace moonlet::c {
namespace {

static_assert(sizeof(void*) == 8, "a handle has 32 bits for the slot and 32 for its generation");

struct Slot {
  // The generation in the upper bits, the kind in the lowest byte. A slot whose generations are
  // used up is not used again.
  std::atomic<uint64_t> tag{0};
  void* payload = nullptr;
  std::atomic<uint32_t> next{0};  // on the stack of the free ones: its index, 0 at the end
};

constexpr uint32_t kFirstChunk = 256;  // each chunk has twice as many slots as the one before
constexpr int kChunks = 23;
std::atomic<Slot*> chunks[kChunks];
// Indices begin with 1, so that no handle is null.
std::atomic<uint32_t> used{0};
// The index on top, and above it a count of changes, against another thread's pop and push between
// a look and an exchange.
std::atomic<uint64_t> free_top{0};

struct Position {
  int chunk;
  uint32_t offset;
};
Position position_of(uint32_t index) {
  const uint32_t shifted = index - 1 + kFirstChunk;
  const int chunk = std::bit_width(shifted) - std::bit_width(kFirstChunk);
  return {chunk, shifted - (kFirstChunk << chunk)};
}

Slot* slot_at(uint32_t index) noexcept {
  if (index == 0) return nullptr;
  const Position at = position_of(index);
  if (at.chunk >= kChunks) return nullptr;
  Slot* chunk = chunks[at.chunk].load(std::memory_order_acquire);
  return chunk == nullptr ? nullptr : chunk + at.offset;
}

// A slot that was never used.
uint32_t fresh_index() {
  uint32_t index = used.load(std::memory_order_relaxed);
  do {
    if (position_of(index + 1).chunk >= kChunks) throw OutOfMemory("moonlet: too many handles");
  } while (!used.compare_exchange_weak(index, index + 1, std::memory_order_relaxed));
  const Position at = position_of(++index);
  std::atomic<Slot*>& chunk = chunks[at.chunk];
  if (chunk.load(std::memory_order_acquire) == nullptr) {
    auto* made = new Slot[size_t{kFirstChunk} << at.chunk];
    Slot* none = nullptr;
    if (!chunk.compare_exchange_strong(none, made, std::memory_order_acq_rel)) delete[] made;
  }
  return index;
}

uint32_t take_free_index() noexcept {
  uint64_t top = free_top.load(std::memory_order_acquire);
  while (static_cast<uint32_t>(top) != 0) {
    const uint32_t next = slot_at(static_cast<uint32_t>(top))->next.load(std::memory_order_relaxed);
    const uint64_t below = ((top >> 32) + 1) << 32 | next;
    if (free_top.compare_exchange_weak(top, below, std::memory_order_acq_rel))
      return static_cast<uint32_t>(top);
  }
  return 0;
}

void give_back(uint32_t index, Slot& slot) noexcept {
  uint64_t top = free_top.load(std::memory_order_relaxed);
  uint64_t above = 0;
  do {
    slot.next.store(static_cast<uint32_t>(top), std::memory_order_relaxed);
    above = ((top >> 32) + 1) << 32 | index;
  } while (!free_top.compare_exchange_weak(top, above, std::memory_order_acq_rel));
}

struct Parts {
  uint32_t index, generation;
};
Parts parts_of(const void* handle) {
  const auto bits = reinterpret_cast<uintptr_t>(handle);
  return {static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)};
}

uint64_t tag_of(uint32_t generation, HandleKind kind) {
  return uint64_t{generation} << 8 | static_cast<uint64_t>(kind);
}

}  // namespace

const char* name(HandleKind kind) {
  switch (kind) {
    case HandleKind::Free: return "nothing";
    case HandleKind::Interpreter: return "an interpreter";
    case HandleKind::Table: return "a table";
    case HandleKind::Function: return "a function";
    case HandleKind::Object: return "an object";
    case HandleKind::Tensor: return "a tensor";
    case HandleKind::Program: return "a program";
    case HandleKind::Context: return "a context";
    case HandleKind::Hook: return "a hook";
  }
  return "nothing";
}

void* new_handle(HandleKind kind, void* payload) {
  uint32_t index = take_free_index();
  if (index == 0) index = fresh_index();
  Slot& slot = *slot_at(index);
  slot.payload = payload;
  const auto generation =
      static_cast<uint32_t>((slot.tag.load(std::memory_order_relaxed) >> 8) + 1);
  slot.tag.store(tag_of(generation, kind), std::memory_order_release);
  return reinterpret_cast<void*>(uintptr_t{generation} << 32 | index);
}

void* payload_of(const void* handle, HandleKind kind) noexcept {
  const Parts parts = parts_of(handle);
  const Slot* slot = slot_at(parts.index);
  if (slot == nullptr ||
      slot->tag.load(std::memory_order_acquire) != tag_of(parts.generation, kind)) [[unlikely]]
    return nullptr;
  return slot->payload;
}

void* release_handle(const void* handle, HandleKind kind) noexcept {
  const Parts parts = parts_of(handle);
  Slot* slot = slot_at(parts.index);
  if (slot == nullptr) return nullptr;
  void* payload = slot->payload;
  uint64_t tag = tag_of(parts.generation, kind);
  if (!slot->tag.compare_exchange_strong(tag, tag_of(parts.generation, HandleKind::Free),
                                         std::memory_order_acq_rel))
    return nullptr;
  if (parts.generation != UINT32_MAX) give_back(parts.index, *slot);
  return payload;
}

const char* describe_handle(const void* handle) noexcept {
  if (handle == nullptr) return "a null handle";
  const Parts parts = parts_of(handle);
  const Slot* slot = slot_at(parts.index);
  if (slot == nullptr || parts.generation == 0) return "a pointer that is no handle";
  const uint64_t tag = slot->tag.load(std::memory_order_acquire);
  if (tag >> 8 < parts.generation) return "a pointer that is no handle";
  const auto kind = static_cast<HandleKind>(tag & 0xff);
  if (tag >> 8 != parts.generation || kind == HandleKind::Free) return "a handle that was freed";
  return name(kind);
}

size_t live_handles() noexcept {
  size_t live = 0;
  for (uint32_t index = used.load(std::memory_order_relaxed); index > 0; --index) {
    const Slot* slot = slot_at(index);
    if (slot != nullptr && (slot->tag.load(std::memory_order_relaxed) & 0xff) != 0) ++live;
  }
  return live;
}

}  // namespace moonlet::c

// interp/state/slots.cpp: positions of the registry for the values that a host holds.
#include "interp/state/slots.h"

#include <new>

namespace moonlet::detail {

void DroppedSlots::add(int slot) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  try {
    slots_.push_back(slot);
  } catch (const std::bad_alloc&) {
    return;  // it stays until the state is closed
  }
  any_.store(true, std::memory_order_relaxed);
}

void DroppedSlots::take(std::vector<int>& slots) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  any_.store(false, std::memory_order_relaxed);
  slots.swap(slots_);
}

int Slots::take(lua_State* L) {
  if (free_.empty()) {
    if (free_.capacity() <= made_) free_.reserve(2 * made_ + 8);  // giving back takes no memory
    const int slot = luaL_ref(L, LUA_REGISTRYINDEX);
    ++made_;
    return slot;
  }
  const int slot = free_.back();
  lua_rawseti(L, LUA_REGISTRYINDEX, slot);
  free_.pop_back();
  return slot;
}

void Slots::give_back(lua_State* L, int slot) noexcept {
  if (lua_checkstack(L, 1) == 0) return;
  lua_pushboolean(L, 0);  // with nil, Lua might take the place for free
  lua_rawseti(L, LUA_REGISTRYINDEX, slot);
  free_.push_back(slot);
}

void Slots::give_back(lua_State* L, DroppedSlots& dropped) noexcept {
  dropped.take(batch_);
  for (const int slot : batch_) give_back(L, slot);
  batch_.clear();
}

}  // namespace moonlet::detail

// interp/state/slots.h: positions of the registry for the values that a host holds. They are used
// again without asking Lua, which costs as much as the call that gave the value.
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include "lua.hpp"

namespace moonlet::detail {

// What handles that any thread has dropped held, until the thread that runs the interpreter takes
// it.
class DroppedSlots {
 public:
  void add(int slot) noexcept;
  bool any() const noexcept { return any_.load(std::memory_order_relaxed); }
  // Puts them into `slots`, which is empty.
  void take(std::vector<int>& slots) noexcept;

 private:
  std::mutex mutex_;
  std::vector<int> slots_;
  std::atomic<bool> any_{false};  // read without the lock
};

class Slots {
 public:
  // Pops the value on top of the stack and returns the slot that holds it. May raise a memory
  // error.
  int take(lua_State* L);
  // The slot holds nothing any more. Raises nothing; where L has no room, the slot stays taken.
  void give_back(lua_State* L, int slot) noexcept;
  // The same for all that were dropped.
  void give_back(lua_State* L, DroppedSlots& dropped) noexcept;

 private:
  std::vector<int> free_;
  std::vector<int> batch_;  // empty but for its memory
  size_t made_ = 0;
};

}  // namespace moonlet::detail

// interp/binding/binding_state.h: what the tensor binding keeps for one Lua state. It lives inside
// StateData, so every field is one load away from the lua_State.
#pragma once

#include <cstdint>
#include <memory>

struct lua_State;

namespace moonlet {

struct BindingState {
  const void* tensor_metatable = nullptr;   // identity of the metatable, for type checks
  int metatable_ref = 0;                    // registry position of the same table
  int shape_ref = 0;                        // registry position of the metatable of shapes
  const void* storage_metatable = nullptr;  // the same of storages
  int storage_metatable_ref = 0;
  int storages_ref = 0;  // registry position of the weak table of storages that scripts hold
  int (*ipairs_step)(lua_State*) = nullptr;  // the iterator of `ipairs`
  int64_t paid_bytes = 0;   // thread_allocated_bytes() already charged to the collector
  int scope_ref = 0;        // registry position of the running ml.scope's list, or 0
  int64_t scope_count = 0;  // entries ever put in that list
  // The main thread, for holders of Lua values that may outlive the state; null once it is closed.
  std::shared_ptr<lua_State*> alive;

  BindingState() = default;
  BindingState(const BindingState&) = delete;
  BindingState& operator=(const BindingState&) = delete;
  ~BindingState() {
    if (alive) *alive = nullptr;
  }
};

}  // namespace moonlet

// interp/binding/autograd/hooks.h: Lua functions that the tape calls. The tape has a handle that
// keeps nothing alive; the function itself lives in Lua (homes.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "interp/binding/tensor/tensor_userdata.h"

namespace moonlet::binding {

// The tape's handle on a Lua function. It may be dropped on any thread.
class HeldFunction {
 public:
  HeldFunction(lua_State* L, int64_t id);
  ~HeldFunction();
  HeldFunction(const HeldFunction&) = delete;
  HeldFunction& operator=(const HeldFunction&) = delete;

  // Calls the function with a gradient. Returns the tensor it returns, or an undefined one for nil,
  // after `remove`, and when its interpreter is closed. Throws when that interpreter runs, if at
  // all, on another thread; an error in the function is a Lua error of the running coroutine.
  Tensor call(const Tensor& gradient) const;
  void remove() { removed_ = true; }
  int64_t id() const { return id_; }

 private:
  struct Call;
  static int run_call(lua_State* L);
  Tensor call_protected(lua_State* L, const Tensor& gradient) const;
  Tensor call_in(lua_State* L, const Tensor& gradient) const;

  std::shared_ptr<ReleaseQueue> releases_;
  int64_t id_;
  std::string where_;  // "script.lua:3"
  std::atomic<bool> removed_{false};
};

// Makes the function at a stack index live with the tensor userdata at another.
std::shared_ptr<HeldFunction> hold_function(lua_State* L, int tensor, int function);

// Adds register_hook to the methods at -1.
void register_hooks(lua_State* L);

}  // namespace moonlet::binding

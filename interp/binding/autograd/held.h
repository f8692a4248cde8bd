// interp/binding/autograd/held.h: Lua values that the tape holds strongly: the context of a custom
// function's call, what a saved tensor was packed into. (Hooks live with their tensor instead:
// homes.h.)
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "autograd/tape.h"
#include "interp/binding/tensor/tensor_userdata.h"

namespace moonlet::binding {

// May be dropped on any thread; the value then goes when its interpreter is entered next.
class HeldValue {
 public:
  HeldValue(lua_State* L, int index);
  ~HeldValue() { releases_->release_reference(reference_); }
  HeldValue(const HeldValue&) = delete;
  HeldValue& operator=(const HeldValue&) = delete;

  // Runs `f(L)` with the value on top of the stack of the coroutine that runs; what `f` leaves
  // there is popped. Throws, naming `what`, when its interpreter is closed or runs, if at all, on
  // another thread. An error in `f` is a Lua error; an Error where another interpreter runs.
  void with(const std::string& what, const std::function<void(lua_State*)>& f) const;
  // Pushes the value in its own interpreter. False in another one.
  bool push(lua_State* L) const;

 private:
  struct Call;
  static int run_call(lua_State* L);
  void run(lua_State* L, const std::function<void(lua_State*)>& f) const;

  std::shared_ptr<ReleaseQueue> releases_;
  int reference_;
};

// "script.lua:3", the innermost line of the script, or "".
std::string where_now(lua_State* L);

// Adds the functions behind ml.autograd.Function, those of nodes, and those of saved tensors. The
// module at -2.
void register_custom_function(lua_State* L);
void register_graph(lua_State* L);
void register_saved_hooks(lua_State* L);

// Pushes a node of the graph, the same value for the same node while a script holds it.
int push_node(lua_State* L, const NodeRef& node);
// The edge at a stack index, a table { node =, output_nr = }; none for other values.
Edge edge_at(lua_State* L, int index);
// Pushes the handle of a hook that is held by the tape alone.
int push_hook_handle(lua_State* L, HookHandle hook);

}  // namespace moonlet::binding

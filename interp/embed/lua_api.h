// interp/embed/lua_api.h: Moonlet for programs that use Lua's C API, or a layer over it such as
// sol2: the module in a Lua state of the host's own, and tensors on that state's stack. It is in
// libmoonlet-lua (pkg-config moonlet-lua), and its Lua must be built as C++.
#pragma once

#include <memory>

#include "tensor/core/tensor.h"

struct lua_State;

namespace moonlet {
class CallScope;
}

#pragma GCC visibility push(default)

// Opens module `moonlet`: luaL_requiref(L, "moonlet", luaopen_moonlet, 0), or `require "moonlet"`
// where Lua finds moonlet.so. The state needs the library `package`. A Lua error when the Lua of
// the state is built as C, whose errors would skip C++ destructors, or is not the one that this
// library was linked to.
extern "C" int luaopen_moonlet(lua_State* L);

namespace moonlet {

// Pushes a tensor, nil for an undefined one. Opens the module when that has not happened yet.
// Raises a Lua error when memory is short.
void push_tensor(lua_State* L, Tensor tensor);

// The tensor at a stack index, or null when the value is no tensor or has been freed. It is valid
// while the value is on the stack.
const Tensor* test_tensor(lua_State* L, int index);

// In a function of the host that scripts call: while alive, ops run with the script's grad mode,
// default dtype and generator. Outside of it those of the thread hold.
class StateScope {
 public:
  explicit StateScope(lua_State* L);
  ~StateScope();
  StateScope(const StateScope&) = delete;
  StateScope& operator=(const StateScope&) = delete;

 private:
  std::unique_ptr<CallScope> scope_;
};

}  // namespace moonlet

#pragma GCC visibility pop

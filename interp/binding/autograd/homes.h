// interp/binding/autograd/homes.h: where Lua functions live that the tape holds: with the userdata
// of a tensor, their home, so that Lua's collector sees what they refer to and can collect a
// function that refers to its own tensor.
#pragma once

#include <cstdint>
#include <memory>

#include "interp/binding/tensor/tensor_userdata.h"

namespace moonlet::binding {

// Makes the function at one stack index, with that id, live with the tensor userdata at another.
// While something outside Lua holds what the function hangs on (hooks_held_elsewhere), it stays,
// and its tensor; after that it goes with the tensor.
void add_function(lua_State* L, int tensor, int function, int64_t id,
                  const std::shared_ptr<HeldFunction>& holder);
// Pushes the userdata that function `id` lives with and its table of functions by id; or nothing,
// and returns false.
bool push_home(lua_State* L, int64_t id);
// Ends the function's life there. Needs 5 stack slots.
void forget_function(lua_State* L, int64_t id);
// In the finalizer of the tensor userdata at 1, when there are homes: whether the tensor has to
// stay for another collection, because the tape may still call a function that needs it.
bool keep_tensor(lua_State* L, Tensor& cell);
// Makes the tables.
void register_homes(lua_State* L);

}  // namespace moonlet::binding

// interp/embed/host_state.h: Lua states that a host made with Lua's own functions: where Moonlet
// keeps its data for them, and how long.
#pragma once

#include "lua.hpp"

namespace moonlet {

struct StateData;

// The data of the state that L belongs to, whoever made it; null where the module was never opened.
StateData* find_state_data(lua_State* L) noexcept;

// Gives a state of a host its data, kept until the state is closed, and makes `require` find the
// modules. Nothing in other states, or when it was done before. Raises a Lua error when the Lua of
// the state is none to run in (interp/state/lua_check.h), its library `package` is missing, or
// memory is short.
void admit(lua_State* L);

}  // namespace moonlet

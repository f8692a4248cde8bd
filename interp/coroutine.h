// interp/coroutine.h: coroutines with an execution state each.
#pragma once

#include "lua.hpp"

namespace moonlet {

// Replaces coroutine.resume, wrap and close with forms of the same behaviour that give each
// coroutine its execution state and note in StateData which one runs. Lua's hooks are per
// coroutine, so an interrupt must know it.
void track_coroutines(lua_State* L);

}  // namespace moonlet

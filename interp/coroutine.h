// interp/coroutine.h: keeps track of the coroutine that runs, so that Ctrl-C reaches it.
#pragma once

#include "lua.hpp"

namespace moonlet {

// Replaces coroutine.resume and coroutine.wrap with forms of the same behaviour that note the
// running coroutine in StateData. Lua's hooks are per coroutine, so an interrupt must know it.
void track_coroutines(lua_State* L);

}  // namespace moonlet

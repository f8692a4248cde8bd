// interp/state/coroutine.h: coroutines with an execution state each.
#pragma once

#include <optional>

#include "lua.hpp"

#include "interp/state/entry.h"

namespace moonlet {

// Replaces coroutine.resume, wrap and close with forms of the same behaviour that give each
// coroutine its execution state and note in StateData which one runs. Lua's hooks are per
// coroutine, so an interrupt must know it.
void track_coroutines(lua_State* L);

// Makes the scope in which `co` runs; an Error, where its modes find no room, is a Lua error.
void enter_coroutine(std::optional<CoroutineScope>& scope, lua_State* L, lua_State* co);

}  // namespace moonlet

// interp/binding/tensor/iterate.h: how `ipairs` and `pairs` go through what is indexed from 1 and
// raises beyond its end.
#pragma once

#include "lua.hpp"

namespace moonlet::binding {

// Notes the iterator of `ipairs`; once for each state.
void register_iteration(lua_State* L);

// Whether the running metamethod was called by `ipairs`, which ends at the first nil.
bool called_by_ipairs(lua_State* L);

// Pushes what `__pairs` returns for the value at 1: it is read with `x[i]` for i from 1 to #x.
int push_positions(lua_State* L);

}  // namespace moonlet::binding

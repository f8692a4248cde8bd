// interp/state/lua_check.h: whether the Lua that was bound at run time is one to run in. The
// process may hold others: a build as C, whose errors jump over C++ destructors, or another
// version.
#pragma once

#include "lua.hpp"

namespace moonlet {

// Throws Error when errors of the Lua that is bound skip destructors. Tests it once.
void check_errors_throw();

// Raises an error, in its own way, when the Lua that calls a C function is another one than this
// library is bound to; `caller` is the return address. Before anything else is done with the state,
// since it may be of another version.
void refuse_other_caller(lua_State* L, const void* caller);

// check_errors_throw for a state that somebody else made: raises a Lua error when its errors skip
// destructors, or when it belongs to another copy of Lua than the one this library is bound to.
void refuse_other_lua(lua_State* L);

// In a state whose Lua C modules would not find, takes away what loads them: they would call
// another Lua's functions on it. `require` and `package.loadlib` then say why.
void refuse_c_modules(lua_State* L);

}  // namespace moonlet

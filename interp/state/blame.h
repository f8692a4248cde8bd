// interp/state/blame.h: errors that arise inside the standard library are put down to the line of
// the script that called it, wherever they are caught: in pcall, in a coroutine, by the command
// line or by a host.
#pragma once

#include "lua.hpp"

namespace moonlet {

// Where the error value on top of L's stack is a message that begins with a position in the
// standard library, or one without a position of what the library called, puts the innermost line
// of the script on `raised`'s stack in front instead. To be called where that stack still stands:
// by a message handler, or for a coroutine that has failed.
void blame_script(lua_State* L, lua_State* raised);

// Replaces `pcall` by one that does so.
void catch_in_pcall(lua_State* L);

}  // namespace moonlet

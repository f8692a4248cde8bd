// interp/state/libraries.h: the standard libraries that scripts of a state see, and what of them is
// changed so that no script can crash the process or pass its limits.
#pragma once

#include "lua.hpp"

namespace moonlet {

// Opens all libraries. The state's options are in its data.
void open_libraries(lua_State* L);

// Makes the functions of `debug` safe, if it is open: also in Lua states of a host's own.
void protect_libraries(lua_State* L);

// Takes away what the options do not give to scripts. After all modules have been preloaded. The
// modules of the standard library keep what they need of it: see push_stdlib_environment.
void restrict_libraries(lua_State* L);

// Makes os.getenv know no variable. Before any script runs.
void hide_variables(lua_State* L);

// Pushes the table of globals for modules of the standard library and returns true, or returns
// false when it is that of scripts.
bool push_stdlib_environment(lua_State* L);

}  // namespace moonlet

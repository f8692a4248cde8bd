// interp/cli/repl.h: the interactive prompt.
#pragma once

#include "lua.hpp"

namespace moonlet {

// Prints the banner on a terminal, makes `ml` global and reads, runs and prints statements until
// Ctrl-D. Errors are shown and the prompt returns.
void run_repl(lua_State* L, bool banner);

}  // namespace moonlet

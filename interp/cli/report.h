// interp/cli/report.h: runs chunks with a traceback and shows errors, for the command line and the
// REPL.
#pragma once

#include <string>

#include "lua.hpp"

namespace moonlet {

// A message handler: turns any error value into text with a traceback.
int add_traceback(lua_State* L);

// lua_pcall with add_traceback and Ctrl-C stopping the script. Returns the status.
int call_interruptible(lua_State* L, int arguments, int results);

// Writes the error value on top of the stack to stderr, after "prefix: " unless it is empty, and
// pops it. Flushes stdout first so that the order on a terminal is right.
void report_error(lua_State* L, const std::string& prefix);

}  // namespace moonlet

// interp/cli/statement.h: the statements of a prompt, whoever reads them: compiled, given the
// locals of those before, run, and their values shown.
#pragma once

#include <string>

#include "lua.hpp"

namespace moonlet {

// A Lua function: makes `ml` and the prompt's commands global.
int open_prompt(lua_State* L);

// Leaves on the stack what ends the `<close>` variables of the prompt.
void push_prompt_block(lua_State* L);

enum class Typed { kReady, kIncomplete, kFailed };

// Compiles what was typed: an expression, a statement, or either behind '='. Leaves the function,
// whose text is `compiled`, or the message of its error on the stack.
Typed compile_typed(lua_State* L, const std::string& code, std::string* compiled);

// Puts a function in the place of the one on top of the stack, whose text is `compiled`: one that
// has the prompt's locals. Returns whether it could; a message is in its place otherwise.
bool bind_typed(lua_State* L, const std::string& compiled);

// Runs the function on top of the stack, where it is the only value above `base`, and shows its
// values, or its error.
bool run_typed(lua_State* L, int base);

}  // namespace moonlet

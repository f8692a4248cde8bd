// interp/cli/complete.h: which names may follow what was typed, for the Tab key.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lua.hpp"

namespace moonlet {

struct Completions {
  size_t word = 0;                 // where the last name starts in the text
  std::vector<std::string> names;  // whole names that start as that word does, sorted
};

// Completes the text before the cursor: globals, fields and methods behind a path such as `ml.nn.`
// or `x:`, options inside the braces of a call, files inside strings. `above` holds the lines
// before it of the same statement. Errors in the script's own __index functions give no names.
Completions complete(lua_State* L, std::string_view text, std::string_view above);

}  // namespace moonlet

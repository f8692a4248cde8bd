// interp/binding/file_parts.h: what module moonlet.io has for parts of files.
#pragma once

#include "lua.hpp"

namespace moonlet::binding {

// Sets the functions in the table on the stack.
void register_file_parts(lua_State* L);

}  // namespace moonlet::binding

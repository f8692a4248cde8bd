// interp/binding/csv.h: what module moonlet.io has for CSV files.
#pragma once

#include "lua.hpp"

namespace moonlet::binding {

// Sets the functions in the table on the stack.
void register_csv(lua_State* L);

}  // namespace moonlet::binding

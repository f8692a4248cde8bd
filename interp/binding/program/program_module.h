// interp/binding/program/program_module.h: programs for scripts.
#pragma once

#include "lua.hpp"

namespace moonlet::binding {

// Adds what stdlib/compile.lua is made of to the module at -2.
void register_programs(lua_State* L);
// Before elements are read: lets go of tensors that the script has dropped, where to compute what
// was put off would cost more.
void collect_dropped(lua_State* L);
// Adds what functions that run by parts need to the table on top.
void register_parts(lua_State* L);

}  // namespace moonlet::binding

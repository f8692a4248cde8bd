// interp/binding/autograd/mode_guard.h: a mode that a script has put on the stack: a userdata that
// takes it off at the end of its block.
#pragma once

#include <memory>

#include "interp/binding/tensor/tensor_userdata.h"
#include "tensor/runtime/modes.h"

namespace moonlet::binding {

// Puts the mode on the stack and pushes the value that holds it there: until `__close`, or until it
// is collected, which warns with the line that made it. It has a user value. `function` is the name
// of the function of `ml` that the script called.
void push_mode_guard(lua_State* L, std::shared_ptr<Mode> mode, const char* function);

// Hand-written parts of `ml`; the module at -2.
void register_modes(lua_State* L);
void register_op_tables(lua_State* L);
void register_override(lua_State* L);
void register_profiler(lua_State* L);
void register_anomaly(lua_State* L);

}  // namespace moonlet::binding

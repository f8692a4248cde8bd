// interp/binding/signature_reader.h: module moonlet.signature_reader, which reads the arguments of
// functions of the library as stdlib/signature.lua declares them.
#pragma once

#include "lua.hpp"

// read(declaration, ...) gives the arguments in the order of the parameters, table(declaration,
// ...) by name in a table, and convert(declaration, number, value) the value for one parameter, or
// nil where it is wrong. A declaration has `parameters`, perhaps `aliases`, and the methods that
// raise its errors: refuse_name, refuse_twice, refuse_missing, refuse_value, refuse_count.
int luaopen_moonlet_signature_reader(lua_State* L);

// interp/state/chunks.h: which chunks a state loads. Compiled ones are not checked by Lua, and
// tampered ones crash it, so only text is loaded unless the state was made with
// InterpreterOptions::bytecode.
#pragma once

#include <string_view>

#include "lua.hpp"

namespace moonlet {

// "t" or "bt": the mode for lua_load and its kin.
const char* chunk_mode(lua_State* L);

// luaL_loadfile in that mode; an error about a compiled chunk says how to allow it.
int load_file(lua_State* L, const char* path);

// luaL_loadbufferx of text or, in a state that takes them, a compiled chunk, which meets requests
// to stop: some texts take time that grows with the square of their size.
int load_string(lua_State* L, std::string_view code, const char* name, const char* mode);

// Has load meet requests to stop; and load, loadfile, dofile and the searcher of package.path find
// the files of a bundle or a host, and load text only, but in a state that takes compiled chunks.
// The package library must be as luaL_openlibs leaves it.
void restrict_chunks(lua_State* L);

}  // namespace moonlet

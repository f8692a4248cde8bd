// interp/chunks.cpp: load, loadfile, dofile and require of text chunks.
#include "interp/chunks.h"

#include <cstring>
#include <string>

#include "interp/guard.h"
#include "interp/state.h"

namespace moonlet {
namespace {

// Adds to the error message on top of the stack how to load what it refuses.
void explain(lua_State* L) {
  const char* message = lua_tostring(L, -1);
  if (message == nullptr || state_data(L).options.bytecode) return;
  if (std::strstr(message, "attempt to load a binary chunk") == nullptr) return;
  lua_pushliteral(L, "; compiled chunks are loaded under --bytecode only");
  lua_concat(L, 2);
}

// Calls the library's function with the mode at `index` (if any) taken down to text.
int call_with_text_mode(lua_State* L, int index) {
  const std::string given = luaL_optstring(L, index, "bt");
  if (lua_gettop(L) < index) lua_settop(L, index);
  lua_pushstring(L, given.find('t') != given.npos ? "t" : "");
  lua_replace(L, index);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  if (lua_gettop(L) == 2 && lua_isnil(L, 1)) explain(L);
  return lua_gettop(L);
}

int load_text(lua_State* L) {
  // Here, as the library's function could not tell its name any more.
  if (lua_type(L, 1) != LUA_TSTRING) luaL_checktype(L, 1, LUA_TFUNCTION);
  luaL_optstring(L, 2, nullptr);
  return call_with_text_mode(L, 3);
}

int load_text_file(lua_State* L) {
  luaL_optstring(L, 1, nullptr);
  return call_with_text_mode(L, 2);
}

int results_of_file(lua_State* L, int, lua_KContext) { return lua_gettop(L) - 1; }

int do_text_file(lua_State* L) {
  const char* path = luaL_optstring(L, 1, nullptr);
  lua_settop(L, 1);
  if (load_file(L, path) != LUA_OK) return lua_error(L);
  lua_callk(L, 0, LUA_MULTRET, 0, results_of_file);
  return results_of_file(L, 0, 0);
}

// The searcher of Lua files. Upvalue: the package table.
int search_text_file(lua_State* L) {
  const char* name = luaL_checkstring(L, 1);
  lua_settop(L, 1);
  lua_getfield(L, lua_upvalueindex(1), "searchpath");
  lua_pushvalue(L, 1);
  if (lua_getfield(L, lua_upvalueindex(1), "path") != LUA_TSTRING)
    return luaL_error(L, "'package.path' must be a string");
  lua_call(L, 2, 2);
  if (lua_isnil(L, 2)) return 1;  // the message, which names the files that were tried
  lua_pop(L, 1);
  const char* file = lua_tostring(L, 2);
  if (load_file(L, file) != LUA_OK)
    return luaL_error(L, "error loading module '%s' from file '%s':\n\t%s", name, file,
                      lua_tostring(L, -1));
  lua_pushvalue(L, 2);
  return 2;
}

void wrap(lua_State* L, const char* name, lua_CFunction f) {
  lua_getglobal(L, name);
  lua_pushcclosure(L, f, 1);
  lua_setglobal(L, name);
}

}  // namespace

const char* chunk_mode(lua_State* L) { return state_data(L).options.bytecode ? "bt" : "t"; }

int load_file(lua_State* L, const char* path) {
  const int status = luaL_loadfilex(L, path, chunk_mode(L));
  if (status != LUA_OK) explain(L);
  return status;
}

void restrict_chunks(lua_State* L) {
  if (state_data(L).options.bytecode) return;
  wrap(L, "load", guard<load_text>);
  wrap(L, "loadfile", guard<load_text_file>);
  wrap(L, "dofile", guard<do_text_file>);
  lua_getglobal(L, LUA_LOADLIBNAME);
  lua_getfield(L, -1, "searchers");
  lua_pushvalue(L, -2);
  lua_pushcclosure(L, guard<search_text_file>, 1);
  lua_rawseti(L, -2, 2);  // behind that of package.preload
  lua_pop(L, 2);
}

}  // namespace moonlet

// interp/binding/program/library_tables.cpp: tells the standard library's tables and functions by
// package.loaded and by the files that functions come from.
#include "interp/binding/program/library_tables.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string_view>

#include "tensor/core/platform/process.h"

namespace moonlet::binding {
namespace {

constexpr std::string_view kLuaLibraries[] = {LUA_COLIBNAME,   LUA_TABLIBNAME, LUA_IOLIBNAME,
                                              LUA_OSLIBNAME,   LUA_STRLIBNAME, LUA_UTF8LIBNAME,
                                              LUA_MATHLIBNAME, LUA_DBLIBNAME,  LUA_LOADLIBNAME};

bool is_library_name(std::string_view name) {
  if (name == "moonlet" || name.starts_with("moonlet.")) return true;
  return std::find(std::begin(kLuaLibraries), std::end(kLuaLibraries), name) !=
         std::end(kLuaLibraries);
}

bool has_raw(lua_State* L, int table, const char* key) {
  lua_pushstring(L, key);
  const bool found = lua_rawget(L, table) != LUA_TNIL;
  lua_pop(L, 1);
  return found;
}

}  // namespace

std::unordered_set<const void*> library_modules(lua_State* L) {
  std::unordered_set<const void*> out;
  luaL_checkstack(L, 6, "compile");
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_pushnil(L);
  while (lua_next(L, -2) != 0) {
    if (lua_type(L, -2) == LUA_TSTRING && lua_istable(L, -1) &&
        is_library_name(lua_tostring(L, -2)))
      out.insert(lua_topointer(L, -1));
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return out;
}

bool is_library_function(lua_State* L, int index) {
  lua_Debug info;
  lua_pushvalue(L, index);
  lua_getinfo(L, ">S", &info);
  if (std::strncmp(info.source, "@stdlib/", 8) == 0) return true;
  const char* const folder = platform::variable("MOONLET_STDLIB");
  if (folder == nullptr || *folder == '\0' || *info.source != '@') return false;
  const size_t length = std::strlen(folder);
  return std::strncmp(info.source + 1, folder, length) == 0 && info.source[1 + length] == '/';
}

bool is_class(lua_State* L, int index) {
  index = lua_absindex(L, index);
  return has_raw(L, index, "__name") && has_raw(L, index, "__index");
}

bool is_library_class(lua_State* L, int index) {
  index = lua_absindex(L, index);
  luaL_checkstack(L, 6, "compile");
  if (!is_class(L, index)) return false;
  bool library = false, own = false;
  lua_pushnil(L);
  while (!own && lua_next(L, index) != 0) {
    const bool method = lua_type(L, -2) == LUA_TSTRING && lua_isfunction(L, -1) &&
                        std::strncmp(lua_tostring(L, -2), "__", 2) != 0;
    if (method) {
      library = library || lua_iscfunction(L, -1) != 0 || is_library_function(L, -1);
      own = lua_iscfunction(L, -1) == 0 && !is_library_function(L, -1);
    }
    lua_pop(L, own ? 2 : 1);
  }
  return library && !own;
}

}  // namespace moonlet::binding

// interp/state/lua_check.cpp: tests of the Lua that was bound at run time. Nothing here may rely on
// its errors, so what fails is told without a throw where that can be the wrong one.
#include "interp/state/lua_check.h"

#include <atomic>

#include "interp/state/state.h"
#include "tensor/core/error.h"
#include "tensor/core/platform/libraries.h"

namespace moonlet {
namespace {

constexpr const char* kBuiltAsC =
    "moonlet needs Lua built as C++: the errors of the one in this process are longjmps, which "
    "skip C++ destructors. Use Lua's C++ build (Debian: liblua5.4-c++), or libmoonlet, which "
    "carries its own Lua";

struct Witness {
  bool* destroyed;
  ~Witness() { *destroyed = true; }
};

int raise(lua_State* L) {
  const Witness witness{static_cast<bool*>(lua_touserdata(L, 1))};
  return luaL_error(L, "on purpose");
}

bool errors_throw(lua_State* L) {
  bool destroyed = false;
  lua_pushcfunction(L, raise);
  lua_pushlightuserdata(L, &destroyed);
  lua_pcall(L, 1, 0, 0);
  lua_settop(L, -2);
  return destroyed;
}

using platform::LoadedObject;

// The executable or library that a function lies in.
template <class F>
LoadedObject object_of(F* function) {
  return platform::object_of(reinterpret_cast<const void*>(function));
}

constexpr const char* kOtherLua =
    "moonlet is bound to the Lua in %s, but this state belongs to the one in %s: let the program "
    "link Lua's C++ library (Debian: liblua5.4-c++) or export its own, built as C++";

// Where the basic functions of the state come from, when that is not the Lua that is bound.
LoadedObject foreign_object(lua_State* L, const LoadedObject& bound) {
  LoadedObject other;
  if (!push_library(L, LUA_GNAME)) return other;
  for (const char* name : {"rawequal", "rawlen", "select", "next", "type", "tostring", "error"}) {
    lua_getfield(L, -1, name);
    const LoadedObject object = object_of(lua_tocfunction(L, -1));
    lua_pop(L, 1);
    if (object.base == bound.base) {
      other = {};
      break;
    }
    if (object.base != nullptr) other = object;
  }
  lua_pop(L, 1);
  return other;
}

// Raises an error through the state's own function, which knows how its errors are raised.
void raise_with_own_error(lua_State* L, const LoadedObject& own, const LoadedObject& bound) {
  push_library(L, LUA_GNAME);
  lua_getfield(L, -1, "error");
  lua_pushfstring(L, kOtherLua, bound.file, own.file);
  lua_call(L, 1, 0);
}

int refuse_c_module(lua_State* L) {
  lua_pushnil(L);
  lua_pushliteral(
      L,
      "C modules cannot be loaded here: they would call another Lua than the one inside "
      "libmoonlet (see libmoonlet-lua)");
  lua_pushliteral(L, "open");
  return 3;
}

int search_no_c_module(lua_State* L) {
  lua_pushliteral(L,
                  "no C module: they would call another Lua than the one inside libmoonlet (see "
                  "libmoonlet-lua)");
  return 1;
}

}  // namespace

void check_errors_throw() {
  static std::atomic<bool> good{false};
  if (good.load(std::memory_order_relaxed)) return;
  lua_State* L = luaL_newstate();
  if (L == nullptr) throw std::bad_alloc();
  const bool throws = errors_throw(L);
  lua_close(L);
  if (!throws) throw Error(kBuiltAsC);
  good.store(true, std::memory_order_relaxed);
}

void refuse_other_caller(lua_State* L, const void* caller) {
  const LoadedObject bound = object_of(lua_pcallk);
  const LoadedObject from = object_of(caller);
  if (from.base == nullptr || from.base == bound.base) return;
  void* object = platform::reopen(from);
  void* raise = platform::find_symbol(object, "luaL_error");
  platform::close_library(object);
  // A host that calls the function itself has no Lua, or none that shows.
  if (object_of(raise).base != from.base) return;
  reinterpret_cast<int (*)(lua_State*, const char*, ...)>(raise)(L, kOtherLua, bound.file,
                                                                 from.file);
}

void refuse_other_lua(lua_State* L) {
  const LoadedObject bound = object_of(lua_pcallk);
  luaL_checkstack(L, 6, "moonlet");
  const LoadedObject other = foreign_object(L, bound);
  if (other.base != nullptr) raise_with_own_error(L, other, bound);
  if (!errors_throw(L)) luaL_error(L, "%s", kBuiltAsC);
}

void refuse_c_modules(lua_State* L) {
  // What a C module would be bound to.
  void* visible = platform::find_global_symbol("lua_newuserdatauv");
  if (visible == reinterpret_cast<void*>(lua_newuserdatauv)) return;
  if (!push_library(L, LUA_LOADLIBNAME)) return;
  lua_pushcfunction(L, refuse_c_module);
  lua_setfield(L, -2, "loadlib");
  if (lua_getfield(L, -1, "searchers") == LUA_TTABLE) {
    // Lua's two for C modules are the last of its own.
    const lua_Integer count = luaL_len(L, -1);
    lua_pushnil(L);
    lua_rawseti(L, -2, count);
    lua_pushcfunction(L, search_no_c_module);
    lua_rawseti(L, -2, count - 1);
  }
  lua_pop(L, 2);
}

}  // namespace moonlet

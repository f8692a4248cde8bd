// interp/state/libraries.cpp: opening, changing and taking away standard libraries.
#include "interp/state/libraries.h"

#include <cstdlib>
#include <iterator>
#include <string_view>

#include "interp/library/poll.h"
#include "interp/state/blame.h"
#include "interp/state/bundled.h"
#include "interp/state/chunks.h"
#include "interp/state/gc_steps.h"
#include "interp/state/guard.h"
#include "interp/state/interrupt.h"
#include "interp/state/output.h"
#include "interp/state/state.h"
#include "tensor/runtime/stack.h"

namespace moonlet {
namespace {

// The function that was in the library before: the first upvalue of those that replace it.
int call_original(lua_State* L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

// Replaces field `name` of the table on top of the stack by a function that has it as upvalue.
void replace(lua_State* L, const char* name, lua_CFunction function) {
  lua_getfield(L, -1, name);
  lua_pushcclosure(L, function, 1);
  lua_setfield(L, -2, name);
}

// --- debug ---------------------------------------------------------------------------------------

// For all but userdata: methods know a userdata by its metatable, so one that gets another's would
// be read as what it is not. Light ones share one metatable.
int l_set_metatable(lua_State* L) {
  if (lua_isuserdata(L, 1) != 0)
    return luaL_error(L, "debug.setmetatable: a userdata keeps its metatable");
  return call_original(L);
}

// C functions rely on what their upvalues are. Scripts see none of them.
int l_get_upvalue(lua_State* L) {
  if (lua_iscfunction(L, 1) != 0) return 0;
  return call_original(L);
}

int l_set_upvalue(lua_State* L) {
  if (lua_iscfunction(L, 1) != 0)
    return luaL_error(L, "debug.setupvalue: a C function keeps its upvalues");
  return call_original(L);
}

// C functions rely on their arguments staying where they are while they run.
int l_set_local(lua_State* L) {
  lua_State* of = lua_isthread(L, 1) ? lua_tothread(L, 1) : L;
  const int position = lua_isthread(L, 1) ? 2 : 1;
  lua_Debug info;
  // Here this function is level 0, where the original would be.
  const lua_Integer level = luaL_checkinteger(L, position);
  if (level >= 0 && level < 1'000'000 && lua_getstack(of, static_cast<int>(level), &info) != 0) {
    lua_getinfo(of, "S", &info);
    if (*info.what == 'C') return luaL_error(L, "debug.setlocal: a C function keeps its values");
  }
  // One call more lies between the script and the original.
  if (of == L) {
    lua_pushinteger(L, level + 1);
    lua_replace(L, position);
  }
  return call_original(L);
}

int l_get_registry(lua_State* L) {
  return luaL_error(L, "debug.getregistry: the registry is not for scripts");
}

int l_set_hook(lua_State* L) {
  return luaL_error(L, "debug.sethook: this interpreter has limits, which need the hook");
}

int l_set_hook_if_free(lua_State* L) {
  if (watch_small_stack(L))
    return luaL_error(L, "debug.sethook: this thread has a small stack, which needs the hook");
  return call_original(L);
}

void change_debug(lua_State* L, bool limited) {
  if (!push_library(L, LUA_DBLIBNAME)) return;
  replace(L, "setmetatable", guard<l_set_metatable>);
  replace(L, "getupvalue", guard<l_get_upvalue>);
  replace(L, "setupvalue", guard<l_set_upvalue>);
  replace(L, "setlocal", guard<l_set_local>);
  replace(L, "getregistry", guard<l_get_registry>);
  replace(L, "sethook", limited ? guard<l_set_hook> : guard<l_set_hook_if_free>);
  if (limited) {
    // As the ones of the basic library, since metatables hold finalizers.
    for (const char* name : {"getmetatable", "setmetatable"}) {
      lua_getglobal(L, name);
      lua_setfield(L, -2, name);
    }
  }
  lua_pop(L, 1);
}

// --- basic functions -----------------------------------------------------------------------------

// The handler of xpcall is called where no hook is: for a request to stop it would be a way out,
// and at the end of a small stack beyond it.
int call_handler(lua_State* L) {
  if (state_data(L).stop.requested() || stack_is_short()) return 1;
  blame_script(L, L);
  return call_original(L);
}

int finish_xpcall(lua_State* L, int status, lua_KContext first) {
  if (status != LUA_OK && status != LUA_YIELD) {
    lua_pushboolean(L, 0);
    lua_pushvalue(L, -2);
    return 2;
  }
  return lua_gettop(L) - static_cast<int>(first);
}

// Stack: function, handler, arguments.
int l_xpcall(lua_State* L) {
  const int count = lua_gettop(L) - 2;
  luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_pushvalue(L, 2);
  lua_pushcclosure(L, call_handler, 1);
  lua_replace(L, 2);
  lua_pushboolean(L, 1);
  lua_pushvalue(L, 1);
  lua_rotate(L, 3, 2);
  const int status = lua_pcallk(L, count, LUA_MULTRET, 2, 2, finish_xpcall);
  return finish_xpcall(L, status, 2);
}

// Finalizers run where no hook stops them.
int l_set_metatable_limited(lua_State* L) {
  if (lua_istable(L, 2)) {
    lua_pushliteral(L, "__gc");
    lua_rawget(L, 2);
    if (!lua_isnil(L, -1))
      return luaL_error(L, "setmetatable: __gc is not for scripts of an interpreter with limits");
    lua_pop(L, 1);
  }
  return call_original(L);
}

// Whether an option of collectgarbage would change what the host has chosen.
bool is_of_host(Collector kind, std::string_view option) {
  if (kind == Collector::Automatic) return false;
  if (option == "restart") return kind == Collector::Manual;
  return option == "generational" || option == "incremental" || option.starts_with("set");
}

bool is_switch(std::string_view option) {
  return option == "stop" || option == "restart" || option == "isrunning";
}

// Lua's own collector is at rest where the host bounds each pause.
int use_switch(lua_State* L, std::string_view option) {
  if (option == "isrunning") {
    lua_pushboolean(L, !gc::is_bounded_stopped(L));
  } else {
    gc::run_bounded(L, option == "restart");
    lua_pushinteger(L, 0);
  }
  return 1;
}

// Notes which kind of collection a script asks for. The pause and the speed are those of
// incremental collections, so that who sets them wants these; a step of a generational one is a
// whole cycle.
int l_collect_garbage(lua_State* L) {
  static constexpr const char* kOptions[] = {
      "collect",    "stop",      "restart",      "count",       "step", "setpause",
      "setstepmul", "isrunning", "generational", "incremental", nullptr};
  const std::string_view option = kOptions[luaL_checkoption(L, 1, *kOptions, kOptions)];
  // Negative in a finalizer, where Lua's own function does nothing.
  if (lua_gc(L, LUA_GCCOUNT) < 0) return call_original(L);
  if (is_of_host(gc::pacer(L).kind, option))
    return luaL_error(L,
                      "collectgarbage: '%s' is not for scripts here, as the host has chosen how "
                      "garbage is collected",
                      option.data());
  if (gc::pacer(L).kind == Collector::Bounded && is_switch(option)) return use_switch(L, option);
  if (option == "setpause" || option == "setstepmul") gc::set_generational(L, false);
  const int count = call_original(L);
  if (option == "incremental" || option == "generational")
    gc::set_generational(L, option == "generational");
  if (option != "step" || !gc::pacer(L).generational) return count;
  lua_pushboolean(L, 1);
  return 1;
}

void change_basics(lua_State* L, bool limited) {
  lua_pushglobaltable(L);
  replace(L, "collectgarbage", guard<l_collect_garbage>);
  lua_pushcfunction(L, l_xpcall);
  lua_setfield(L, -2, "xpcall");
  if (limited) {
    replace(L, "setmetatable", guard<l_set_metatable_limited>);
    // The metatable of files is for nobody to put a finalizer into.
    luaL_getmetatable(L, LUA_FILEHANDLE);
    lua_pushliteral(L, "file");
    lua_setfield(L, -2, "__metatable");
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

// --- os ------------------------------------------------------------------------------------------

// Without closing the state, which runs.
int l_exit(lua_State* L) {
  const int code = lua_isboolean(L, 1) ? (lua_toboolean(L, 1) ? EXIT_SUCCESS : EXIT_FAILURE)
                                       : static_cast<int>(luaL_optinteger(L, 1, EXIT_SUCCESS));
  std::exit(code);
}

int l_no_variable(lua_State* L) {
  luaL_checkstring(L, 1);
  luaL_pushfail(L);
  return 1;
}

int l_refuse_exit(lua_State* L) {
  return luaL_error(L, "os.exit: this interpreter has no library os");
}

void change_os(lua_State* L) {
  lua_getglobal(L, LUA_OSLIBNAME);
  lua_pushcfunction(L, l_exit);
  lua_setfield(L, -2, "exit");
  lua_pop(L, 1);
}

// --- what is taken away --------------------------------------------------------------------------

// The registry key of the globals of the standard library's modules.
constexpr char kEnvironment = 0;

struct Entry {
  const char* name;
  bool Libraries::*given;
  // What the standard library keeps when scripts do not have it; null: all of it.
  const char* const* kept;
};

constexpr const char* kKeptIo[] = {"stdout", "stderr", nullptr};
constexpr const char* kKeptOs[] = {"getenv", "time", "clock", "date", nullptr};
constexpr const char* kKeptDebug[] = {"getinfo", "getlocal", "traceback", nullptr};
constexpr const char* kNothing[] = {nullptr};

constexpr Entry kEntries[] = {
    {LUA_COLIBNAME, &Libraries::coroutine, nullptr}, {LUA_TABLIBNAME, &Libraries::table, nullptr},
    {LUA_STRLIBNAME, &Libraries::string, nullptr},   {LUA_UTF8LIBNAME, &Libraries::utf8, nullptr},
    {LUA_MATHLIBNAME, &Libraries::math, nullptr},    {LUA_IOLIBNAME, &Libraries::io, kKeptIo},
    {LUA_OSLIBNAME, &Libraries::os, kKeptOs},        {LUA_DBLIBNAME, &Libraries::debug, kKeptDebug},
    {LUA_LOADLIBNAME, &Libraries::package, kNothing}};

// Moves a library from the globals to the table at `to`, as far as it is kept.
void take_away(lua_State* L, const Entry& entry, int to) {
  lua_getglobal(L, entry.name);
  if (entry.kept == nullptr) {
    lua_pushvalue(L, -1);
    lua_setfield(L, to, entry.name);
  } else {
    lua_newtable(L);
    for (const char* const* name = entry.kept; *name != nullptr; ++name) {
      lua_getfield(L, -2, *name);
      lua_setfield(L, -2, *name);
    }
    if (entry.given == &Libraries::os) {
      lua_pushcfunction(L, guard<l_refuse_exit>);
      lua_setfield(L, -2, "exit");
    }
    lua_setfield(L, to, entry.name);
  }
  lua_pop(L, 1);
  lua_pushnil(L);
  lua_setglobal(L, entry.name);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_pushnil(L);
  lua_setfield(L, -2, entry.name);
  lua_pop(L, 1);
}

// Leaves `require` what is preloaded and what the standard library has.
void keep_own_searchers(lua_State* L) {
  lua_getglobal(L, LUA_LOADLIBNAME);
  lua_getfield(L, -1, "searchers");
  for (lua_Integer i = luaL_len(L, -1); i > 2; --i) {
    lua_pushnil(L);
    lua_rawseti(L, -2, i);
  }
  lua_pop(L, 2);
}

}  // namespace

void protect_libraries(lua_State* L) { change_debug(L, state_data(L).limits.strict); }

void open_libraries(lua_State* L) {
  if (!state_data(L).options.environment) {
    lua_pushboolean(L, 1);
    lua_setfield(L, LUA_REGISTRYINDEX, "LUA_NOENV");
  }
  luaL_openlibs(L);
  library::replace_string_functions(L);
  library::replace_table_functions(L);
  restrict_chunks(L);
  change_basics(L, state_data(L).limits.strict);
  change_os(L);
  redirect_output(L);
  open_bundled_files(L);
}

void restrict_libraries(lua_State* L) {
  const Libraries& given = state_data(L).options.libraries;
  if (!given.package) keep_own_searchers(L);
  lua_newtable(L);
  const int environment = lua_gettop(L);
  bool any = false;
  for (const Entry& entry : kEntries) {
    if (given.*entry.given) continue;
    take_away(L, entry, environment);
    any = true;
  }
  if (!given.io && !state_data(L).files) {
    for (const char* name : {"dofile", "loadfile"}) {
      lua_pushnil(L);
      lua_setglobal(L, name);
    }
  }
  if (any) {
    lua_createtable(L, 0, 1);
    lua_pushglobaltable(L);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, environment);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &kEnvironment);
  } else {
    lua_pop(L, 1);
  }
}

void hide_variables(lua_State* L) {
  const auto hide = [](lua_State* in, int table) {
    if (lua_getfield(in, table, LUA_OSLIBNAME) == LUA_TTABLE) {
      lua_pushcfunction(in, guard<l_no_variable>);
      lua_setfield(in, -2, "getenv");
    }
    lua_pop(in, 1);
  };
  lua_pushglobaltable(L);
  hide(L, -1);
  lua_pop(L, 1);
  if (push_stdlib_environment(L)) {
    hide(L, -1);
    lua_pop(L, 1);
  }
}

bool push_stdlib_environment(lua_State* L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &kEnvironment) == LUA_TTABLE) return true;
  lua_pop(L, 1);
  return false;
}

}  // namespace moonlet

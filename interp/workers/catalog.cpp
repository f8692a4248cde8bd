// interp/workers/catalog.cpp: the walk over the libraries, and the same walk in a fresh state.
#include "interp/workers/catalog.h"

#include <cstdlib>
#include <cstring>
#include <functional>
#include <string_view>
#include <utility>

#include "interp/binding/binding_state.h"
#include "interp/binding/op_functions.h"
#include "interp/state/libraries.h"
#include "interp/state/state.h"
#include "tensor/core/error.h"
#include "tensor/core/platform/process.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet::workers {
namespace {

constexpr const char* kLibraries[] = {LUA_COLIBNAME,   LUA_TABLIBNAME, LUA_IOLIBNAME,
                                      LUA_OSLIBNAME,   LUA_STRLIBNAME, LUA_UTF8LIBNAME,
                                      LUA_MATHLIBNAME, LUA_DBLIBNAME,  LUA_LOADLIBNAME};

bool is_library(std::string_view name) {
  // The prompt's modules hold the state of a terminal.
  if (name.substr(0, 12) == "moonlet.repl") return false;
  if (name == "moonlet" || name.substr(0, 8) == "moonlet.") return true;
  for (const char* library : kLibraries)
    if (name == library) return true;
  return false;
}

// Where the code of the Lua function on top of the stack stands, hashed; 0 for one that is not of
// the standard library.
size_t library_code(lua_State* L) {
  lua_Debug info;
  lua_pushvalue(L, -1);
  lua_getinfo(L, ">S", &info);
  const std::string_view source(info.source, info.srclen);
  const char* folder =
      state_data(L).options.environment ? platform::variable("MOONLET_STDLIB") : nullptr;
  const bool embedded = source.substr(0, 8) == "@stdlib/";
  if (!embedded && (folder == nullptr || *folder == '\0' ||
                    source.substr(0, std::strlen(folder) + 1) != "@" + std::string(folder)))
    return 0;
  return (std::hash<std::string_view>()(source) ^ static_cast<size_t>(info.linedefined)) | 1;
}

// Goes from what it has found to what lies in it; a queue instead of recursion.
class Walk {
 public:
  // Stack: the shared table on top.
  Walk(lua_State* L, Catalog& out) : L(L), out_(out) {
    shared_ = lua_gettop(L);
    push_shared(L, shared_, kNumbers);
    push_shared(L, shared_, kValues);
    numbers_ = shared_ + 1;
    values_ = shared_ + 2;
  }

  void run() {
    add_roots();
    for (size_t number = 1; number <= out_.steps.size(); ++number) {
      lua_rawgeti(L, values_, static_cast<lua_Integer>(number));
      descend(static_cast<int>(number));
      lua_settop(L, values_);
    }
    lua_settop(L, shared_);
  }

 private:
  // Numbers the value on top of the stack, where it is one of the library, and pops it.
  void add(Step step) {
    step.type = lua_type(L, -1);
    const bool lua_function = step.type == LUA_TFUNCTION && lua_iscfunction(L, -1) == 0;
    bool wanted = step.type == LUA_TTABLE || step.type == LUA_TFUNCTION;
    wanted = wanted || step.type == LUA_TUSERDATA;
    if (wanted) {
      lua_pushvalue(L, -1);
      wanted = lua_rawget(L, numbers_) == LUA_TNIL;
      lua_pop(L, 1);
    }
    if (wanted && lua_function) wanted = (step.code = library_code(L)) != 0;
    if (wanted) {
      out_.steps.push_back(std::move(step));
      const auto number = static_cast<lua_Integer>(out_.steps.size());
      lua_pushvalue(L, -1);
      lua_pushinteger(L, number);
      lua_rawset(L, numbers_);
      lua_pushvalue(L, -1);
      lua_rawseti(L, values_, number);
    }
    lua_pop(L, 1);
  }

  void add_roots() {
    lua_pushglobaltable(L);
    add({.kind = Step::Kind::Globals});
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    const int loaded = lua_gettop(L);
    lua_pushnil(L);
    while (lua_next(L, loaded) != 0) {
      if (lua_type(L, -2) != LUA_TSTRING || !is_library(lua_tostring(L, -2))) {
        lua_pop(L, 1);
        continue;
      }
      add({.kind = Step::Kind::Module, .name = lua_tostring(L, -2)});
    }
    lua_pop(L, 1);
    if (push_stdlib_environment(L)) add({.kind = Step::Kind::Environment});
    if (const int shapes = state_data(L).binding.shape_ref; shapes != 0) {
      lua_rawgeti(L, LUA_REGISTRYINDEX, shapes);
      add({.kind = Step::Kind::Shapes});
    }
  }

  // Stack: the value on top.
  void descend(int number) {
    const int value = lua_gettop(L);
    luaL_checkstack(L, 8, "catalog");
    if (lua_istable(L, value)) {
      descend_table(number, value);
    } else if (lua_isfunction(L, value) && lua_iscfunction(L, value) == 0) {
      for (int i = 1; lua_getupvalue(L, value, i) != nullptr; ++i)
        add({.kind = Step::Kind::Upvalue, .parent = number, .position = i});
    }
  }

  // The globals and the lists of modules are a script's as much as the library's.
  bool is_closed(int value) {
    lua_pushglobaltable(L);
    lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_getfield(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
    bool closed = false;
    for (int i = -3; i < 0; ++i) closed = closed || lua_rawequal(L, value, i) != 0;
    lua_pop(L, 3);
    return closed;
  }

  void descend_table(int number, int value) {
    const bool is_globals = out_.steps[number - 1].kind == Step::Kind::Globals;
    if (!is_globals && is_closed(value)) return;
    if (has_weak(L, value, 'k')) {
      out_.side_tables.push_back(number);
      return;
    }
    if (has_weak(L, value, 'v')) return;
    lua_pushnil(L);
    while (lua_next(L, value) != 0) {
      const bool named = lua_type(L, -2) == LUA_TSTRING;
      if ((!named && lua_isinteger(L, -2) == 0) || (is_globals && lua_iscfunction(L, -1) == 0)) {
        lua_pop(L, 1);
        continue;
      }
      Step step{.kind = named ? Step::Kind::Field : Step::Kind::Item, .parent = number};
      if (named)
        step.name = lua_tostring(L, -2);
      else
        step.position = lua_tointeger(L, -2);
      add(std::move(step));
    }
    if (lua_getmetatable(L, value) != 0) add({.kind = Step::Kind::Metatable, .parent = number});
  }

  lua_State* L;
  Catalog& out_;
  int shared_, numbers_, values_;
};

void push_new_shared(lua_State* L) {
  lua_createtable(L, kSent, 0);
  for (int i = kNumbers; i <= kSent; ++i) {
    lua_newtable(L);
    lua_rawseti(L, -2, i);
  }
}

// Whether the error on top of the stack says that memory is short.
bool is_out_of_memory(lua_State* L, int status) {
  if (status == LUA_ERRMEM) return true;
  const char* message = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
  return std::strstr(message, "not enough memory") != nullptr ||
         std::strstr(message, "out of memory") != nullptr;
}

// After a protected call whose failure means that something is not in this state: raises it where
// it means something else.
void raise_unless_missing(lua_State* L, int status) {
  if (status != LUA_OK && (state_data(L).stop.requested() || is_out_of_memory(L, status)))
    lua_error(L);
}

int get_field(lua_State* L) {
  lua_gettable(L, 1);
  return 1;
}

// Pushes a field of the table on top of the stack, which a namespace may load now.
void push_field(lua_State* L, const char* name) {
  const int table = lua_gettop(L);
  lua_pushstring(L, name);
  if (lua_rawget(L, table) != LUA_TNIL) return;
  if (luaL_getmetafield(L, table, "late") == LUA_TNIL) return;
  lua_settop(L, table);
  lua_pushcfunction(L, get_field);
  lua_pushvalue(L, table);
  lua_pushstring(L, name);
  raise_unless_missing(L, lua_pcall(L, 2, 1, 0));  // a message is no table or function
}

// Pushes what the step leads to in this state, or anything else.
void push_found(lua_State* L, const Step& step, int values) {
  using Kind = Step::Kind;
  switch (step.kind) {
    case Kind::Globals: lua_pushglobaltable(L); return;
    case Kind::Environment:
      if (!push_stdlib_environment(L)) lua_pushnil(L);
      return;
    case Kind::Shapes: lua_rawgeti(L, LUA_REGISTRYINDEX, state_data(L).binding.shape_ref); return;
    case Kind::Module:
      // From the registry: the global may be taken away.
      luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
      lua_getfield(L, -1, step.name.c_str());
      lua_remove(L, -2);
      return;
    default: break;
  }
  lua_rawgeti(L, values, step.parent);
  bool found = true;
  if (step.kind == Kind::Upvalue) {
    found =
        lua_isfunction(L, -1) && lua_getupvalue(L, -1, static_cast<int>(step.position)) != nullptr;
  } else if (step.kind == Kind::Metatable) {
    found = lua_istable(L, -1) && lua_getmetatable(L, -1) != 0;
  } else if (!lua_istable(L, -1)) {
    found = false;
  } else if (step.kind == Kind::Field) {
    push_field(L, step.name.c_str());
  } else {
    lua_rawgeti(L, -1, step.position);
  }
  if (!found) lua_pushnil(L);
  lua_remove(L, -2);
}

bool is_alike(lua_State* L, const Step& step) {
  if (lua_type(L, -1) != step.type) return false;
  if (step.type != LUA_TFUNCTION) return true;
  if (lua_iscfunction(L, -1) != 0) return step.code == 0;
  return step.code == library_code(L);
}

void require(lua_State* L, const char* name) {
  lua_getglobal(L, "require");
  if (lua_isfunction(L, -1)) {
    lua_pushstring(L, name);
    // A module that cannot be loaded here is missing, as all that is in it.
    const int status = lua_pcall(L, 1, 0, 0);
    raise_unless_missing(L, status);
    if (status == LUA_OK) return;
  }
  lua_pop(L, 1);
}

}  // namespace

std::string name_of(const Catalog& catalog, int number) {
  const Step& step = catalog.steps.at(static_cast<size_t>(number) - 1);
  using Kind = Step::Kind;
  switch (step.kind) {
    case Kind::Module: return step.name;
    case Kind::Globals: return "_G";
    case Kind::Environment: return "the globals of the standard library";
    case Kind::Shapes: return "the metatable of shapes";
    case Kind::Field: return text(name_of(catalog, step.parent), ".", step.name);
    case Kind::Item:
      return text(name_of(catalog, step.parent), "[", static_cast<int64_t>(step.position), "]");
    case Kind::Metatable: return text("the metatable of ", name_of(catalog, step.parent));
    case Kind::Upvalue: return text("a local of ", name_of(catalog, step.parent));
  }
  return {};
}

void push_library_value(lua_State* L, int shared, const Catalog& catalog, int number) {
  if (number < 1 || static_cast<size_t>(number) > catalog.steps.size())
    fail("workers: there is no value ", number, " among those of the library");
  push_shared(L, shared, kValues);
  lua_rawgeti(L, -1, number);
  lua_remove(L, -2);
  if (lua_type(L, -1) != catalog.steps[static_cast<size_t>(number) - 1].type)
    fail("workers: this interpreter lacks ", name_of(catalog, number),
         ", which another one has handed to it");
}

bool has_weak(lua_State* L, int index, char which) {
  if (lua_getmetatable(L, index) == 0) return false;
  lua_pushliteral(L, "__mode");
  lua_rawget(L, -2);
  const char* mode = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
  const bool weak = std::strchr(mode, which) != nullptr;
  lua_pop(L, 2);
  return weak;
}

Catalog read_catalog(lua_State* L) {
  luaL_checkstack(L, 16, "catalog");
  Catalog out;
  binding::add_all_op_functions(L);
  push_new_shared(L);
  Walk(L, out).run();
  return out;
}

std::vector<int> apply_catalog(lua_State* L, const Catalog& catalog) {
  luaL_checkstack(L, 16, "catalog");
  require(L, "moonlet");
  for (const Step& step : catalog.steps) {
    stop_if_requested();
    if (step.kind == Step::Kind::Module) require(L, step.name.c_str());
  }
  binding::add_all_op_functions(L);
  std::vector<int> missing;
  push_new_shared(L);
  const int shared = lua_gettop(L);
  push_shared(L, shared, kNumbers);
  push_shared(L, shared, kValues);
  lua_Integer number = 0;
  for (const Step& step : catalog.steps) {
    ++number;
    stop_if_requested();
    push_found(L, step, shared + 2);
    if (is_alike(L, step)) {
      lua_pushvalue(L, -1);
      lua_pushinteger(L, number);
      lua_rawset(L, shared + 1);
    } else {
      missing.push_back(static_cast<int>(number));
      lua_pop(L, 1);
      lua_pushboolean(L, 0);
    }
    lua_rawseti(L, shared + 2, number);
  }
  lua_settop(L, shared);
  return missing;
}

void forget(lua_State* L, int shared, const std::vector<int>& numbers) {
  push_shared(L, shared, kNumbers);
  push_shared(L, shared, kValues);
  for (const int number : numbers) {
    if (lua_rawgeti(L, -1, number) != LUA_TNIL) {
      lua_pushnil(L);
      lua_rawset(L, -4);
    } else {
      lua_pop(L, 1);
    }
    lua_pushnil(L);
    lua_rawseti(L, -2, number);
  }
  lua_pop(L, 2);
}

}  // namespace moonlet::workers

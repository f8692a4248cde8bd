// interp/binding/module.cpp: opens module `moonlet`: the ops, the tensor type, constants, and the
// standard library's modules on first use.
#include <cmath>
#include <cstring>
#include <limits>

#include "interp/binding/arg_reader.h"
#include "interp/binding/autograd/mode_guard.h"
#include "interp/binding/op_functions.h"
#include "interp/binding/program/program_module.h"
#include "interp/binding/tensor/complex_number.h"
#include "interp/binding/tensor/iterate.h"
#include "interp/binding/tensor/shape.h"
#include "interp/binding/tensor/sparse_rows.h"
#include "interp/embed/host_state.h"
#include "interp/state/embedded.h"
#include "interp/state/lua_check.h"
#include "interp/state/namespace.h"
#include "interp/state/nearest.h"
#include "tensor/core/storage.h"

namespace moonlet::binding {
namespace {

void register_constants(lua_State* L) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const std::string_view text = name(static_cast<DType>(i));
    lua_pushlstring(L, text.data(), text.size());
    lua_setfield(L, -2, std::string(text).c_str());
  }
  for (int i = 0; i < kMemoryFormatCount; ++i) {
    const std::string text(name(static_cast<MemoryFormat>(i)));
    lua_pushlstring(L, text.data(), text.size());
    lua_setfield(L, -2, text.c_str());
  }
  // The strings of string indices: x[{1, ml.newaxis}] and x["1, newaxis"] are one thing.
  lua_pushliteral(L, "newaxis");
  lua_setfield(L, -2, "newaxis");
  lua_pushliteral(L, "...");
  lua_setfield(L, -2, "ellipsis");
  lua_pushnumber(L, std::numeric_limits<double>::infinity());
  lua_setfield(L, -2, "inf");
  lua_pushnumber(L, std::numeric_limits<double>::quiet_NaN());
  lua_setfield(L, -2, "nan");
  lua_pushnumber(L, 3.14159265358979323846);
  lua_setfield(L, -2, "pi");
  lua_pushnumber(L, 2.71828182845904523536);
  lua_setfield(L, -2, "e");
  lua_pushstring(L, version());
  lua_setfield(L, -2, "version");
}

// Whether stdlib/ has a module of that top-level name.
bool has_module(std::string_view wanted) {
  if (wanted.empty() || wanted.find_first_of("./") != wanted.npos || wanted == "init") return false;
  for (size_t i = 0; i < kEmbeddedChunkCount; ++i) {
    std::string_view path = kEmbeddedChunks[i].name;
    const size_t end = path.find_first_of("/.");
    if (path.substr(0, end) == wanted) return true;
  }
  return false;
}

// Runs the facade, stdlib/init.lua, once: its table says which module defines a further field of
// `ml`, as in {save = "files"}. Leaves the table on the stack.
void push_facade(lua_State* L) {
  constexpr const char* kKey = "moonlet.facade";
  if (lua_getfield(L, LUA_REGISTRYINDEX, kKey) == LUA_TTABLE) return;
  lua_pop(L, 1);
  lua_newtable(L);
  bool found = false;
  for (size_t i = 0; i < kEmbeddedChunkCount; ++i)
    found = found || std::strcmp(kEmbeddedChunks[i].name, "init.lua") == 0;
  if (found) {
    load_stdlib(L, "init");
    lua_pushvalue(L, 1);
    lua_call(L, 1, 1);
    if (lua_istable(L, -1))
      lua_remove(L, -2);
    else
      lua_pop(L, 1);
  }
  lua_pushvalue(L, -1);
  lua_setfield(L, LUA_REGISTRYINDEX, kKey);
}

void push_required(lua_State* L, const std::string& module) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, module.c_str()) == LUA_TNIL) {
    lua_pop(L, 1);
    lua_getglobal(L, "require");
    lua_pushlstring(L, module.data(), module.size());
    lua_call(L, 1, 1);
  }
  lua_remove(L, -2);
}

void add_names(lua_State* L, int table, std::vector<const char*>& names) {
  lua_pushnil(L);
  while (lua_next(L, table) != 0) {
    lua_pop(L, 1);
    if (lua_type(L, -1) == LUA_TSTRING && *lua_tostring(L, -1) != '_')
      names.push_back(lua_tostring(L, -1));
  }
}

std::vector<std::string> module_names() {
  std::vector<std::string> modules;
  for (size_t i = 0; i < kEmbeddedChunkCount; ++i) {
    const std::string_view path = kEmbeddedChunks[i].name;
    if (path.find('/') == path.npos && path != "init.lua")
      modules.emplace_back(path.substr(0, path.find('.')));
  }
  return modules;
}

// Pushes the set of the names that are not in the table yet, being loaded on first use. Ops are in
// their tables from then on.
int l_late(lua_State* L) {
  add_all_op_functions(L);
  push_facade(L);
  const int facade = lua_gettop(L);
  lua_newtable(L);
  lua_pushnil(L);
  while (lua_next(L, facade) != 0) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, -4);
  }
  for (const std::string& module : module_names()) {
    lua_pushboolean(L, 1);
    lua_setfield(L, -2, module.c_str());
  }
  return 1;
}

int l_module_tostring(lua_State* L) {
  lua_settop(L, 1);
  push_required(L, "moonlet.repl.names");
  lua_getfield(L, -1, "text_of_all");
  lua_call(L, 0, 1);
  return 1;
}

// The names that are not in the table yet, being loaded on first use, count too.
[[noreturn]] void unknown_field(lua_State* L, int facade, std::string_view wanted) {
  const std::vector<std::string> modules = module_names();
  add_op_functions(L, OpTable::Module, 1);
  std::vector<const char*> names;
  for (const std::string& module : modules) names.push_back(module.c_str());
  add_names(L, 1, names);
  add_names(L, facade, names);
  const std::string hint = pytorch_name_hint(wanted);
  fail("moonlet has no field '", wanted, "'", hint.empty() ? did_you_mean(wanted, names) : hint);
}

// Whether the table on top has the field itself.
bool has_raw(lua_State* L, const std::string& key) {
  if (!lua_istable(L, -1)) return true;
  lua_pushlstring(L, key.data(), key.size());
  const bool found = lua_rawget(L, -2) != LUA_TNIL;
  lua_pop(L, 1);
  return found;
}

// Ops, and ml.nn and its like, which is required at first use; then a plain field.
int l_module_index(lua_State* L) {
  if (lua_type(L, 2) != LUA_TSTRING) return 0;
  if (push_op_function(L, OpTable::Module, 1, 2)) return 1;
  const std::string key = lua_tostring(L, 2);
  push_facade(L);
  const int facade = lua_gettop(L);
  // The facade may have set the field itself.
  lua_pushvalue(L, 2);
  if (lua_rawget(L, 1) != LUA_TNIL) return 1;
  lua_getfield(L, facade, key.c_str());
  if (lua_type(L, -1) == LUA_TSTRING) {
    push_required(L, std::string("moonlet.") + lua_tostring(L, -1));
    // A module of C++ names itself and has no such field.
    if (key != lua_tostring(L, -2) || has_raw(L, key)) lua_getfield(L, -1, key.c_str());
  } else if (has_module(key)) {
    push_required(L, "moonlet." + key);
  } else {
    if (key.starts_with("__")) return 0;
    unknown_field(L, facade, key);
  }
  lua_pushvalue(L, 2);
  lua_pushvalue(L, -2);
  lua_rawset(L, 1);
  return 1;
}

// Once for each state: a second library would not know the tensors of the first.
int open_module(lua_State* L) {
  BindingState& state = binding_state(L);
  if (state.module_ref != 0) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, state.module_ref);
    return 1;
  }
  lua_settop(L, 0);
  register_iteration(L);
  register_shapes(L);
  register_complex(L);
  lua_createtable(L, 0, 128);
  lua_createtable(L, 0, 128);
  push_new_metatable(L);
  register_ops(L);
  lua_insert(L, -2);  // ml, metatable, methods
  register_methods(L);
  register_fields(L);
  lua_remove(L, -2);  // ml, methods
  register_io(L);
  register_construct(L);
  register_elements(L);
  register_pinned(L);
  register_shape_functions(L);
  register_print(L);
  register_storage(L);
  register_tensor_classes(L);
  register_sparse_rows(L);
  register_settings(L);
  register_memory(L);
  register_device_module(L, device_type_from_name("cuda"));
  register_dtypes(L);
  register_grad_mode(L);
  register_generator(L);
  register_tape(L);
  register_modes(L);
  register_programs(L);
  lua_setfield(L, -2, "_methods");
  register_constants(L);
  lua_pushcfunction(L, guard<l_late>);
  lua_setfield(L, -2, "_late");
  lua_createtable(L, 0, 4);
  lua_pushcfunction(L, guard<l_module_index>);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, guard<l_module_pairs>);
  lua_setfield(L, -2, "__pairs");
  lua_pushcfunction(L, guard<l_module_tostring>);
  lua_setfield(L, -2, "__tostring");
  lua_setmetatable(L, -2);
  gc::set_live_bytes(L, [] { return live_bytes(); });
  gc::set_pause(L);
  state.paid_bytes = thread_allocated_bytes();
  lua_pushvalue(L, -1);
  state.module_ref = luaL_ref(L, LUA_REGISTRYINDEX);
  return 1;
}

}  // namespace
}  // namespace moonlet::binding

int luaopen_moonlet(lua_State* L) {
  if (moonlet::host_states) {
    moonlet::refuse_other_caller(L, __builtin_return_address(0));
    moonlet::admit(L);
  }
  return moonlet::guard<moonlet::binding::open_module>(L);
}

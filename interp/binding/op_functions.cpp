// interp/binding/op_functions.cpp: the ops as fields of `ml`, as methods and in `ml._internal`. An
// interpreter makes a field of an op when a script first names it: there are 1,500, of which most
// scripts use some dozen.
#include "interp/binding/op_functions.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "interp/binding/registry.h"
#include "interp/binding/tensor/tensor_userdata.h"
#include "interp/state/guard.h"
#include "interp/state/namespace.h"
#include "interp/state/state.h"
#include "tensor/core/error.h"
#include "tensor/core/left_out.h"

namespace moonlet::binding {
namespace {

bool has(const OpEntry& entry, OpTable table) {
  switch (table) {
    case OpTable::Module: return entry.is_function && std::strchr(entry.name, '.') == nullptr;
    case OpTable::Methods: return entry.is_method && !is_field(entry.name);
    case OpTable::Fields: return entry.is_method && is_field(entry.name);
    case OpTable::Internal: return entry.is_internal;
  }
  return false;
}

template <class F>
void for_each_op(F&& f) {
  for (int i = 0; i < kOpFamilyCount; ++i)
    for (int k = 0; k < kOpFamilies[i]->count; ++k) f(kOpFamilies[i]->entries[k]);
}

// All ops by their names, for all interpreters: open addressing, which is made in some 50 us.
class OpIndex {
 public:
  static const OpIndex& get() {
    static OpIndex index;
    return index;
  }
  // The last one, where several have the name.
  const OpEntry* find(std::string_view name, OpTable table) const {
    const OpEntry* found = nullptr;
    for (size_t at = hash(name); slots_[at % kSlots] != nullptr; ++at)
      if (slots_[at % kSlots]->name == name && has(*slots_[at % kSlots], table))
        found = slots_[at % kSlots];
    return found;
  }

 private:
  static constexpr size_t kSlots = 8192;

  OpIndex() {
    size_t count = 0;
    for_each_op([&](const OpEntry& entry) {
      check(++count < kSlots / 2, "more ops than their index has room for");
      size_t at = hash(entry.name);
      while (slots_[at % kSlots] != nullptr) ++at;
      slots_[at % kSlots] = &entry;
    });
  }
  static size_t hash(std::string_view name) {
    uint64_t out = 14695981039346656037u;
    for (const char c : name) out = (out ^ static_cast<unsigned char>(c)) * 1099511628211u;
    return static_cast<size_t>(out ^ out >> 32);
  }

  std::array<const OpEntry*, kSlots> slots_{};
};

// What stands for an op that the build has not. Upvalue: its name.
int l_left_out(lua_State* L) { op_left_out(lua_tostring(L, lua_upvalueindex(1))); }

void push_function(lua_State* L, const OpEntry& entry) {
  if (entry.function != nullptr) return lua_pushcfunction(L, entry.function);
  lua_pushstring(L, entry.name);
  lua_pushcclosure(L, guard<l_left_out>, 1);
}

// Sets a field of a table to the value on top, which stays.
void set_copy(lua_State* L, int table, const char* name) {
  lua_pushvalue(L, -1);
  lua_setfield(L, table, name);
}

// Sets ml.linalg.svd, for "linalg.svd", to the value on top, which stays.
void set_in_space(lua_State* L, int ml, const char* name) {
  const char* dot = std::strchr(name, '.');
  const std::string space(name, dot);
  lua_getfield(L, ml, space.c_str());
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    lua_newtable(L);
    set_copy(L, ml, space.c_str());
    make_namespace(L, space.c_str());
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_pushvalue(L, -2);
    lua_setfield(L, -2, ("moonlet." + space).c_str());
    lua_pop(L, 1);
  }
  lua_pushvalue(L, -2);
  lua_setfield(L, -2, dot + 1);
  lua_pop(L, 1);
}

template <OpTable table>
int l_op(lua_State* L) {
  lua_settop(L, 2);
  return push_op_function(L, table, 1, 2) ? 1 : 0;
}

template <OpTable table>
int l_op_pairs(lua_State* L) {
  lua_settop(L, 1);
  add_op_functions(L, table, 1);
  lua_getglobal(L, "next");
  lua_pushvalue(L, 1);
  lua_pushnil(L);
  return 3;
}

template <OpTable table>
void make_late(lua_State* L) {
  lua_createtable(L, 0, 2);
  lua_pushcfunction(L, guard<l_op<table>>);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, guard<l_op_pairs<table>>);
  lua_setfield(L, -2, "__pairs");
  lua_setmetatable(L, -2);
}

}  // namespace

bool push_op_function(lua_State* L, OpTable table, int index, int key) {
  if (lua_type(L, key) != LUA_TSTRING) return false;
  size_t length = 0;
  const char* name = lua_tolstring(L, key, &length);
  const OpEntry* entry = OpIndex::get().find({name, length}, table);
  if (entry == nullptr) return false;
  push_function(L, *entry);
  lua_pushvalue(L, key);
  lua_pushvalue(L, -2);
  lua_rawset(L, index);
  return true;
}

void add_op_functions(lua_State* L, OpTable table, int index) {
  const int top = lua_gettop(L);
  index = index > LUA_REGISTRYINDEX ? lua_absindex(L, index) : index;
  for_each_op([&](const OpEntry& entry) {
    if (!has(entry, table)) return;
    lua_pushstring(L, entry.name);
    lua_pushvalue(L, -1);
    if (lua_rawget(L, index) == LUA_TNIL) push_op_function(L, table, index, lua_gettop(L) - 1);
    lua_settop(L, top);
  });
}

void add_all_op_functions(lua_State* L) {
  const int ref = binding_state(L).module_ref;
  if (ref == 0) return;
  lua_rawgeti(L, LUA_REGISTRYINDEX, ref);
  add_op_functions(L, OpTable::Module, -1);
  lua_pushliteral(L, "_methods");
  if (lua_rawget(L, -2) == LUA_TTABLE) add_op_functions(L, OpTable::Methods, -1);
  lua_pushliteral(L, "_internal");
  if (lua_rawget(L, -3) == LUA_TTABLE) add_op_functions(L, OpTable::Internal, -1);
  lua_pop(L, 3);
}

int l_module_pairs(lua_State* L) { return l_op_pairs<OpTable::Module>(L); }

void register_ops(lua_State* L) {
  const int metatable = lua_gettop(L), methods = metatable - 1, ml = metatable - 2;
  for_each_op([&](const OpEntry& entry) {
    const bool in_space = entry.is_function && std::strchr(entry.name, '.') != nullptr;
    if (entry.metamethod == nullptr && !in_space) return;
    push_function(L, entry);
    if (entry.metamethod != nullptr) set_copy(L, metatable, entry.metamethod);
    if (in_space) set_in_space(L, ml, entry.name);
    lua_pop(L, 1);
  });
  lua_pushvalue(L, methods);
  make_late<OpTable::Methods>(L);
  lua_pop(L, 1);
  lua_newtable(L);
  make_late<OpTable::Internal>(L);
  lua_setfield(L, ml, "_internal");
}

}  // namespace moonlet::binding

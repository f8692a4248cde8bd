// interp/embed/class_members.cpp: what scripts do with classes of the host and their objects:
// `x.name`, `x.name = v`, `Class(...)`, `Class:extend "Name"`.
#include <string_view>
#include <vector>

#include "interp/embed/class_record.h"
#include "interp/embed/object_cell.h"
#include "interp/embed/session.h"
#include "interp/state/guard.h"
#include "interp/state/nearest.h"

namespace moonlet::detail {

namespace {

// The registry key of the table of class tables: record by table.
constexpr char kClassTables = 0;

ClassRecord& record_at(lua_State* L, int upvalue) {
  return *static_cast<ClassRecord*>(lua_touserdata(L, lua_upvalueindex(upvalue)));
}

int call_member(lua_State* L) {
  return call_set(L, *static_cast<const FunctionSet*>(lua_touserdata(L, lua_upvalueindex(1))));
}

// --- x.name --------------------------------------------------------------------------------------

// Pushes what a script has put into the table of a class that this one inherits from.
bool push_from_bases(lua_State* L, const ClassRecord& record, int key) {
  for (const ClassRecord* base : record.bases) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, base->table_ref);
    lua_pushvalue(L, key);
    if (lua_rawget(L, -2) != LUA_TNIL) {
      lua_remove(L, -2);
      return true;
    }
    lua_pop(L, 2);
    if (push_from_bases(L, *base, key)) return true;
  }
  return false;
}

std::string key_text(lua_State* L, int key) {
  if (lua_type(L, key) == LUA_TSTRING) return text("'", lua_tostring(L, key), "'");
  return text("[", Stack(L).describe(key), "]");
}

// The names that a class has, with those of its bases.
void collect_names(const ClassRecord& record, bool properties, std::vector<std::string>& names) {
  if (!properties)
    for (const Member& each : record.members)
      if (each.kind == MemberKind::Method || each.kind == MemberKind::Static)
        names.push_back(each.name);
  for (const auto& each : record.properties)
    names.push_back(each->get.name.substr(each->get.name.rfind('.') + 1));
  for (const ClassRecord* base : record.bases) collect_names(*base, properties, names);
}

[[noreturn]] void refuse_name(lua_State* L, const ClassRecord& record, const char* what, int key,
                              bool properties) {
  std::string hint;
  if (lua_type(L, key) == LUA_TSTRING) {
    std::vector<std::string> names;
    collect_names(record, properties, names);
    std::vector<const char*> known;
    known.reserve(names.size());
    for (const std::string& each : names) known.push_back(each.c_str());
    hint = did_you_mean(lua_tostring(L, key), known);
  }
  throw Error(record.name + " has no " + what + " " + key_text(L, key) + hint);
}

int raise_unknown(lua_State* L) {
  ClassRecord& record = record_at(L, 3);
  refuse_name(L, record, "member", 2, false);
}

// What is no member: of a base's table, of the class's fallback, an error.
int index_further(lua_State* L) {
  ClassRecord& record = record_at(L, 3);
  if (push_from_bases(L, record, 2)) return 1;
  if (record.index != nullptr) return call_set(L, *record.index);
  return guard<raise_unknown>(L);
}

int get_property(lua_State* L, const Property& property) {
  lua_settop(L, 1);
  return call_set(L, property.get);
}

// Upvalues: the class's table, its properties, the record.
int index_object(lua_State* L) {
  lua_settop(L, 2);
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(2)) == LUA_TLIGHTUSERDATA)
    return get_property(L, *static_cast<const Property*>(lua_touserdata(L, -1)));
  lua_settop(L, 2);
  return index_further(L);
}

int refuse_readonly(lua_State* L) {
  fail(lua_tostring(L, lua_upvalueindex(1)), ": the property can only be read");
}

int set_property(lua_State* L, const Property& property) {
  if (property.set.overloads.empty()) {
    lua_pushstring(L, property.get.name.c_str());
    lua_pushcclosure(L, guard<refuse_readonly>, 1);
    lua_call(L, 0, 0);
  }
  lua_settop(L, 3);
  lua_remove(L, 2);
  return call_set(L, property.set);
}

int raise_no_property(lua_State* L) { refuse_name(L, record_at(L, 3), "property", 2, true); }

// The same upvalues.
int set_index_object(lua_State* L) {
  lua_settop(L, 3);
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(2)) == LUA_TLIGHTUSERDATA)
    return set_property(L, *static_cast<const Property*>(lua_touserdata(L, -1)));
  lua_settop(L, 3);
  const ClassRecord& record = record_at(L, 3);
  if (record.new_index != nullptr) return call_set(L, *record.new_index);
  return guard<raise_no_property>(L);
}

int equal_objects(lua_State* L) {
  const ObjectCell* a = object_cell(L, 1);
  const ObjectCell* b = object_cell(L, 2);
  lua_pushboolean(L, a != nullptr && b != nullptr && a->valid() && b->valid() &&
                         a->record == b->record && a->object == b->object);
  return 1;
}

int tostring_object(lua_State* L) {
  const ObjectCell* cell = object_cell(L, 1);
  if (cell == nullptr) {
    lua_pushstring(L, luaL_typename(L, 1));
    return 1;
  }
  if (!cell->valid())
    lua_pushstring(L, describe_object(L, *cell).c_str());
  else
    lua_pushfstring(L, "%s: %p", cell->record->name.c_str(), cell->object);
  return 1;
}

// --- the class -----------------------------------------------------------------------------------

int raise_no_constructor(lua_State* L) {
  fail(record_at(L, 1).name, " has no constructor: the host makes its objects");
}

// Class(...). Upvalue: the record.
int call_class(lua_State* L) {
  const ClassRecord& record = record_at(L, 1);
  if (record.constructors == nullptr) return guard<raise_no_constructor>(L);
  if (lua_gettop(L) > 0) lua_remove(L, 1);
  return call_set(L, *record.constructors);
}

// Class.init(object, ...): makes the part of the host in an object of a script's class.
int init_object(lua_State* L) {
  const ClassRecord& record = record_at(L, 1);
  ObjectCell* const cell = object_cell(L, 1);
  check(cell != nullptr && cell->scripted && cell->record == &record, record.name,
        ".init: expected an object of a class that extends ", record.name, ", got ",
        Stack(L).describe(1));
  check(cell->object == nullptr && !cell->given, record.name, ".init: the object has been made");
  if (record.constructors == nullptr) return raise_no_constructor(L);
  const int results = call_set(L, *record.constructors, 1);
  check(results == 0, record.name, ".init: a factory makes no objects of a script's class");
  return 0;
}

int help_class(lua_State* L) {
  const std::string text = help_text(record_at(L, 1));
  lua_pushlstring(L, text.data(), text.size());
  return 1;
}

int tostring_class(lua_State* L) {
  lua_pushfstring(L, "class %s", record_at(L, 1).name.c_str());
  return 1;
}

// Class.name, for what is not in the table: what scripts have put into those of its bases.
int index_class(lua_State* L) { return push_from_bases(L, record_at(L, 1), 2) ? 1 : 0; }

void set_closure(lua_State* L, int table, const char* name, lua_CFunction function,
                 ClassRecord& record) {
  const int position = lua_absindex(L, table);
  lua_pushlightuserdata(L, &record);
  lua_pushcclosure(L, function, 1);
  lua_setfield(L, position, name);
}

void note_class_table(lua_State* L, const ClassRecord& record, int table) {
  const int position = lua_absindex(L, table);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &kClassTables) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &kClassTables);
  }
  lua_pushvalue(L, position);
  lua_pushlightuserdata(L, const_cast<ClassRecord*>(&record));
  lua_rawset(L, -3);
  lua_pop(L, 1);
}

}  // namespace

ClassRecord* class_at(lua_State* L, int index) {
  if (!lua_istable(L, index)) return nullptr;
  const int position = lua_absindex(L, index);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &kClassTables) != LUA_TTABLE) {
    lua_pop(L, 1);
    return nullptr;
  }
  lua_pushvalue(L, position);
  lua_rawget(L, -2);
  auto* const record = static_cast<ClassRecord*>(lua_touserdata(L, -1));
  lua_pop(L, 2);
  return record;
}

void push_member_function(lua_State* L, const FunctionSet& set) {
  lua_pushlightuserdata(L, const_cast<FunctionSet*>(&set));
  lua_pushcclosure(L, call_member, 1);
}

// --- pairs ---------------------------------------------------------------------------------------

namespace {
// The iterator of pairs. Upvalues: the keys, the values, how many were given out.
int next_pair(lua_State* L) {
  const lua_Integer position = lua_tointeger(L, lua_upvalueindex(3)) + 1;
  lua_pushinteger(L, position);
  lua_replace(L, lua_upvalueindex(3));
  lua_rawgeti(L, lua_upvalueindex(1), position);
  lua_rawgeti(L, lua_upvalueindex(2), position);
  return 2;
}
}  // namespace

int begin_pairs(Frame& frame) {
  frame.push_table();
  frame.push_table();
  return frame.top() - 1;
}

void add_pair(Frame& frame, int entries, int64_t position) {
  frame.set_item(entries + 1, position);
  frame.set_item(entries, position);
}

int end_pairs(Frame& frame, int entries) {
  lua_settop(frame.state(), entries + 1);
  frame.push_integer(0);
  lua_pushcclosure(frame.state(), next_pair, 3);
  return 1;
}

// --- tables --------------------------------------------------------------------------------------

void push_index_functions(lua_State* L, ClassRecord& record, int metatable) {
  const int position = lua_absindex(L, metatable);
  const struct {
    const char* name;
    lua_CFunction function;
  } functions[] = {{"__index", index_object}, {"__newindex", set_index_object}};
  for (const auto& each : functions) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, record.table_ref);
    lua_rawgeti(L, LUA_REGISTRYINDEX, record.properties_ref);
    lua_pushlightuserdata(L, &record);
    lua_pushcclosure(L, each.function, 3);
    lua_setfield(L, position, each.name);
  }
}

void fill_metatable(lua_State* L, ClassRecord& record, int metatable) {
  static const luaL_Reg kMetamethods[] = {{"__gc", guard<collect_object>},
                                          {"__close", guard<close_object>},
                                          {"__eq", guard<equal_objects>},
                                          {"__tostring", guard<tostring_object>},
                                          {nullptr, nullptr}};
  lua_pushvalue(L, metatable);
  luaL_setfuncs(L, kMetamethods, 0);
  lua_pushstring(L, record.name.c_str());
  lua_setfield(L, -2, "__name");
  // Scripts that ask for the metatable get the class.
  lua_rawgeti(L, LUA_REGISTRYINDEX, record.table_ref);
  lua_setfield(L, -2, "__metatable");
  push_index_functions(L, record, -1);
  lua_pop(L, 1);
}

void fill_class_table(lua_State* L, ClassRecord& record, int table) {
  note_class_table(L, record, table);
  set_closure(L, table, "extend", guard<extend_class>, record);
  set_closure(L, table, "init", guard<init_object>, record);
  lua_createtable(L, 0, 6);
  set_closure(L, -1, "__call", call_class, record);
  set_closure(L, -1, "__index", guard<index_class>, record);
  set_closure(L, -1, "__tostring", guard<tostring_class>, record);
  set_closure(L, -1, "__help", guard<help_class>, record);
  lua_pushstring(L, record.name.c_str());
  lua_setfield(L, -2, "__name");
  lua_setmetatable(L, table);
}

}  // namespace moonlet::detail

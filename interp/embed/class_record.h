// interp/embed/class_record.h: what an interpreter knows of the classes that its host has bound.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "interp/embed/class.h"
#include "lua.hpp"

namespace moonlet::detail {

struct Session;

// The way from a class to one of its bases, direct or not.
struct Cast {
  int number;
  std::vector<void* (*)(void*)> steps;
};

struct Property {
  ClassRecord* record;
  FunctionSet get, set;
};

struct Member {
  std::string name;
  MemberKind kind;
  std::unique_ptr<FunctionSet> set;
};

struct ClassRecord {
  Session* session = nullptr;
  int number = 0;
  std::string name, text;
  std::vector<Cast> casts;
  std::vector<ClassRecord*> bases;    // direct ones
  std::vector<ClassRecord*> derived;  // direct ones
  std::vector<Member> members;
  std::vector<std::unique_ptr<Property>> properties;
  std::set<std::string> inherited;  // which names it has from its bases
  FunctionSet* constructors = nullptr;
  FunctionSet* index = nullptr;  // its own or that of the first base that has one
  FunctionSet* new_index = nullptr;
  // Registry positions: the class's table, the metatable of its objects, its properties by name.
  int table_ref = LUA_NOREF, metatable_ref = LUA_NOREF, properties_ref = LUA_NOREF;

  Member* find(std::string_view name, MemberKind kind);
  Property* find_property(std::string_view name);
};

// Gives a number of a type the name that messages use (object.cpp).
void name_class(int number, const std::string& name);
// The object, which goes to the host, keeps the value of the script at `index` (overrides.cpp).
void hold_script_object(lua_State* L, int index, Overrides& overrides);

// What was made while the interpreter closed, when Lua finalizes nothing more.
struct LateObject {
  const ClassOps* ops;
  void* owned;
  std::shared_ptr<void> shared;
};

// A class that objects of scripts' subclasses are of, and the bound class it stands for.
struct Stand {
  int number;
  ClassRecord* record;
  void* (*upcast)(void*);
};

struct Classes {
  std::vector<std::unique_ptr<ClassRecord>> records;
  std::vector<Stand> stands;
  std::vector<ClassRecord*> by_number;
  std::vector<LateObject> late;
  int objects_ref = LUA_NOREF;  // the weak table of objects that others hold too, by address

  ~Classes();
  ClassRecord* find(int number) const noexcept {
    return static_cast<size_t>(number) < by_number.size() ? by_number[number] : nullptr;
  }
};

// Those of the interpreter; made when a first class is bound.
Classes& classes_of(Session& session);
// A class that scripts do not see yet: its table is at `table_ref`.
ClassRecord& new_class(Session& session, const std::string& name, const std::type_info& type);

// Calls a set from a C function: chooses, checks, calls, completes messages. Raises Lua errors.
// `target` is where an object stands that a constructor is to make, or 0.
int call_set(lua_State* L, const FunctionSet& set, int target = 0);

// The awaitable at an index, or null.
Awaitable* awaitable_at(lua_State* L, int index);
// "note(int32, number) -> number": for messages and help.
std::string describe(const FunctionSet& set, const Overload& overload, bool method);
// A value as messages and help show it.
std::string text_of(const Value& value);

// Adds to the metatable what it has of its own: __index, __newindex, __gc, ...
void fill_metatable(lua_State* L, ClassRecord& record, int metatable);
// The class's table: `extend`, `init` and how it is called.
void fill_class_table(lua_State* L, ClassRecord& record, int table);
// Class:extend "Name" (script_class.cpp). Upvalue: the record.
int extend_class(lua_State* L);
// Pushes a function of the class by a name, for the class's table.
void push_member_function(lua_State* L, const FunctionSet& set);

// The text of help, and the annotations of editors.
std::string help_text(const ClassRecord& record);
std::string property_type(const Property& property);
std::string stub_text(const ClassRecord& record);

}  // namespace moonlet::detail

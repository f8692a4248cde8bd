// interp/embed/class_record.cpp: classes of the host as they are bound: what an interpreter keeps
// of them, and the Lua tables that scripts see.
#include "interp/embed/class_record.h"

#include <algorithm>

#include "interp/embed/object_cell.h"
#include "interp/embed/session.h"

namespace moonlet::detail {

Classes& classes_of(Session& session) {
  if (session.classes == nullptr) session.classes = std::make_unique<Classes>();
  return *session.classes;
}

Member* ClassRecord::find(std::string_view wanted, MemberKind kind) {
  for (Member& each : members)
    if (each.name == wanted && each.kind == kind) return &each;
  return nullptr;
}

Property* ClassRecord::find_property(std::string_view wanted) {
  const std::string full = name + "." + std::string(wanted);
  for (const auto& each : properties)
    if (each->get.name == full) return each.get();
  return nullptr;
}

namespace {

// Runs `body` with the class's table, the metatable of its objects and its properties at 1 to 3.
template <class Body>
void with_tables(ClassRecord& record, Body&& body) {
  record.session->protect([&](lua_State* L) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, record.table_ref);
    lua_rawgeti(L, LUA_REGISTRYINDEX, record.metatable_ref);
    lua_rawgeti(L, LUA_REGISTRYINDEX, record.properties_ref);
    body(L);
  });
}

int reference_to_new_table(lua_State* L) {
  lua_newtable(L);
  return luaL_ref(L, LUA_REGISTRYINDEX);
}

void make_objects_table(lua_State* L, Classes& classes) {
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  classes.objects_ref = luaL_ref(L, LUA_REGISTRYINDEX);
}

// Sets a name of the class, and of the classes that inherit from it and have none of their own.
void set_member(ClassRecord& record, MemberKind kind, const std::string& name,
                const FunctionSet& set) {
  with_tables(record, [&](lua_State* L) {
    push_member_function(L, set);
    lua_setfield(L, kind == MemberKind::Metamethod ? 2 : 1, name.c_str());
  });
  for (ClassRecord* each : record.derived)
    if (each->find(name, kind) == nullptr && each->find_property(name) == nullptr)
      set_member(*each, kind, name, set);
}

void set_property(ClassRecord& record, const std::string& name, Property& property) {
  with_tables(record, [&](lua_State* L) {
    lua_pushlightuserdata(L, &property);
    lua_setfield(L, 3, name.c_str());
  });
  for (ClassRecord* each : record.derived)
    if (each->find(name, MemberKind::Method) == nullptr && each->find_property(name) == nullptr)
      set_property(*each, name, property);
}

void inherit_fallbacks(ClassRecord& record) {
  for (const ClassRecord* base : record.bases) {
    if (record.index == nullptr) record.index = base->index;
    if (record.new_index == nullptr) record.new_index = base->new_index;
  }
  for (ClassRecord* each : record.derived) inherit_fallbacks(*each);
}

void add_casts(ClassRecord& record, const ClassRecord& base, void* (*upcast)(void*)) {
  record.casts.push_back({base.number, {upcast}});
  for (const Cast& further : base.casts) {
    Cast through{further.number, {upcast}};
    through.steps.insert(through.steps.end(), further.steps.begin(), further.steps.end());
    record.casts.push_back(std::move(through));
  }
}

// What the class has no member of its own for, nor one from a nearer base.
void inherit_members(ClassRecord& record, const ClassRecord& base) {
  with_tables(record, [&](lua_State* L) {
    for (const Member& member : base.members) {
      const bool meta = member.kind == MemberKind::Metamethod;
      if (!meta && member.kind != MemberKind::Method && member.kind != MemberKind::Static) continue;
      const std::string mark = (meta ? "m " : "f ") + member.name;
      if (!record.inherited.insert(mark).second || record.find(member.name, member.kind) != nullptr)
        continue;
      push_member_function(L, *member.set);
      lua_setfield(L, meta ? 2 : 1, member.name.c_str());
    }
    for (const auto& property : base.properties) {
      const std::string name = property->get.name.substr(base.name.size() + 1);
      if (!record.inherited.insert("p " + name).second || record.find_property(name) != nullptr)
        continue;
      lua_pushlightuserdata(L, property.get());
      lua_setfield(L, 3, name.c_str());
    }
  });
}

void fill_overload(const FunctionSet& set, Overload& overload, const Details& details) {
  const size_t skipped = overload.takes_self ? 1 : 0;
  const size_t count = static_cast<size_t>(overload.form->count) - skipped;
  if (details.arguments.size() > count)
    throw Error(set.name + ": " + std::to_string(details.arguments.size()) +
                " parameters are named, it has " + std::to_string(count));
  for (const Argument& each : details.arguments) {
    overload.names.push_back(each.name);
    if (each.has_default)
      overload.defaults.push_back(each.default_value);
    else if (!overload.defaults.empty())
      throw Error(set.name + ": parameter '" + each.name +
                  "' has no default and follows one that has");
  }
  if (!overload.defaults.empty() && details.arguments.size() < count)
    throw Error(set.name + ": parameters with defaults are the last ones");
}

FunctionSet& set_of(ClassRecord& record, MemberKind kind, const std::string& name) {
  if (const Member* known = record.find(name, kind)) return *known->set;
  auto set = std::make_unique<FunctionSet>();
  set->name = kind == MemberKind::Constructor ? record.name : record.name + "." + name;
  set->strict = kind != MemberKind::Metamethod;
  record.members.push_back({name, kind, std::move(set)});
  return *record.members.back().set;
}

}  // namespace

ClassRecord& new_class(Session& session, const std::string& name, const std::type_info& type) {
  Classes& classes = classes_of(session);
  const int number = class_number(type);
  if (const ClassRecord* known = classes.find(number))
    throw Error("bind: class '" + name + "' is already bound as '" + known->name + "'");
  auto made = std::make_unique<ClassRecord>();
  ClassRecord& record = *made;
  record.session = &session;
  record.number = number;
  record.name = name.substr(name.rfind('.') + 1);
  session.protect([&](lua_State* L) {
    if (classes.objects_ref == LUA_NOREF) make_objects_table(L, classes);
    record.table_ref = reference_to_new_table(L);
    record.metatable_ref = reference_to_new_table(L);
    record.properties_ref = reference_to_new_table(L);
  });
  with_tables(record, [&](lua_State* L) {
    fill_class_table(L, record, 1);
    fill_metatable(L, record, 2);
  });
  if (classes.by_number.size() <= static_cast<size_t>(number))
    classes.by_number.resize(static_cast<size_t>(number) + 1);
  classes.by_number[number] = &record;
  classes.records.push_back(std::move(made));
  name_class(number, record.name);
  return record;
}

ClassRecord& make_class(Interpreter& interpreter, const std::string& name,
                        const std::type_info& type) {
  Session& session = Access::session(interpreter);
  ClassRecord& record = new_class(session, name, type);
  Value table;
  with_tables(record, [&](lua_State* L) { table = session.take(L, 1); });
  interpreter.set(name, table);
  return record;
}

void add_stand(ClassRecord& record, const std::type_info& overriding, void* (*upcast)(void*)) {
  record.session->classes->stands.push_back({class_number(overriding), &record, upcast});
}

void add_base(ClassRecord& record, const std::type_info& base, void* (*upcast)(void*)) {
  ClassRecord* const found = record.session->classes->find(class_number(base));
  if (found == nullptr)
    throw Error("bind: " + record.name +
                " has a base class that is not bound: " + class_name(base));
  record.bases.push_back(found);
  found->derived.push_back(&record);
  add_casts(record, *found, upcast);
  // Its members now, its later ones when they come, and those that scripts add when they are asked
  // for.
  std::vector<const ClassRecord*> all{found};
  for (size_t i = 0; i < all.size(); ++i) {
    inherit_members(record, *all[i]);
    all.insert(all.end(), all[i]->bases.begin(), all[i]->bases.end());
  }
  inherit_fallbacks(record);
}

void add_overload(ClassRecord& record, MemberKind kind, std::string_view given, Overload overload,
                  const Details& details) {
  const std::string name(given);
  FunctionSet& set = set_of(record, kind, name);
  fill_overload(set, overload, details);
  if (!details.text.empty()) set.text = details.text;
  set.overloads.push_back(std::move(overload));
  switch (kind) {
    case MemberKind::Constructor:
      record.constructors = &set;
      with_tables(record, [&](lua_State* L) {
        push_member_function(L, set);
        lua_setfield(L, 1, "new");
      });
      break;
    case MemberKind::Index: record.index = &set; break;
    case MemberKind::NewIndex: record.new_index = &set; break;
    default: set_member(record, kind, name, set);
  }
  if (kind == MemberKind::Index || kind == MemberKind::NewIndex)
    for (ClassRecord* each : record.derived) inherit_fallbacks(*each);
}

void add_property(ClassRecord& record, std::string_view given, Overload get, Overload set,
                  const Details& details) {
  const std::string name(given);
  auto made = std::make_unique<Property>();
  made->record = &record;
  made->get.name = made->set.name = record.name + "." + name;
  made->get.text = details.text;
  made->get.overloads.push_back(std::move(get));
  if (set.form != nullptr) made->set.overloads.push_back(std::move(set));
  record.properties.push_back(std::move(made));
  set_property(record, name, *record.properties.back());
}

void add_constant(ClassRecord& record, std::string_view name, Push push, void* value) {
  with_tables(record, [&](lua_State* L) {
    Stack stack(L);
    push(stack, value);
    lua_setfield(L, 1, std::string(name).c_str());
  });
}

void set_class_text(ClassRecord& record, const char* text) { record.text = text; }

}  // namespace moonlet::detail

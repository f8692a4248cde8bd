// interp/embed/script_class.cpp: classes of scripts that extend one of the host: their objects have
// fields and methods of the script beside the host's, and virtual methods ask them first.
//
// The object's user value holds its fields. The script's class is a table; the metatable of its
// objects is that of the host's class with other functions for `x.name` and its assignment.
#include <cstring>

#include "interp/embed/class_record.h"
#include "interp/embed/object_cell.h"
#include "interp/embed/session.h"
#include "interp/state/guard.h"

namespace moonlet {

// The object's value: from the table of objects while the script owns it, held while the host does.
struct Overrides::Link {
  std::shared_ptr<detail::SessionControl> control;
  const detail::ClassRecord* record;
  void* object;
  std::shared_ptr<detail::Reference> held;
  Lifetime lifetime;
  const char* base_call = nullptr;  // the method that the script calls of the host's class
};

namespace detail {

namespace {

// --- x.name --------------------------------------------------------------------------------------

// Pushes the fields of the object at 1. The functions of a metatable can be reached by `debug`, and
// called with anything.
void push_fields(lua_State* L) {
  const ObjectCell* const cell = object_cell(L, 1);
  if (cell == nullptr || !cell->scripted || lua_getiuservalue(L, 1, 1) != LUA_TTABLE)
    luaL_argerror(L, 1,
                  lua_isuserdata(L, 1) != 0 ? "the object has ended"
                                            : "expected an object of a class of the script");
}

// Upvalues: the class's table, what the host's class does for the name, its properties, the record.
int index_scripted(lua_State* L) {
  lua_settop(L, 2);
  push_fields(L);
  lua_pushvalue(L, 2);
  if (lua_rawget(L, -2) != LUA_TNIL) return 1;
  lua_settop(L, 2);
  lua_pushvalue(L, 2);
  // Through the classes that it extends, up to the host's.
  if (lua_gettable(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
  const auto* record = static_cast<const ClassRecord*>(lua_touserdata(L, lua_upvalueindex(4)));
  lua_settop(L, 2);
  lua_pushvalue(L, 2);
  // A field that the script has not set is nil.
  if (lua_rawget(L, lua_upvalueindex(3)) == LUA_TNIL && record->index == nullptr) return 1;
  lua_settop(L, 2);
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_insert(L, 1);
  lua_call(L, 2, 1);
  return 1;
}

// Upvalues: the properties of the host's class, what that does for an assignment. Everything else
// is a field.
int set_index_scripted(lua_State* L) {
  lua_settop(L, 3);
  push_fields(L);
  lua_pushvalue(L, 2);
  const bool property = lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL;
  lua_settop(L, 3);
  if (property) {
    lua_pushvalue(L, lua_upvalueindex(2));
    lua_insert(L, 1);
    lua_call(L, 3, 0);
    return 0;
  }
  push_fields(L);
  lua_insert(L, 2);
  lua_rawset(L, 2);
  return 0;
}

// --- the class -----------------------------------------------------------------------------------

bool is_own_metamethod(const char* name) {
  static constexpr const char* kKept[] = {"__gc",        "__close", "__index", "__newindex",
                                          "__metatable", "__name",  "__mode"};
  if (std::strncmp(name, "__", 2) != 0) return false;
  for (const char* each : kKept)
    if (std::strcmp(name, each) == 0) return false;
  return true;
}

// class.name = value: a metamethod is one of its objects too. Upvalue: their metatable.
int set_index_class(lua_State* L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 3);
  if (lua_type(L, 2) == LUA_TSTRING && is_own_metamethod(lua_tostring(L, 2))) {
    lua_pushvalue(L, 2);
    lua_pushvalue(L, 3);
    lua_rawset(L, lua_upvalueindex(1));
  }
  lua_rawset(L, 1);
  return 0;
}

// class(...): makes the object and calls `init`, which reaches the host's. Upvalues: the metatable
// of objects, the record.
int call_script_class(lua_State* L) {
  auto& record = *static_cast<ClassRecord*>(lua_touserdata(L, lua_upvalueindex(2)));
  lua_getfield(L, 1, "init");
  lua_replace(L, 1);
  ObjectCell* const cell = push_cell(L, record, lua_upvalueindex(1));
  lua_pushvalue(L, -1);
  lua_insert(L, 1);
  lua_insert(L, 3);
  lua_call(L, lua_gettop(L) - 2, 0);
  if (cell->object == nullptr && !cell->given)
    fail(record.name, ": init of the class that extends it does not call ", record.name,
         ".init(self, ...)");
  lua_settop(L, 1);
  return 1;
}

int tostring_script_class(lua_State* L) {
  lua_pushfstring(L, "class %s", lua_tostring(L, lua_upvalueindex(1)));
  return 1;
}

// Pushes the metatable for objects of the class at 3, which extends the one at 1: a copy of that
// one's.
void push_object_metatable(lua_State* L, ClassRecord& record) {
  lua_newtable(L);
  const int made = lua_gettop(L);
  // That of the class extended: the host's, or a script's.
  if (luaL_getmetafield(L, 1, "__objects") == LUA_TNIL)
    lua_rawgeti(L, LUA_REGISTRYINDEX, record.metatable_ref);
  const int from = lua_gettop(L);
  lua_pushnil(L);
  while (lua_next(L, from) != 0) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, made);
  }
  lua_rawgeti(L, LUA_REGISTRYINDEX, record.metatable_ref);
  lua_replace(L, from);
  lua_pushvalue(L, 3);
  lua_getfield(L, from, "__index");
  lua_rawgeti(L, LUA_REGISTRYINDEX, record.properties_ref);
  lua_pushlightuserdata(L, &record);
  lua_pushcclosure(L, index_scripted, 4);
  lua_setfield(L, made, "__index");
  lua_rawgeti(L, LUA_REGISTRYINDEX, record.properties_ref);
  lua_getfield(L, from, "__newindex");
  lua_pushcclosure(L, set_index_scripted, 2);
  lua_setfield(L, made, "__newindex");
  lua_pushvalue(L, 2);
  lua_setfield(L, made, "__name");
  lua_pushvalue(L, 3);
  lua_setfield(L, made, "__metatable");
  lua_settop(L, made);
}

}  // namespace

// Class:extend "Name" of the host's class or of one that extends it. Upvalue: the record.
int extend_class(lua_State* L) {
  auto& record = *static_cast<ClassRecord*>(lua_touserdata(L, lua_upvalueindex(1)));
  check(lua_istable(L, 1) && lua_type(L, 2) == LUA_TSTRING, record.name,
        ":extend: expected the name of the new class, as in ", record.name, ":extend \"Name\"");
  lua_settop(L, 2);
  lua_newtable(L);
  lua_pushvalue(L, 1);
  lua_setfield(L, 3, "super");
  push_object_metatable(L, record);
  lua_createtable(L, 0, 6);
  lua_pushvalue(L, 4);
  lua_setfield(L, 5, "__objects");
  lua_pushvalue(L, 1);
  lua_setfield(L, 5, "__index");
  lua_pushvalue(L, 4);
  lua_pushcclosure(L, set_index_class, 1);
  lua_setfield(L, 5, "__newindex");
  lua_pushvalue(L, 4);
  lua_pushlightuserdata(L, &record);
  lua_pushcclosure(L, guard<call_script_class>, 2);
  lua_setfield(L, 5, "__call");
  lua_pushvalue(L, 2);
  lua_pushcclosure(L, guard<tostring_script_class>, 1);
  lua_setfield(L, 5, "__tostring");
  lua_pushvalue(L, 5);
  lua_setmetatable(L, 3);
  lua_settop(L, 3);
  return 1;
}

// --- objects -------------------------------------------------------------------------------------

bool makes_subclass(const Frame& frame) { return frame.target > 0; }

void emplace_object(Frame& frame, NewObject&& object) {
  lua_State* L = frame.state();
  if (frame.target == 0) return push_object(frame, std::move(object));
  ObjectCell& cell = *object_cell(L, frame.target);
  if (cell.object != nullptr) throw Error(cell.record->name + ".init: the object has been made");
  Overrides* const overrides = object.overrides;
  if (overrides != nullptr) {
    object.lifetime = Access::link(*overrides, Session::of(L), *cell.record, object.object);
    object.tracked = true;
  }
  // What may fail comes before the object is the script's.
  cell.object = object.object;
  try {
    note_object(L, frame.target);
  } catch (...) {
    cell.object = nullptr;
    throw;
  }
  fill_cell(L, cell, std::move(object));
}

void hold_script_object(lua_State* L, int index, Overrides& overrides) {
  Access::hold(overrides, Session::of(L).refer(L, index));
}

std::weak_ptr<const void> Access::link(Overrides& overrides, Session& session,
                                       const ClassRecord& record, void* object) {
  overrides.link_ = std::make_unique<Overrides::Link>();
  overrides.link_->control = session.control;
  overrides.link_->record = &record;
  overrides.link_->object = object;
  return overrides.link_->lifetime.watch();
}

void Access::hold(Overrides& overrides, std::shared_ptr<Reference> value) {
  overrides.link_->held = std::move(value);
}

const char* Access::set_base_call(Overrides& overrides, const char* name) {
  return overrides.link_ != nullptr ? std::exchange(overrides.link_->base_call, name) : nullptr;
}

// The object's value, or nil when the script has it no more.
void Access::push_self(lua_State* L, const Overrides& overrides) {
  const Overrides::Link& link = *overrides.link_;
  if (link.held != nullptr)
    lua_rawgeti(L, LUA_REGISTRYINDEX, link.held->key);
  else if (!push_noted_object(L, *link.record, link.object))
    lua_pushnil(L);
}

void push_script_self(Stack& stack, const Overrides& object) {
  stack.reserve(6);
  Access::push_self(stack.state(), object);
}

namespace {
// Pushes the method of the class, or of one that it extends, of the script's object on top; nil
// where only the host's class has it.
void push_script_method(lua_State* L, const char* name) {
  if (lua_isnil(L, -1) || luaL_getmetafield(L, -1, "__metatable") == LUA_TNIL)
    return lua_pushnil(L);
  luaL_checkstack(L, 6, "too many classes");
  while (lua_istable(L, -1) && class_at(L, -1) == nullptr) {
    lua_pushstring(L, name);
    if (lua_rawget(L, -2) != LUA_TNIL) return;
    lua_pop(L, 1);
    lua_pushliteral(L, "super");
    lua_rawget(L, -2);
    lua_remove(L, -2);
  }
  lua_pushnil(L);
}
}  // namespace

}  // namespace detail

Overrides::Overrides() = default;
Overrides::~Overrides() = default;

std::optional<Function> Overrides::find(const char* name, bool required) const {
  std::optional<Function> method;
  if (link_ == nullptr || link_->control->session.load() == nullptr) {
    if (required)
      throw Error(std::string(name) + ": the object has no script that has this method");
    return method;
  }
  // A method of the host's class that the script calls by that name is the host's own.
  if (link_->base_call != nullptr && std::strcmp(link_->base_call, name) == 0) {
    link_->base_call = nullptr;
    if (required)
      throw Error(link_->record->name + "." + name + " is for classes that extend it to define");
    return method;
  }
  detail::Session& session = *link_->control->session.load();
  session.protect([&](lua_State* L) {
    detail::Access::push_self(L, *this);
    detail::push_script_method(L, name);
    if (!lua_isnil(L, -1)) method = session.hold_function(L, -1);
  });
  if (!method && required)
    throw Error("a class that extends " + link_->record->name + " does not define '" + name + "'");
  return method;
}

}  // namespace moonlet

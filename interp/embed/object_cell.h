// interp/embed/object_cell.h: the Lua value of an object of a host's class: a full userdata that is
// recognised by a mark in it, as those of tensors are (interp/binding/tensor/tensor_userdata.h).
// Its user value is the object that it lies in, or the fields of an object of a script's class.
#pragma once

#include <memory>
#include <string>

#include "interp/embed/class_record.h"
#include "lua.hpp"

namespace moonlet::detail {

struct ObjectCell {
  static const uint64_t kMark;

  uint64_t mark = kMark;
  ClassRecord* record = nullptr;
  void* object = nullptr;         // of the record's type; null when it has ended or is not made yet
  const ClassOps* ops = nullptr;  // with `owned`, of its static type
  void* owned = nullptr;
  std::shared_ptr<void> shared;
  std::weak_ptr<const void> lifetime;
  bool tracked = false;
  bool constant = false;
  bool noted = false;     // other holders may give it back: it is in the table of objects
  bool given = false;     // to the host, which owns it now
  bool scripted = false;  // of a class of the script
  Overrides* overrides = nullptr;

  bool valid() const noexcept { return object != nullptr && !(tracked && lifetime.expired()); }
};

inline ObjectCell* object_cell(lua_State* L, int index) {
  auto* const cell = static_cast<ObjectCell*>(lua_touserdata(L, index));
  if (cell == nullptr || lua_rawlen(L, index) != sizeof(ObjectCell)) return nullptr;
  return cell->mark == ObjectCell::kMark ? cell : nullptr;
}

// "Synth", "Synth (ended)": for messages.
std::string describe_object(lua_State* L, const ObjectCell& cell);
// The class whose table stands at an index, or null.
ClassRecord* class_at(lua_State* L, int index);

// The object as a type, or null where its class has no such base.
void* cast(const ObjectCell& cell, int number);

// Makes a userdata without an object. `metatable` is the index of the metatable of a script's
// class, whose objects have fields, or 0.
ObjectCell* push_cell(lua_State* L, ClassRecord& record, int metatable);
// Puts the object in; from here on the cell owns it.
void fill_cell(lua_State* L, ObjectCell& cell, NewObject&& object) noexcept;
// Notes that others hold the object of the userdata at `index`, so that it is pushed as that.
void note_object(lua_State* L, int index);
bool push_noted_object(lua_State* L, const ClassRecord& record, const void* object);
// __gc and __close.
int collect_object(lua_State* L);
int close_object(lua_State* L);

}  // namespace moonlet::detail

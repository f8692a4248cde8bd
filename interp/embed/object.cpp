// interp/embed/object.cpp: objects of a host's classes as values of scripts: made, looked at, given
// back, ended.
#include "interp/embed/object.h"

#include <cxxabi.h>

#include <cstdlib>
#include <deque>
#include <mutex>
#include <new>
#include <random>
#include <string>
#include <unordered_map>

#include "interp/embed/object_cell.h"
#include "interp/embed/session.h"

namespace moonlet::detail {

// --- types ---------------------------------------------------------------------------------------

namespace {

// The lowest byte is no bool's, as for the mark of tensors.
uint64_t drawn_mark() {
  std::random_device source;
  return (static_cast<uint64_t>(source()) << 32) | source() | 0x80;
}

// By their names, which are the same in all libraries of the process.
struct TypeNumbers {
  std::mutex mutex;
  std::deque<std::string> texts;  // of the keys: the library that has a name may be closed
  std::unordered_map<std::string_view, int> numbers;
  std::unordered_map<int, std::string> names;  // of bindings
};
TypeNumbers& type_numbers() {
  static auto* const numbers = new TypeNumbers;  // used until the process ends
  return *numbers;
}

std::string demangled(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  if (text == nullptr) return name;
  std::string result = text;
  std::free(text);
  return result;
}

std::string type_text(int number) {
  TypeNumbers& all = type_numbers();
  const std::lock_guard<std::mutex> lock(all.mutex);
  for (const auto& [name, each] : all.numbers)
    if (each == number) return demangled(std::string(name).c_str());
  return "of an object";
}

}  // namespace

const uint64_t ObjectCell::kMark = drawn_mark();

int class_number(const std::type_info& type) {
  TypeNumbers& all = type_numbers();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto found = all.numbers.find(type.name());
  if (found != all.numbers.end()) return found->second;
  const int number = static_cast<int>(all.numbers.size());
  all.numbers.emplace(all.texts.emplace_back(type.name()), number);
  return number;
}

std::string class_name(const std::type_info& type) {
  const int number = class_number(type);
  TypeNumbers& all = type_numbers();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto found = all.names.find(number);
  return found != all.names.end() ? found->second : demangled(type.name());
}

void name_class(int number, const std::string& name) {
  TypeNumbers& all = type_numbers();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.names[number] = name;
}

// --- classes of objects --------------------------------------------------------------------------

void* cast(const ObjectCell& cell, int number) {
  if (cell.record->number == number) return cell.object;
  for (const Cast& each : cell.record->casts) {
    if (each.number != number) continue;
    void* object = cell.object;
    for (const auto step : each.steps) object = step(object);
    return object;
  }
  return nullptr;
}

std::string describe_object(lua_State* L, const ObjectCell& cell) {
  (void)L;
  if (cell.given) return cell.record->name + " that was given to the host";
  if (!cell.valid()) return cell.record->name + " that has ended";
  return (cell.constant ? "constant " : "") + cell.record->name;
}

namespace {

[[noreturn]] void refuse_object(Stack& stack, int index, int number, bool changes) {
  const ObjectCell* cell = object_cell(stack.state(), index);
  const ClassRecord* wanted = classes_of(Session::of(stack.state())).find(number);
  const std::string name = wanted != nullptr ? wanted->name : type_text(number) + " (not bound)";
  if (cell != nullptr && cell->object == nullptr && cell->scripted && !cell->given)
    throw ConversionError("expected " + name + ", got an object whose init has not called " +
                          cell->record->name + ".init");
  if (cell != nullptr && changes && cell->constant && cell->valid() &&
      cast(*cell, number) != nullptr)
    stack.refuse(index, name + " that may be changed");
  const std::string given = stack.describe(index);
  if (cell == nullptr && given == name)  // a finalizer came back to it
    throw ConversionError("expected " + name + ", got " + name + " that has ended");
  stack.refuse(index, name);
}

}  // namespace

void* object_at(Stack& stack, int index, int number, bool changes) {
  ObjectCell* const cell = object_cell(stack.state(), index);
  if (cell == nullptr || !cell->valid() || (changes && cell->constant))
    refuse_object(stack, index, number, changes);
  void* const object = cast(*cell, number);
  if (object == nullptr) refuse_object(stack, index, number, changes);
  return object;
}

Fit fit_object(Stack& stack, int index, int number) {
  const ObjectCell* const cell = object_cell(stack.state(), index);
  if (cell == nullptr || !cell->valid()) return Fit::None;
  if (cell->record->number == number) return Fit::Exact;
  return cast(*cell, number) != nullptr ? Fit::Converted : Fit::None;
}

// --- making --------------------------------------------------------------------------------------

ObjectCell* push_cell(lua_State* L, ClassRecord& record, int metatable) {
  luaL_checkstack(L, 6, "too many objects");
  auto* const cell = new (lua_newuserdatauv(L, sizeof(ObjectCell), 1)) ObjectCell;
  cell->record = &record;
  if (metatable == 0)
    lua_rawgeti(L, LUA_REGISTRYINDEX, record.metatable_ref);
  else
    lua_pushvalue(L, metatable);
  lua_setmetatable(L, -2);
  if (metatable != 0) {
    cell->scripted = true;
    lua_newtable(L);
    lua_setiuservalue(L, -2, 1);
  }
  return cell;
}

void fill_cell(lua_State* L, ObjectCell& cell, NewObject&& object) noexcept {
  Session& session = Session::of(L);
  cell.object = object.number == cell.record->number && object.dynamic == nullptr ? object.object
                                                                                  : object.whole;
  cell.lifetime = std::move(object.lifetime);
  cell.tracked = object.tracked;
  cell.constant = object.constant;
  cell.overrides = object.overrides;
  cell.ops = object.ops;
  if (object.ops != nullptr) cell.owned = object.object;
  cell.shared = std::move(object.shared);
  if (!state_data(L).closing || (cell.owned == nullptr && cell.shared == nullptr)) return;
  // Nothing is finalized that is made while the interpreter closes.
  session.classes->late.push_back({cell.ops, cell.owned, std::move(cell.shared)});
  cell.owned = nullptr;
}

void note_object(lua_State* L, int index) {
  ObjectCell* const cell = object_cell(L, index);
  if (cell == nullptr || cell->noted) return;
  const int position = lua_absindex(L, index);
  luaL_checkstack(L, 3, "too many objects");
  lua_rawgeti(L, LUA_REGISTRYINDEX, classes_of(Session::of(L)).objects_ref);
  lua_pushvalue(L, position);
  lua_rawsetp(L, -2, cell->object);
  lua_pop(L, 1);
  cell->noted = true;
}

bool push_noted_object(lua_State* L, const ClassRecord& record, const void* object) {
  luaL_checkstack(L, 3, "too many objects");
  lua_rawgeti(L, LUA_REGISTRYINDEX, classes_of(Session::of(L)).objects_ref);
  lua_rawgetp(L, -1, object);
  lua_remove(L, -2);
  const ObjectCell* const cell = object_cell(L, -1);
  if (cell != nullptr && cell->valid() && cell->object == object && cell->record == &record)
    return true;
  lua_pop(L, 1);
  return false;
}

namespace {

// The class of the object, by its dynamic type where that is bound; what the object is then known
// by is `whole`.
ClassRecord& record_of(lua_State* L, NewObject& object) {
  Classes& classes = classes_of(Session::of(L));
  if (object.dynamic != nullptr) {
    const int number = class_number(*object.dynamic);
    if (ClassRecord* record = classes.find(number)) return *record;
    for (const Stand& each : classes.stands) {
      if (each.number != number) continue;
      object.whole = each.upcast(object.whole);
      return *each.record;
    }
    object.dynamic = nullptr;  // known by its static type only
  }
  ClassRecord* const record = classes.find(object.number);
  if (record == nullptr)
    throw Error("class " + type_text(object.number) + " is not bound in this interpreter");
  return *record;
}

}  // namespace

void push_object(Stack& stack, NewObject&& object) {
  lua_State* L = stack.state();
  ClassRecord& record = record_of(L, object);
  void* const seen = object.dynamic != nullptr ? object.whole : object.object;
  const bool known_to_others = object.ops == nullptr;
  if (known_to_others) {
    const ObjectCell* self = object.keep_self ? object_cell(L, 1) : nullptr;
    if (self != nullptr && self->valid() && self->object == seen && self->record == &record &&
        self->constant == object.constant)
      return lua_pushvalue(L, 1);
    if (push_noted_object(L, record, seen)) {
      ObjectCell& found = *object_cell(L, -1);
      if (found.constant == object.constant) {
        // What referred to it holds it from now on.
        if (object.shared != nullptr && found.owned == nullptr && found.shared == nullptr)
          found.shared = std::move(object.shared);
        return;
      }
      lua_pop(L, 1);
    }
  }
  ObjectCell* const cell = push_cell(L, record, 0);
  if (object.keep_self && object_cell(L, 1) != nullptr) {
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
  }
  fill_cell(L, *cell, std::move(object));
  if (known_to_others && !cell->constant) note_object(L, -1);
}

// --- giving back ---------------------------------------------------------------------------------

namespace {
// Keeps the object, and the script's part of it: its fields and its class.
struct Kept {
  std::shared_ptr<void> object;
  std::shared_ptr<Reference> value;
};
}  // namespace

std::shared_ptr<void> shared_at(Stack& stack, int index, int number, bool changes, void** object) {
  lua_State* L = stack.state();
  *object = object_at(stack, index, number, changes);
  ObjectCell& cell = *object_cell(L, index);
  if (cell.owned != nullptr) {
    note_object(L, index);
    void* const owned = std::exchange(cell.owned, nullptr);
    try {
      cell.shared = cell.ops->share(owned);
    } catch (...) {
      cell.object = nullptr;  // it ended with the failure
      throw;
    }
  }
  if (cell.shared == nullptr)
    throw ConversionError("expected " + cell.record->name +
                          " that is shared or the script's own, got one that the host keeps");
  if (!cell.scripted) return cell.shared;
  return std::make_shared<Kept>(Kept{cell.shared, Session::of(L).refer(L, index)});
}

void* release_at(Stack& stack, int index, int number, bool any) {
  lua_State* L = stack.state();
  void* const object = object_at(stack, index, number, true);
  ObjectCell& cell = *object_cell(L, index);
  if (cell.owned == nullptr)
    throw ConversionError("expected " + cell.record->name +
                          " that is the script's own, got one that others hold");
  if (!any && cell.ops->number() != number)
    throw ConversionError("expected an object of exactly this class, got " + cell.record->name +
                          " (the class has no virtual destructor)");
  if (cell.overrides != nullptr) {
    // The script's part goes with it.
    hold_script_object(L, index, *cell.overrides);
    note_object(L, index);
    cell.owned = nullptr;
    return object;
  }
  cell.owned = nullptr;
  cell.object = nullptr;
  cell.given = true;
  return object;
}

// --- ends ----------------------------------------------------------------------------------------

namespace {

void end_object(lua_State* L, ObjectCell& cell) {
  void* const owned = std::exchange(cell.owned, nullptr);
  std::shared_ptr<void> shared = std::move(cell.shared);
  cell.object = nullptr;
  cell.overrides = nullptr;
  try {
    if (owned != nullptr) cell.ops->destroy(owned);
    shared.reset();
  } catch (const std::exception& e) {
    lua_warning(L, ("the destructor of " + cell.record->name + " threw: ").c_str(), 1);
    lua_warning(L, e.what(), 0);
  }
}

}  // namespace

int collect_object(lua_State* L) {
  ObjectCell* const cell = object_cell(L, 1);
  if (cell == nullptr) return 0;
  end_object(L, *cell);
  cell->mark = 0;
  cell->~ObjectCell();
  return 0;
}

int close_object(lua_State* L) {
  if (ObjectCell* const cell = object_cell(L, 1)) end_object(L, *cell);
  return 0;
}

Classes::~Classes() {
  for (const LateObject& each : late)
    if (each.owned != nullptr) each.ops->destroy(each.owned);
}

}  // namespace moonlet::detail

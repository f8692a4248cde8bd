// interp/workers/pack.cpp: the walk over what a message holds, breadth first: values lie in one
// another as deep as a script likes.
#include "interp/workers/pack.h"

#include <algorithm>
#include <cstring>

#include "interp/binding/defined_ops.h"
#include "interp/binding/random_generator.h"
#include "interp/binding/tensor/complex_number.h"
#include "interp/binding/tensor/storage.h"
#include "interp/binding/tensor/tensor_userdata.h"
#include "tensor/core/error.h"
#include "tensor/program/parts/deferred_call.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet::workers {

using Kind = Value::Kind;

namespace {

Value object_value(uint32_t number) {
  Value value;
  value.kind = Kind::Object;
  value.object = number;
  return value;
}

int append(lua_State*, const void* data, size_t size, void* to) {
  static_cast<std::string*>(to)->append(static_cast<const char*>(data), size);
  return 0;
}

TensorObject tensor_object(const Tensor& tensor) {
  if (!tensor.defined()) throw CannotCross("a tensor that was freed");
  if (tensor.storage().stand_in() != nullptr)
    throw CannotCross("a tensor of a function inside vmap");
  const bool requires_grad = tensor.requires_grad();
  if (requires_grad &&
      (tensor.impl()->autograd == nullptr || !tensor.impl()->autograd->requires_grad ||
       tensor.impl()->autograd->has_history))
    throw CannotCross(
        "a tensor that requires grad and is no leaf; graphs do not cross to another thread, "
        "x:detach() does");
  program::run_deferred();
  tensor.storage().hand_over();
  return {shallow_copy(tensor), requires_grad};
}

std::string name_of(lua_State* L, int index) {
  if (luaL_getmetafield(L, index, "__name") == LUA_TNIL) return "a userdata";
  const char* name = lua_tostring(L, -1);
  std::string out = name == nullptr                          ? "a userdata"
                    : std::strcmp(name, LUA_FILEHANDLE) == 0 ? "an open file"
                                                             : text("a userdata of kind ", name);
  lua_pop(L, 1);
  return out;
}

}  // namespace

Packer::Packer(lua_State* state, int shared, const Catalog& catalog)
    : L(state), shared_(lua_absindex(state, shared)), catalog_(catalog) {
  luaL_checkstack(L, 24, "too many values");
  lua_newtable(L);
  memo_ = lua_gettop(L);
  lua_newtable(L);
  found_ = lua_gettop(L);
}

// --- the ways to values --------------------------------------------------------------------------

std::string Packer::text_of_key(int key) {
  if (key == 0) return {};
  const int type = lua_type(L, key);
  if (type == LUA_TSTRING) return text(".", lua_tostring(L, key));
  lua_pushvalue(L, key);  // as lua_tostring would change the key
  const char* number = type == LUA_TNUMBER ? lua_tostring(L, -1) : luaL_typename(L, -1);
  std::string out = text("[", number, "]");
  lua_pop(L, 1);
  return out;
}

std::string Packer::way_to(const Trace& trace) const {
  // Long ways, as through a linked list, keep their ends.
  constexpr size_t kMost = 12;
  std::vector<const Trace*> way{&trace};
  while (way.back()->from != 0) way.push_back(&traces_[way.back()->from - 1]);
  std::string out;
  for (size_t i = way.size(); i-- > 0;) {
    if (way.size() > kMost && i < way.size() - kMost / 2 && i >= kMost / 2) {
      if (i == kMost / 2) out += " ... ";
      continue;
    }
    const Trace& step = *way[i];
    switch (step.kind) {
      case Trace::Kind::Root: out += step.name; break;
      case Trace::Kind::Field: out += step.name == ".__index" ? "" : step.name; break;
      case Trace::Kind::Key: out += " (a key)"; break;
      case Trace::Kind::Metatable: break;
      case Trace::Kind::Local: out += text(" (local '", step.name, "')"); break;
    }
  }
  return out;
}

void Packer::refuse(const Trace& trace, const std::string& what) const {
  throw CannotCross(
      text(way_to(trace), ": ", what, " cannot be handed to another thread's interpreter"));
}

// --- references ----------------------------------------------------------------------------------

// Whether a value that crossed at the start stands for itself on the way back: functions, and
// tables that others have as metatable, such as classes.
bool Packer::keeps_identity(int index, Trace::Kind kind) {
  if (lua_isfunction(L, index) || kind == Trace::Kind::Metatable) return true;
  lua_pushliteral(L, "__index");
  const bool is_class = lua_rawget(L, index) != LUA_TNIL;
  lua_pop(L, 1);
  return is_class;
}

bool Packer::find_shared(int index, Trace::Kind kind, Object& out) {
  push_shared(L, shared_, kNumbers);
  lua_pushvalue(L, index);
  const bool in_library = lua_rawget(L, -2) != LUA_TNIL;
  if (in_library) out = LibraryObject{static_cast<int>(lua_tointeger(L, -1))};
  lua_pop(L, 2);
  if (in_library || lua_isuserdata(L, index)) return in_library;
  push_shared(L, shared_, kSentPositions);
  lua_pushvalue(L, index);
  const bool sent = lua_rawget(L, -2) != LUA_TNIL;
  const auto position = static_cast<uint32_t>(lua_tointeger(L, -1));
  lua_pop(L, 2);
  if (!sent || !keeps_identity(index, kind)) return false;
  out = SentObject{position};
  return true;
}

uint32_t Packer::new_object(int index) {
  message_.objects.emplace_back();
  const auto number = static_cast<uint32_t>(message_.objects.size());
  if (index != 0) {
    lua_pushvalue(L, index);
    lua_pushinteger(L, number);
    lua_rawset(L, memo_);
    lua_pushvalue(L, index);
    lua_rawseti(L, found_, number);
  }
  return number;
}

Value Packer::refer(int index, uint32_t from, Trace::Kind kind, int key, const char* name) {
  index = lua_absindex(L, index);
  Value out;
  switch (lua_type(L, index)) {
    case LUA_TNIL: return out;
    case LUA_TBOOLEAN:
      out.kind = lua_toboolean(L, index) != 0 ? Kind::True : Kind::False;
      return out;
    case LUA_TNUMBER:
      out.kind = lua_isinteger(L, index) != 0 ? Kind::Integer : Kind::Number;
      if (out.kind == Kind::Integer)
        out.integer = lua_tointeger(L, index);
      else
        out.number = lua_tonumber(L, index);
      return out;
    case LUA_TLIGHTUSERDATA:
      out.kind = Kind::Pointer;
      out.pointer = lua_touserdata(L, index);
      return out;
    default: break;
  }
  lua_pushvalue(L, index);
  const bool known = lua_rawget(L, memo_) != LUA_TNIL;
  const auto number = static_cast<uint32_t>(lua_tointeger(L, -1));
  lua_pop(L, 1);
  if (known) return object_value(number);
  Trace trace{from, kind, {}};
  const bool text = lua_type(L, index) == LUA_TSTRING;
  if (!text) trace.name = key != 0 ? text_of_key(key) : name;
  if (lua_isthread(L, index)) refuse(trace, "a coroutine");
  const uint32_t made = new_object(index);
  traces_.push_back(std::move(trace));
  if (text) {
    size_t size = 0;
    const char* bytes = lua_tolstring(L, index, &size);
    message_.objects[made - 1] = std::string(bytes, size);
  }
  return object_value(made);
}

// --- objects -------------------------------------------------------------------------------------

// Fills the object with what is on top of the stack.
void Packer::fill(uint32_t object) {
  const Trace::Kind kind = traces_[object - 1].kind;
  Object shared;
  if (find_shared(lua_gettop(L), kind, shared)) {
    message_.objects[object - 1] = std::move(shared);
    return;
  }
  switch (lua_type(L, -1)) {
    case LUA_TTABLE:
      if (kind == Trace::Kind::Local && traces_[object - 1].name == "_ENV") {
        message_.objects[object - 1] = TableObject();
        environments_.push_back(object);
        fill_metatable(object);
      } else {
        fill_table(object);
      }
      break;
    case LUA_TFUNCTION: fill_function(object); break;
    default: fill_userdata(object); break;
  }
}

void Packer::fill_table(uint32_t object) {
  const int table = lua_gettop(L);
  TableObject out;
  // What a weak table holds may be gone at any time.
  if (!has_weak(L, table, 'k') && !has_weak(L, table, 'v')) {
    lua_pushnil(L);
    while (lua_next(L, table) != 0) {
      const Value value = refer(-1, object, Trace::Kind::Field, table + 1);
      const Value key = refer(-2, object, Trace::Kind::Key);
      out.fields.emplace_back(key, value);
      lua_pop(L, 1);
    }
  }
  message_.objects[object - 1] = std::move(out);
  fill_metatable(object);
}

void Packer::fill_metatable(uint32_t object) {
  if (lua_getmetatable(L, -1) == 0) return;
  has_objects_ = true;
  const Value metatable = refer(-1, object, Trace::Kind::Metatable);
  std::get<TableObject>(message_.objects[object - 1]).metatable = metatable;
  lua_pop(L, 1);
}

// The variables of functions that were loaded with an environment of their own are like globals:
// what cannot cross is an error for who uses it.
void Packer::fill_environment(uint32_t object) {
  lua_rawgeti(L, found_, object);
  const int table = lua_gettop(L);
  lua_pushnil(L);
  while (lua_next(L, table) != 0) {
    const size_t before = mark();
    try {
      const Value value = refer(table + 2, object, Trace::Kind::Field, table + 1);
      const Value key = refer(table + 1, object, Trace::Kind::Key);
      drain_objects();
      std::get<TableObject>(message_.objects[object - 1]).fields.emplace_back(key, value);
    } catch (const CannotCross& e) {
      lua_settop(L, table + 2);
      roll_back(before);
      if (lua_type(L, table + 1) == LUA_TSTRING)
        std::get<TableObject>(message_.objects[object - 1])
            .missing.emplace_back(lua_tostring(L, table + 1), e.what());
    }
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

void Packer::fill_function(uint32_t object) {
  if (lua_iscfunction(L, -1) != 0) {
    if (binding::is_defined_op(L, -1)) refuse(traces_[object - 1], "an op of ml.ops.define");
    Object found = c_function();
    if (std::get<PathObject>(found).names.empty()) refuse(traces_[object - 1], "a C function");
    message_.objects[object - 1] = std::move(found);
    return;
  }
  const int function = lua_gettop(L);
  has_objects_ = true;
  FunctionObject out;
  lua_dump(L, append, &out.code, 0);
  const char* name = nullptr;
  for (int i = 1; (name = lua_getupvalue(L, function, i)) != nullptr; ++i) {
    const void* id = lua_upvalueid(L, function, i);
    auto [at, is_new] = cells_.try_emplace(id, 0);
    if (is_new) {
      const uint32_t cell = at->second = new_object(0);
      traces_.push_back({object, Trace::Kind::Local, name});
      const Value value = refer(-1, object, Trace::Kind::Local, 0, name);
      message_.objects[cell - 1] = CellObject{value};
    }
    out.cells.push_back(at->second);
    lua_pop(L, 1);
  }
  message_.objects[object - 1] = std::move(out);
}

void Packer::fill_userdata(uint32_t object) {
  Object& out = message_.objects[object - 1];
  const int index = lua_gettop(L);
  try {
    if (const Tensor* tensor = binding::tensor_cell(L, index)) {
      out = tensor_object(*tensor);
      has_objects_ = has_objects_ || std::get<TensorObject>(out).requires_grad;
      return;
    }
  } catch (const CannotCross& e) {
    throw CannotCross(text(way_to(traces_[object - 1]), ": ", e.what()));
  }
  if (const TypedStorage* storage = binding::storage_cell(L, index)) {
    if (!storage->defined())
      throw CannotCross(text(way_to(traces_[object - 1]), ": a storage that was freed"));
    program::run_deferred();
    storage->storage().hand_over();
    out = StorageObject{*storage};
  } else if (const Generator* generator = binding::test_generator(L, index)) {
    out = *generator;
  } else if (const auto number = binding::complex_at(L, index)) {
    out = ComplexObject{number->real(), number->imag()};
  } else {
    refuse(traces_[object - 1], name_of(L, index));
  }
}

// --- C functions of modules that scripts load
// ------------------------------------------------------

// Looks in the table for the C function that c_function has put aside.
bool Packer::find_path(int table, int depth, std::vector<std::string>& names) {
  bool found = false;
  lua_pushnil(L);
  while (!found && lua_next(L, table) != 0) {
    if (lua_type(L, -2) == LUA_TSTRING) {
      names.emplace_back(lua_tostring(L, -2));
      lua_rawgeti(L, found_, 0);
      found = lua_rawequal(L, -1, -2) != 0;
      lua_pop(L, 1);
      if (!found && depth > 1 && lua_istable(L, -1)) {
        luaL_checkstack(L, 8, "modules");
        found = find_path(lua_gettop(L), depth - 1, names);
      }
      if (!found) names.pop_back();
    }
    lua_pop(L, 1);
  }
  if (found) lua_pop(L, 1);  // the key
  return found;
}

// The way to the C function on top of the stack, from a module on; empty where there is none.
Object Packer::c_function() {
  constexpr int kDepth = 4;  // the list of modules, a module, a field, a field of it
  PathObject out;
  lua_pushvalue(L, -1);
  lua_rawseti(L, found_, 0);
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  find_path(lua_gettop(L), kDepth, out.names);
  lua_pop(L, 1);
  lua_pushnil(L);
  lua_rawseti(L, found_, 0);
  return out;
}

// --- what is added -------------------------------------------------------------------------------

void Packer::drain() {
  for (drain_objects(); !environments_.empty(); drain_objects()) {
    const uint32_t object = environments_.back();
    environments_.pop_back();
    fill_environment(object);
  }
}

// Fills the objects that were met and not looked into.
void Packer::drain_objects() {
  while (filled_ < message_.objects.size()) {
    stop_if_requested();
    const auto number = static_cast<uint32_t>(++filled_);
    const int type = lua_rawgeti(L, found_, number);
    if (type != LUA_TSTRING && type != LUA_TNIL) fill(number);
    lua_pop(L, 1);
  }
}

Value Packer::add(const std::string& name) {
  const Value out = refer(-1, 0, Trace::Kind::Root, 0, name.c_str());
  lua_pop(L, 1);
  drain();
  return out;
}

void Packer::add_values(int first, int last, const char* const* names, size_t count) {
  for (int i = first; i <= last; ++i) {
    const auto position = static_cast<size_t>(i - first);
    lua_pushvalue(L, i);
    message_.values.push_back(
        add(position < count ? names[position] : text("value ", i - first + 1)));
  }
}

void Packer::add_entries_of(int number) {
  push_shared(L, shared_, kValues);
  lua_rawgeti(L, -1, number);
  lua_remove(L, -2);
  const int table = lua_gettop(L);
  if (lua_istable(L, table)) {
    lua_pushnil(L);
    while (lua_next(L, table) != 0) {
      lua_pushvalue(L, -2);
      if (lua_rawget(L, memo_) != LUA_TNIL) {
        const auto object = static_cast<uint32_t>(lua_tointeger(L, -1));
        const Object& key = message_.objects[object - 1];
        if (!std::holds_alternative<LibraryObject>(key) &&
            !std::holds_alternative<SentObject>(key)) {
          const Value value = refer(-2, object, Trace::Kind::Metatable);
          message_.side_entries.push_back({number, object_value(object), value});
        }
      }
      lua_pop(L, 2);
    }
  }
  lua_settop(L, table - 1);
}

void Packer::add_side_entries() {
  // An entry may lead to values that have entries, so this ends when nothing is new.
  size_t before = 0;
  do {
    before = message_.objects.size();
    message_.side_entries.clear();
    for (const int table : catalog_.side_tables) add_entries_of(table);
    drain();
  } while (message_.objects.size() != before);
}

void Packer::add_modules() {
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  const int loaded = lua_gettop(L);
  lua_pushnil(L);
  while (lua_next(L, loaded) != 0) {
    if (lua_type(L, -2) == LUA_TSTRING && lua_rawget(L, memo_) != LUA_TNIL) {
      const auto object = static_cast<uint32_t>(lua_tointeger(L, -1));
      if (!std::holds_alternative<LibraryObject>(message_.objects[object - 1]))
        message_.modules.emplace_back(lua_tostring(L, -2), object_value(object));
    }
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

void Packer::roll_back(size_t mark) {
  for (size_t number = message_.objects.size(); number > mark; --number) {
    if (lua_rawgeti(L, found_, static_cast<lua_Integer>(number)) != LUA_TNIL) {
      lua_pushnil(L);
      lua_rawset(L, memo_);
    } else {
      lua_pop(L, 1);
    }
    lua_pushnil(L);
    lua_rawseti(L, found_, static_cast<lua_Integer>(number));
  }
  message_.objects.resize(mark);
  traces_.resize(mark);
  filled_ = std::min(filled_, mark);
  std::erase_if(environments_, [mark](uint32_t object) { return object > mark; });
  std::erase_if(cells_, [mark](const auto& cell) { return cell.second > mark; });
}

void Packer::note_sent() {
  push_shared(L, shared_, kSentPositions);
  push_shared(L, shared_, kSent);
  for (size_t number = 1; number <= message_.objects.size(); ++number) {
    const Object& object = message_.objects[number - 1];
    if (!std::holds_alternative<TableObject>(object) &&
        !std::holds_alternative<FunctionObject>(object))
      continue;
    lua_rawgeti(L, found_, static_cast<lua_Integer>(number));
    lua_pushvalue(L, -1);
    lua_rawseti(L, -3, static_cast<lua_Integer>(number));
    lua_pushinteger(L, static_cast<lua_Integer>(number));
    lua_rawset(L, -4);
  }
  lua_pop(L, 2);
}

}  // namespace moonlet::workers

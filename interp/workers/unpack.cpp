// interp/workers/unpack.cpp: first all objects, then what they lead to, then metatables.
#include "interp/workers/unpack.h"

#include "autograd/tape.h"
#include "interp/binding/random_generator.h"
#include "interp/binding/tensor/complex_number.h"
#include "interp/binding/tensor/storage.h"
#include "interp/embed/lua_api.h"
#include "interp/state/state.h"
#include "tensor/core/error.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet::workers {

using Kind = Value::Kind;

namespace {

struct Reading {
  const std::string* code;
  bool done;
};

const char* read(lua_State*, void* data, size_t* size) {
  auto& reading = *static_cast<Reading*>(data);
  *size = reading.done ? 0 : reading.code->size();
  reading.done = true;
  return *size != 0 ? reading.code->data() : nullptr;
}

}  // namespace

int missing_value(lua_State* L) {
  lua_settop(L, 2);
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL)
    return luaL_error(L, "%s", lua_tostring(L, -1));
  lua_settop(L, 2);
  if (lua_isnil(L, lua_upvalueindex(2))) return 0;
  if (!lua_isfunction(L, lua_upvalueindex(2))) {
    lua_gettable(L, lua_upvalueindex(2));
    return 1;
  }
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_insert(L, 1);
  lua_call(L, 2, 1);
  return 1;
}

Unpacker::Unpacker(lua_State* state, int shared, const Catalog& catalog, const Message& message)
    : L(state), shared_(lua_absindex(state, shared)), catalog_(catalog), message_(message) {
  luaL_checkstack(L, 24, "too many values");
  lua_newtable(L);
  made_ = lua_gettop(L);
  make_objects();
  set_metatables();
  set_side_entries();
  set_modules();
}

void Unpacker::make_objects() {
  const size_t count = message_.objects.size();
  homes_.resize(count + 1);
  for (size_t number = 1; number <= count; ++number) {
    stop_if_requested();
    make(number);
  }
  for (size_t number = 1; number <= count; ++number) {
    stop_if_requested();
    fill(number);
  }
}

void Unpacker::set_metatables() {
  for (size_t number = 1; number <= message_.objects.size(); ++number) {
    const auto* table = std::get_if<TableObject>(&message_.objects[number - 1]);
    if (table == nullptr) continue;
    lua_rawgeti(L, made_, static_cast<lua_Integer>(number));
    const int target = lua_gettop(L);
    if (table->metatable.kind != Kind::Nil) {
      push(table->metatable);
      set_metatable(target);
    }
    if (!table->missing.empty()) set_missing(*table);
    lua_pop(L, 1);
  }
}

// Gives the table at `target` the metatable on top of the stack, and pops that. Under limits it
// gets no finalizer, since these run where no hook stops them: Lua looks for `__gc` now, and what a
// script puts into the metatable of a table that has it already is none.
void Unpacker::set_metatable(int target) {
  if (!lua_istable(L, -1)) fail("workers: a metatable came as a ", luaL_typename(L, -1));
  bool has_finalizer = false;
  if (state_data(L).limits.strict) {
    lua_pushliteral(L, "__gc");
    has_finalizer = lua_rawget(L, -2) != LUA_TNIL;
  } else {
    lua_pushnil(L);
  }
  if (has_finalizer) {
    lua_pushliteral(L, "__gc");
    lua_pushnil(L);
    lua_rawset(L, -4);
  }
  lua_pushvalue(L, -2);
  lua_setmetatable(L, target);
  if (has_finalizer) {
    // The key is still there, so this needs no memory.
    lua_pushliteral(L, "__gc");
    lua_pushvalue(L, -2);
    lua_rawset(L, -4);
  }
  lua_pop(L, 2);
}

void Unpacker::set_side_entries() {
  for (const SideEntry& entry : message_.side_entries) {
    push_library_value(L, shared_, catalog_, entry.table);
    push(entry.key);
    push(entry.value);
    lua_rawset(L, -3);
    lua_pop(L, 1);
  }
}

void Unpacker::set_modules() {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  for (const auto& [name, value] : message_.modules) {
    push(value);
    lua_setfield(L, -2, name.c_str());
  }
  lua_pop(L, 1);
}

// Gives the table on top of the stack a metatable like its own with missing_value.
void Unpacker::set_missing(const TableObject& table) {
  const int target = lua_gettop(L);
  lua_newtable(L);
  const bool had = lua_getmetatable(L, target) != 0;
  if (had) {
    lua_pushnil(L);
    while (lua_next(L, -2) != 0) {
      lua_pushvalue(L, -2);
      lua_insert(L, -2);
      lua_rawset(L, target + 1);
    }
    lua_pop(L, 1);
  }
  lua_newtable(L);
  for (const auto& [name, why] : table.missing) {
    lua_pushstring(L, why.c_str());
    lua_setfield(L, -2, name.c_str());
  }
  lua_pushliteral(L, "__index");
  lua_rawget(L, target + 1);
  lua_pushcclosure(L, missing_value, 2);
  lua_setfield(L, target + 1, "__index");
  set_metatable(target);
}

void Unpacker::push(const Value& value) {
  switch (value.kind) {
    case Kind::Nil: lua_pushnil(L); break;
    case Kind::False: lua_pushboolean(L, 0); break;
    case Kind::True: lua_pushboolean(L, 1); break;
    case Kind::Integer: lua_pushinteger(L, value.integer); break;
    case Kind::Number: lua_pushnumber(L, value.number); break;
    case Kind::Pointer: lua_pushlightuserdata(L, value.pointer); break;
    case Kind::Object: lua_rawgeti(L, made_, value.object); break;
  }
}

int Unpacker::push_values() {
  const auto count = static_cast<int>(message_.values.size());
  luaL_checkstack(L, count, "too many values");
  for (const Value& value : message_.values) push(value);
  return count;
}

void Unpacker::make_function(const FunctionObject& function) {
  Reading reading{&function.code, false};
  if (lua_load(L, read, &reading, "=function", "b") != LUA_OK) lua_error(L);
}

void Unpacker::make_tensor(const TensorObject& object) {
  Tensor tensor = shallow_copy(object.tensor);
  if (object.requires_grad) set_requires_grad(tensor, true);
  // Another thread has allocated it, and this state's collector is to know of it.
  gc::allocated(L, static_cast<int64_t>(tensor.storage().bytes()));
  push_tensor(L, std::move(tensor));
}

void Unpacker::make_path(const PathObject& path) {
  lua_getglobal(L, "require");
  lua_pushstring(L, path.names[0].c_str());
  lua_call(L, 1, 1);
  for (size_t i = 1; i < path.names.size(); ++i) {
    if (!lua_istable(L, -1)) break;
    lua_pushstring(L, path.names[i].c_str());
    lua_rawget(L, -2);
    lua_remove(L, -2);
  }
  if (!lua_isfunction(L, -1))
    fail("the module '", path.names[0], "' has no function '", path.names.back(), "' here");
}

// What crossed at the start and comes back.
void Unpacker::push_sent(uint32_t position) {
  push_shared(L, shared_, kSent);
  const int type = lua_rawgeti(L, -1, position);
  if (type != LUA_TTABLE && type != LUA_TFUNCTION)
    fail("workers: what was handed over at the start is not there any more");
  lua_remove(L, -2);
}

void Unpacker::make(size_t number) {
  const Object& object = message_.objects[number - 1];
  if (const auto* string = std::get_if<std::string>(&object)) {
    lua_pushlstring(L, string->data(), string->size());
  } else if (const auto* table = std::get_if<TableObject>(&object)) {
    lua_createtable(L, 0, static_cast<int>(table->fields.size()));
  } else if (const auto* function = std::get_if<FunctionObject>(&object)) {
    make_function(*function);
  } else if (const auto* tensor = std::get_if<TensorObject>(&object)) {
    make_tensor(*tensor);
  } else if (const auto* storage = std::get_if<StorageObject>(&object)) {
    binding::push_storage(L, storage->storage);
  } else if (const auto* generator = std::get_if<Generator>(&object)) {
    binding::push_generator(L, *generator);
  } else if (const auto* complex = std::get_if<ComplexObject>(&object)) {
    binding::push_complex(L, {complex->real, complex->imaginary});
  } else if (const auto* library = std::get_if<LibraryObject>(&object)) {
    push_library_value(L, shared_, catalog_, library->number);
  } else if (const auto* sent = std::get_if<SentObject>(&object)) {
    push_sent(sent->position);
  } else if (const auto* path = std::get_if<PathObject>(&object)) {
    make_path(*path);
  } else {
    return;  // a cell lives in its functions
  }
  lua_rawseti(L, made_, static_cast<lua_Integer>(number));
}

void Unpacker::fill_cells(const FunctionObject& function, int index) {
  const auto number = static_cast<uint32_t>(index);
  lua_rawgeti(L, made_, index);
  for (size_t i = 0; i < function.cells.size(); ++i) {
    const uint32_t cell = function.cells[i];
    auto& [home, position] = homes_[cell];
    const int here = static_cast<int>(i) + 1;
    if (home != 0) {
      lua_rawgeti(L, made_, home);
      lua_upvaluejoin(L, -2, here, -1, position);
      lua_pop(L, 1);
      continue;
    }
    home = number;
    position = here;
    push(std::get<CellObject>(message_.objects[cell - 1]).value);
    lua_setupvalue(L, -2, here);
  }
  lua_pop(L, 1);
}

void Unpacker::fill(size_t number) {
  const Object& object = message_.objects[number - 1];
  if (const auto* function = std::get_if<FunctionObject>(&object)) {
    fill_cells(*function, static_cast<int>(number));
    return;
  }
  const auto* table = std::get_if<TableObject>(&object);
  if (table == nullptr) return;
  lua_rawgeti(L, made_, static_cast<lua_Integer>(number));
  for (const auto& [key, value] : table->fields) {
    push(key);
    push(value);
    if (lua_isnil(L, -2))
      lua_pop(L, 2);
    else
      lua_rawset(L, -3);
  }
  lua_pop(L, 1);
}

void Unpacker::note_sent() {
  push_shared(L, shared_, kSentPositions);
  push_shared(L, shared_, kSent);
  for (size_t number = 1; number <= message_.objects.size(); ++number) {
    const Object& object = message_.objects[number - 1];
    if (!std::holds_alternative<TableObject>(object) &&
        !std::holds_alternative<FunctionObject>(object))
      continue;
    const auto position = static_cast<lua_Integer>(number);
    lua_rawgeti(L, made_, position);
    lua_pushvalue(L, -1);
    lua_rawseti(L, -3, position);
    lua_pushinteger(L, position);
    lua_rawset(L, -4);
  }
  lua_pop(L, 2);
}

}  // namespace moonlet::workers

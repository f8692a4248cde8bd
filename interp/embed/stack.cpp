// interp/embed/stack.cpp: values of a script as C++ types, with messages when they are others.
#include "interp/embed/convert.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "interp/binding/tensor/noted.h"
#include "interp/binding/tensor/tensor_userdata.h"
#include "interp/embed/object_cell.h"
#include "interp/embed/session.h"

namespace moonlet {

using detail::Session;

// --- what a value is -----------------------------------------------------------------------------

bool Stack::is_nil(int index) const noexcept { return lua_isnoneornil(L_, index); }
bool Stack::is_table(int index) const noexcept { return lua_istable(L_, index); }
bool Stack::is_function(int index) const { return binding::is_callable(L_, index); }
bool Stack::is_string(int index) const noexcept { return lua_type(L_, index) == LUA_TSTRING; }

bool Stack::is_tensor(int index) const noexcept {
  const Tensor* tensor = binding::tensor_cell(L_, index);
  return tensor != nullptr && tensor->defined();
}

Fit Stack::fit_boolean(int index) const noexcept {
  return lua_isboolean(L_, index) ? Fit::Exact : Fit::None;
}

Fit Stack::fit_number(int index) const noexcept {
  if (lua_type(L_, index) != LUA_TNUMBER) return Fit::None;
  return lua_isinteger(L_, index) != 0 ? Fit::Converted : Fit::Exact;
}

namespace {
// A number without a fraction that int64 holds.
bool to_integer(lua_State* L, int index, int64_t& value) noexcept {
  if (lua_type(L, index) != LUA_TNUMBER) return false;
  int is_integer = 0;
  value = lua_tointegerx(L, index, &is_integer);
  return is_integer != 0;
}
}  // namespace

Fit Stack::fit_integer(int index, int64_t least, int64_t most) const noexcept {
  int64_t value = 0;
  if (!to_integer(L_, index, value) || value < least || value > most) return Fit::None;
  return lua_isinteger(L_, index) != 0 ? Fit::Exact : Fit::Converted;
}

// --- the value as a type -------------------------------------------------------------------------

bool Stack::boolean(int index) const {
  if (!lua_isboolean(L_, index)) refuse(index, "boolean");
  return lua_toboolean(L_, index) != 0;
}

double Stack::number(int index) const {
  if (lua_type(L_, index) != LUA_TNUMBER) refuse(index, "number");
  return lua_tonumber(L_, index);
}

float Stack::number32(int index) const {
  const double value = number(index);
  if (std::isfinite(value) && std::abs(value) > std::numeric_limits<float>::max())
    refuse(index, "a number that float holds");
  return static_cast<float>(value);
}

int64_t Stack::integer(int index, int64_t least, int64_t most, const char* type) const {
  int64_t value = 0;
  if (!to_integer(L_, index, value)) refuse(index, type);
  if (value < least || value > most)
    throw ConversionError(std::string("expected ") + type + " (" + std::to_string(least) + " to " +
                          std::to_string(most) + "), got " + std::to_string(value));
  return value;
}

std::string_view Stack::string(int index) const {
  if (lua_type(L_, index) != LUA_TSTRING) refuse(index, "string");
  size_t size = 0;
  const char* text = lua_tolstring(L_, index, &size);
  return {text, size};
}

const Tensor& Stack::tensor(int index) const {
  const Tensor* tensor = test_tensor(L_, index);
  if (tensor == nullptr) refuse(index, "Tensor");
  tensor->storage().note_interpreter(&Session::of(L_));
  return *tensor;
}

Value Stack::value(int index) const {
  reserve(4);
  return Session::of(L_).take(L_, index);
}

std::string Stack::describe(int index) const {
  switch (lua_type(L_, index)) {
    case LUA_TNONE: return "nothing";
    case LUA_TBOOLEAN: return lua_toboolean(L_, index) != 0 ? "true" : "false";
    case LUA_TNUMBER: {
      if (lua_isinteger(L_, index) != 0) return std::to_string(lua_tointeger(L_, index));
      char text[40];
      std::snprintf(text, sizeof text, "%.14g", lua_tonumber(L_, index));
      return text;
    }
    case LUA_TSTRING: {
      constexpr size_t kShown = 40;
      const std::string_view text = string(index);
      const std::string begin(text.substr(0, kShown));
      return "string '" + begin + (text.size() > kShown ? "...'" : "'");
    }
    case LUA_TTABLE:
      if (const detail::ClassRecord* record = detail::class_at(L_, index))
        return "class " + record->name;
      return "table";
    case LUA_TUSERDATA:
      if (const detail::ObjectCell* cell = detail::object_cell(L_, index))
        return detail::describe_object(L_, *cell);
      return binding::type_name(L_, index);
    default: return luaL_typename(L_, index);
  }
}

void Stack::refuse(int index, std::string_view expected) const {
  throw ConversionError("expected " + std::string(expected) + ", got " + describe(index));
}

// --- pushing -------------------------------------------------------------------------------------

void Stack::push_nil() { lua_pushnil(L_); }
void Stack::push_boolean(bool value) { lua_pushboolean(L_, value ? 1 : 0); }
void Stack::push_integer(int64_t value) { lua_pushinteger(L_, value); }
void Stack::push_number(double value) { lua_pushnumber(L_, value); }
void Stack::push_string(std::string_view value) { lua_pushlstring(L_, value.data(), value.size()); }
void Stack::push_value(const Value& value) { Session::of(L_).push(L_, value); }
void Stack::push_copy(int index) { lua_pushvalue(L_, index); }

void Stack::push_tensor(Tensor tensor) {
  if (tensor.defined()) tensor.storage().note_interpreter(&Session::of(L_));
  moonlet::push_tensor(L_, std::move(tensor));
}

bool Stack::push_known_tensor(const Tensor& tensor) {
  if (!tensor.defined()) {
    lua_pushnil(L_);
    return true;
  }
  if (lua_checkstack(L_, 4) == 0 || !binding::push_noted(L_, tensor)) return false;
  tensor.storage().note_interpreter(&Session::of(L_));
  return true;
}

void Stack::push_table(int64_t items, int64_t fields) {
  constexpr int64_t kMost = std::numeric_limits<int>::max() / 2;
  reserve(6);
  lua_createtable(L_, static_cast<int>(std::min(items, kMost)),
                  static_cast<int>(std::min(fields, kMost)));
}

// --- tables --------------------------------------------------------------------------------------

int64_t Stack::length(int table) const noexcept {
  return static_cast<int64_t>(lua_rawlen(L_, table));
}

void Stack::push_item(int table, int64_t position) { lua_rawgeti(L_, table, position); }

void Stack::push_field(int table, std::string_view name) {
  const int position = table > 0 ? table : lua_absindex(L_, table);
  Session::of(L_).names.push(L_, name);
  lua_rawget(L_, position);
}

void Stack::set_item(int table, int64_t position) { lua_rawseti(L_, table, position); }

void Stack::set_field(int table, std::string_view name) {
  const int position = table > 0 ? table : lua_absindex(L_, table);
  Session::of(L_).names.push(L_, name);
  lua_insert(L_, -2);
  lua_rawset(L_, position);
}

void Stack::set_entry(int table) { lua_rawset(L_, table); }
bool Stack::next(int table) { return lua_next(L_, table) != 0; }
int Stack::top() const noexcept { return lua_gettop(L_); }
void Stack::pop(int count) noexcept { lua_settop(L_, -count - 1); }

void Stack::reserve(int count) const {
  if (lua_checkstack(L_, count) == 0) throw Error("too many values on the stack of Lua");
}

// --- containers ----------------------------------------------------------------------------------

namespace detail {

Function held_function(Stack& stack, int index) {
  stack.reserve(4);
  return Session::of(stack.state()).hold_function(stack.state(), index);
}

Table held_table(Stack& stack, int index) {
  stack.reserve(4);
  return Session::of(stack.state()).hold_table(stack.state(), index);
}

Tensor copied_tensor(const void* elements, size_t count, DType dtype) {
  Tensor tensor = empty_plain({static_cast<int64_t>(count)}, {dtype, {}}, "span");
  if (count > 0) std::memcpy(tensor.raw(), elements, count * size_of(dtype));
  return tensor;
}

Fit fit_items(Stack& stack, int table, int64_t count, FitItem fit) {
  if (!stack.is_table(table)) return Fit::None;
  const int64_t length = stack.length(table);
  if (count >= 0 && length != count) return Fit::None;
  stack.reserve(4);
  for (int64_t i = 1; i <= length; ++i) {
    stack.push_item(table, i);
    const Fit item = fit(stack, stack.top());
    stack.pop();
    if (item == Fit::None) return Fit::None;
  }
  // A table with other keys is a list of nothing only when no type wants the keys.
  return length > 0 || count == 0 ? Fit::Exact : Fit::Converted;
}

Fit fit_entries(Stack& stack, int table, FitItem key, FitItem value) {
  if (!stack.is_table(table)) return Fit::None;
  stack.reserve(6);
  stack.push_nil();
  bool any = false;
  while (stack.next(table)) {
    any = true;
    const int top = stack.top();
    const bool fits = key(stack, top - 1) != Fit::None && value(stack, top) != Fit::None;
    stack.pop();
    if (!fits) {
      stack.pop();
      return Fit::None;
    }
  }
  return any ? Fit::Exact : Fit::Converted;
}

void rethrow_within(const ConversionError& error, const std::string& where) {
  throw ConversionError(where + ": " + error.what());
}

void get_items(Stack& stack, int table, int64_t count, const char* expected, PutItem put,
               void* target) {
  if (!stack.is_table(table)) stack.refuse(table, expected);
  const int64_t length = stack.length(table);
  if (count >= 0 && length != count)
    throw ConversionError("expected " + std::to_string(count) + " items, got " +
                          std::to_string(length));
  stack.reserve(4);
  for (int64_t i = 1; i <= length; ++i) {
    stack.push_item(table, i);
    try {
      put(stack, stack.top(), target);
    } catch (const ConversionError& e) {
      rethrow_within(e, "item " + std::to_string(i));
    }
    stack.pop();
  }
}

void get_entries(Stack& stack, int table, const char* expected, PutEntry put, void* target) {
  if (!stack.is_table(table)) stack.refuse(table, expected);
  stack.reserve(6);
  stack.push_nil();
  while (stack.next(table)) {
    const int value = stack.top();
    try {
      put(stack, value - 1, value, target);
    } catch (const ConversionError& e) {
      rethrow_within(e, "key " + stack.describe(value - 1));
    }
    stack.pop();
  }
}

}  // namespace detail
}  // namespace moonlet

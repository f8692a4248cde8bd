// interp/binding/signature_reader.cpp: module moonlet.signature_reader: the arguments of functions
// of the library, by position, by name, or both.
#include "interp/binding/signature_reader.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "interp/binding/arg_reader.h"
#include "interp/binding/random_generator.h"
#include "interp/binding/signature_compile.h"
#include "interp/binding/tensor/tensor_userdata.h"
#include "interp/state/guard.h"
#include "tensor/core/error.h"

namespace moonlet::binding::declared {
namespace {

bool is_plain(lua_State* L, int index) {
  if (!lua_istable(L, index)) return false;
  if (lua_getmetatable(L, index) == 0) return true;
  lua_pop(L, 1);
  return false;
}

// Whether a table has a string key beside its array part. Items that were set one by one may lie
// behind the names: as many as a call can have are all looked at.
bool has_name(lua_State* L, int table) {
  constexpr lua_Integer kMostArguments = 32;
  const auto size = static_cast<lua_Integer>(lua_rawlen(L, table));
  if (size == 0 || size <= kMostArguments)
    lua_pushnil(L);
  else
    lua_pushinteger(L, size);
  while (lua_next(L, table) != 0) {
    lua_pop(L, 1);
    if (lua_type(L, -1) != LUA_TSTRING) continue;
    lua_pop(L, 1);
    return true;
  }
  return false;
}

bool is_callable(lua_State* L, int index) {
  if (lua_isfunction(L, index)) return true;
  const int hidden = luaL_getmetafield(L, index, "__metatable");
  if (hidden != LUA_TNIL) lua_pop(L, 1);
  if (hidden != LUA_TNIL && hidden != LUA_TTABLE) return false;
  if (luaL_getmetafield(L, index, "__call") == LUA_TNIL) return false;
  lua_pop(L, 1);
  return true;
}

bool is_shape(lua_State* L, int index) {
  if (luaL_getmetafield(L, index, "__metatable") == LUA_TNIL) return false;
  const char* name = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
  const bool is = std::string_view(name) == "Shape";
  lua_pop(L, 1);
  return is;
}

bool within(const Part& part, double value) {
  return value >= part.low && value <= part.high && !(part.above && value == part.low);
}

// Pushes what `type` makes of values, where `values` is the table that it keeps.
class Converter {
 public:
  Converter(lua_State* L, const Signature& signature, int values)
      : L_(L), signature_(signature), values_(values) {}

  // Pushes the value to use for a parameter, or nothing, and false, where it is a wrong one.
  bool convert(const Parameter& parameter, int index) {
    for (int i = 0; i < parameter.count; ++i)
      if (convert_part(signature_.part(parameter.first + i), index)) return true;
    return false;
  }

 private:
  bool convert_part(const Part& part, int index) {
    if (part.length == Part::kSingle) return convert_one(part, index);
    const bool shape = !is_plain(L_, index) && is_shape(L_, index);
    if (shape) {
      lua_getfield(L_, index, "tolist");
      lua_pushvalue(L_, index);
      lua_call(L_, 1, 1);
    } else if (is_plain(L_, index)) {
      lua_pushvalue(L_, index);
    } else {
      return part.length != Part::kAnyLength && repeat(part, index);
    }
    const bool fits = convert_all(part, lua_gettop(L_));
    lua_remove(L_, fits ? -2 : -1);
    return fits;
  }

  // An array of the elements of the one at an index.
  bool convert_all(const Part& part, int array) {
    const auto count = static_cast<lua_Integer>(lua_rawlen(L_, array));
    if ((part.length != Part::kAnyLength && count != part.length) || has_name(L_, array))
      return false;
    lua_createtable(L_, static_cast<int>(std::min<lua_Integer>(count, 1 << 16)), 0);
    for (lua_Integer i = 1; i <= count; ++i) {
      lua_rawgeti(L_, array, i);
      const bool fits = convert_one(part, lua_gettop(L_));
      if (!fits) return lua_pop(L_, 2), false;
      lua_rawseti(L_, -3, i);
      lua_pop(L_, 1);
    }
    return true;
  }

  // An array in which one value stands for all.
  bool repeat(const Part& part, int index) {
    if (!convert_one(part, index)) return false;
    lua_createtable(L_, part.length, 0);
    for (int i = 1; i <= part.length; ++i) {
      lua_pushvalue(L_, -2);
      lua_rawseti(L_, -2, i);
    }
    lua_remove(L_, -2);
    return true;
  }

  bool convert_one(const Part& part, int index) {
    switch (part.kind) {
      case Kind::Int: return convert_int(part, index);
      case Kind::Choice: return choose(part, index);
      case Kind::Convert: return call(part, index);
      default: break;
    }
    if (!accepts(part, index)) return false;
    lua_pushvalue(L_, index);
    return true;
  }

  // For what is used as it is.
  bool accepts(const Part& part, int index) const {
    switch (part.kind) {
      case Kind::Any: return !lua_isnil(L_, index);
      case Kind::Tensor: return tensor_cell(L_, index) != nullptr;
      case Kind::Bool: return lua_isboolean(L_, index);
      case Kind::Number:  // NaN is within no bounds
        return lua_type(L_, index) == LUA_TNUMBER && within(part, lua_tonumber(L_, index));
      case Kind::String: return lua_type(L_, index) == LUA_TSTRING;
      case Kind::Function: return is_callable(L_, index);
      case Kind::Generator: return test_generator(L_, index) != nullptr;
      case Kind::Table: return is_plain(L_, index);
      default: return false;
    }
  }

  bool convert_int(const Part& part, int index) {
    if (lua_type(L_, index) != LUA_TNUMBER) return false;
    const std::optional<int64_t> value = whole_number(L_, index);
    if (!value || !within(part, static_cast<double>(*value))) return false;
    lua_pushinteger(L_, *value);
    return true;
  }

  bool choose(const Part& part, int index) {
    if (lua_rawgeti(L_, values_, part.value) == LUA_TTABLE && lua_isstring(L_, index)) {
      lua_pushvalue(L_, index);
      if (lua_rawget(L_, -2) != LUA_TNIL) return lua_remove(L_, -2), true;
      lua_pop(L_, 1);
    }
    lua_pop(L_, 1);
    return false;
  }

  bool call(const Part& part, int index) {
    lua_rawgeti(L_, values_, part.value);
    lua_pushvalue(L_, index);
    lua_call(L_, 1, 1);
    if (!lua_isnil(L_, -1)) return true;
    lua_pop(L_, 1);
    return false;
  }

  lua_State* L_;
  const Signature& signature_;
  int values_;
};

// The arguments of one call, which lie from stack index 2 on; the declaration is at 1.
class Reading {
 public:
  Reading(lua_State* L, int count)
      : L_(L),
        count_(count),
        signature_(push_signature(L)),
        values_(lua_gettop(L)),
        converter_(L, signature_, values_) {}

  int size() const { return signature_.count; }
  int values() const { return values_; }

  // Pushes the value of each parameter.
  void push_all() {
    luaL_checkstack(L_, size() + LUA_MINSTACK, nullptr);
    while (count_ > 0 && lua_isnil(L_, 1 + count_)) --count_;
    while (count_ > 1 && is_aside(1 + count_)) --count_;
    if (count_ > 0) split();
    const int slots = lua_gettop(L_);
    for (int i = 1; i <= size(); ++i) push_given(i);
    if (named_ != 0) put_named(slots);
    for (int i = 0; i < size(); ++i) read_slot(signature_.parameter(i), i, slots + 1 + i);
    if (count_ > size()) refuse("refuse_count", [&] { lua_pushinteger(L_, count_); });
  }

 private:
  // Calls a method of the declaration that raises an error, with the values that `push` pushes.
  // A script may have put another there.
  template <class Push>
  [[noreturn]] void refuse(const char* method, Push&& push) {
    lua_getfield(L_, 1, method);
    lua_pushvalue(L_, 1);
    const int before = lua_gettop(L_);
    push();
    lua_call(L_, lua_gettop(L_) - before + 1, 0);
    fail("signature: a call does not fit its declaration");
  }
  // Whether a value may follow the arguments of a call and is none of them.
  bool is_aside(int index) {
    if (!is_plain(L_, index)) return false;
    lua_pushvalue(L_, index);
    const bool is = lua_rawget(L_, lua_upvalueindex(1)) != LUA_TNIL;
    lua_pop(L_, 1);
    return is;
  }
  void push_name(int i) { lua_rawgeti(L_, values_, i + 1); }

  void push_given(int i) {
    if (i > count_ || signature_.parameter(i - 1).variadic)
      lua_pushnil(L_);
    else
      push_at(i);
  }
  void push_at(int i) {
    if (list_ != 0)
      lua_rawgeti(L_, list_, i);
    else
      lua_pushvalue(L_, 1 + i);
  }

  // Finds arguments by name among those given.
  void split() {
    const int last = 1 + count_;
    if (!is_plain(L_, last)) return;
    const Parameter* parameter = count_ <= size() ? &signature_.parameter(count_ - 1) : nullptr;
    const auto items = static_cast<int>(lua_rawlen(L_, last));
    if (items > 0) {
      if (count_ > 1) return;
      if (has_name(L_, last)) return split_table(last, parameter);
      if (!is_call_by_position(parameter, last, items)) return;
      list_ = last, count_ = items;
      return;
    }
    lua_pushnil(L_);
    const bool empty = lua_next(L_, last) == 0;
    if (!empty) lua_pop(L_, 2);
    if (empty && parameter && (parameter->takes_list || parameter->takes_dict || parameter->is_any))
      return;
    if (parameter && parameter->takes_dict && !is_call_by_name(*parameter, last)) return;
    named_ = last;
    --count_;
  }

  // A table alone, of arguments by position and by name.
  void split_table(int table, const Parameter* parameter) {
    lua_newtable(L_);
    named_ = lua_gettop(L_);
    lua_newtable(L_);
    list_ = lua_gettop(L_);
    for (lua_pushnil(L_); lua_next(L_, table) != 0; lua_pop(L_, 1)) {
      lua_pushvalue(L_, -2);
      lua_pushvalue(L_, -2);
      lua_rawset(L_, lua_type(L_, -4) == LUA_TSTRING ? named_ : list_);
    }
    if (parameter && parameter->takes_list && !parameter->fixed) {
      lua_createtable(L_, 1, 0);
      lua_insert(L_, list_);
      lua_rawseti(L_, list_, 1);
    }
    count_ = static_cast<int>(lua_rawlen(L_, list_));
  }

  // Whether an array given alone is the arguments, `f { 2, 3 }` or `f { { 2, 1 } }`: it is no value
  // for the first of them, nor meant as one.
  bool is_call_by_position(const Parameter* parameter, int array, int items) {
    if (!parameter || parameter->variadic || items > size()) return false;
    if (parameter->takes_list) {
      const bool nested = lua_rawgeti(L_, array, 1) == LUA_TTABLE;
      lua_pop(L_, 1);
      if (!nested) return false;
    }
    const bool is_value = converter_.convert(*parameter, array);
    if (is_value) lua_pop(L_, 1);
    return !is_value;
  }

  // Whether a table of names given for a parameter that takes such tables is the arguments instead.
  bool is_call_by_name(const Parameter& parameter, int table) {
    push_name(static_cast<int>(&parameter - &signature_.parameter(0)));
    const bool has_own = lua_rawget(L_, table) != LUA_TNIL;
    lua_pop(L_, 1);
    if (!has_own && parameter.required) return false;
    for (lua_pushnil(L_); lua_next(L_, table) != 0; lua_pop(L_, 1))
      if (position_of(lua_gettop(L_) - 1, false) == 0) return lua_pop(L_, 2), false;
    return true;
  }

  // The number of the parameter whose name, or alias, is at an index; 0 for other values.
  int position_of(int key, bool by_alias = true) {
    // `debug` may have put another table in the place of the values.
    check(lua_rawgeti(L_, values_, signature_.positions) == LUA_TTABLE,
          "signature: a declaration is expected");
    lua_pushvalue(L_, key);
    lua_rawget(L_, -2);
    auto position = static_cast<int>(lua_tointeger(L_, -1));
    lua_pop(L_, 2);
    if (position > 0 && !by_alias) {
      push_name(position - 1);
      if (lua_rawequal(L_, -1, key) == 0) position = 0;
      lua_pop(L_, 1);
    }
    return position;
  }

  // Puts the arguments by name into the slots of their parameters.
  void put_named(int slots) {
    for (lua_pushnil(L_); lua_next(L_, named_) != 0;) {
      const int key = lua_gettop(L_) - 1, position = position_of(key);
      if (position == 0) refuse("refuse_name", [&] { lua_pushvalue(L_, key); });
      const Parameter& parameter = signature_.parameter(position - 1);
      if (!lua_isnil(L_, slots + position) || (parameter.variadic && count_ >= position))
        refuse("refuse_twice", [&] { push_name(position - 1); });
      lua_replace(L_, slots + position);
    }
  }

  // Makes the value of a parameter of what its slot holds.
  void read_slot(const Parameter& parameter, int i, int slot) {
    if (parameter.variadic) return read_rest(parameter, i, slot);
    if (lua_isnil(L_, slot)) {
      if (parameter.required) refuse("refuse_missing", [&] { push_name(i); });
      if (parameter.value == 0) return;
      lua_rawgeti(L_, values_, parameter.value);
      if (!parameter.is_constant) lua_call(L_, 0, 1);
      lua_replace(L_, slot);
      if (parameter.is_constant || lua_isnil(L_, slot)) return;
    }
    convert(parameter, i, slot);
    lua_replace(L_, slot);
  }

  void convert(const Parameter& parameter, int i, int index) {
    if (converter_.convert(parameter, index)) return;
    refuse("refuse_value", [&] {
      lua_pushinteger(L_, i + 1);
      lua_pushvalue(L_, index);
    });
  }

  // An array of all arguments from the i-th on, or of those that the table in its slot holds.
  void read_rest(const Parameter& parameter, int i, int slot) {
    const bool by_name = !lua_isnil(L_, slot);
    if (by_name && !lua_istable(L_, slot))
      refuse("refuse_value", [&] {
        lua_pushinteger(L_, i + 1);
        lua_pushvalue(L_, slot);
      });
    const int end = by_name ? static_cast<int>(lua_rawlen(L_, slot)) : count_ - i;
    lua_newtable(L_);
    for (int item = 1; item <= end; ++item) {
      if (by_name)
        lua_rawgeti(L_, slot, item);
      else
        push_at(i + item);
      convert(parameter, i, lua_gettop(L_));
      lua_rawseti(L_, -3, item);
      lua_pop(L_, 1);
    }
    lua_replace(L_, slot);
    if (!by_name) count_ = std::min(count_, size());
  }

  lua_State* L_;
  int count_;      // of the arguments by position
  int list_ = 0;   // the array that holds them, where they do not lie on the stack
  int named_ = 0;  // the table of those by name
  const Signature& signature_;
  int values_;
  Converter converter_;
};

int l_read(lua_State* L) {
  Reading reading(L, lua_gettop(L) - 1);
  reading.push_all();
  return reading.size();
}

int l_table(lua_State* L) {
  Reading reading(L, lua_gettop(L) - 1);
  reading.push_all();
  const int size = reading.size(), slots = lua_gettop(L) - size;
  lua_createtable(L, 0, size);
  for (int i = 1; i <= size; ++i) {
    lua_rawgeti(L, reading.values(), i);
    lua_pushvalue(L, slots + i);
    lua_rawset(L, -3);
  }
  return 1;
}

int l_convert(lua_State* L) {
  lua_settop(L, 3);
  const Signature& signature = push_signature(L);
  const lua_Integer i = luaL_checkinteger(L, 2);
  luaL_argcheck(L, i >= 1 && i <= signature.count, 2, "no such parameter");
  Converter converter(L, signature, lua_gettop(L));
  if (!converter.convert(signature.parameter(static_cast<int>(i) - 1), 3)) lua_pushnil(L);
  return 1;
}

int l_open(lua_State* L) {
  constexpr luaL_Reg kFunctions[] = {{"read", guard<l_read>},
                                     {"table", guard<l_table>},
                                     {"convert", guard<l_convert>},
                                     {nullptr, nullptr}};
  lua_createtable(L, 0, 4);
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "k");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_pushvalue(L, -1);
  lua_setfield(L, -3, "asides");
  luaL_setfuncs(L, kFunctions, 1);
  return 1;
}

}  // namespace
}  // namespace moonlet::binding::declared

int luaopen_moonlet_signature_reader(lua_State* L) {
  return moonlet::guard<moonlet::binding::declared::l_open>(L);
}

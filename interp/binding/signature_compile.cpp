// interp/binding/signature_compile.cpp: declarations of arguments, compiled at their first use.
#include "interp/binding/signature_compile.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string_view>

#include "interp/binding/tensor/tensor_userdata.h"
#include "tensor/core/error.h"

namespace moonlet::binding::declared {

namespace {

// Of no other userdata; drawn when the program starts, as a tensor's is.
uint64_t signature_mark() { return TensorCell::kMark ^ 0x7369676e61747572; }

// Its address is the key of what was made of a declaration.
const char kCompiled = 0;

constexpr std::string_view kKinds[] = {"any",    "tensor", "bool",     "int",
                                       "number", "string", "function", "generator",
                                       "table",  "choice", "convert"};

// Fields of the table at an index.
bool flag(lua_State* L, int table, const char* name) {
  lua_getfield(L, table, name);
  const bool is = lua_toboolean(L, -1) != 0;
  lua_pop(L, 1);
  return is;
}

double number(lua_State* L, int table, const char* name, double missing) {
  lua_getfield(L, table, name);
  const double value = lua_isnil(L, -1) ? missing : lua_tonumber(L, -1);
  lua_pop(L, 1);
  return value;
}

Kind kind_of(lua_State* L, int part) {
  lua_getfield(L, part, "kind");
  const char* name = lua_tostring(L, -1);
  const auto* found = std::find(std::begin(kKinds), std::end(kKinds), name ? name : "");
  check(found != std::end(kKinds), "signature: unknown kind of a type");
  lua_pop(L, 1);
  return static_cast<Kind>(found - kKinds);
}

// Appends the value on top to the table of values.
int keep(lua_State* L, int values) {
  const auto at = static_cast<int>(lua_rawlen(L, values)) + 1;
  lua_rawseti(L, values, at);
  return at;
}

Part compile_part(lua_State* L, int table, int values) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Part part{kind_of(L, table), flag(L, table, "above"), Part::kSingle, 0, 0, 0};
  part.low = number(L, table, "low", -kInfinity);
  part.high = number(L, table, "high", kInfinity);
  part.length = static_cast<int>(number(L, table, "length", Part::kSingle));
  if (part.kind == Kind::Choice || part.kind == Kind::Convert) {
    const bool is_choice = part.kind == Kind::Choice;
    const int type = lua_getfield(L, table, is_choice ? "choices" : "convert");
    check(type == (is_choice ? LUA_TTABLE : LUA_TFUNCTION), "signature: a type without a reader");
    part.value = keep(L, values);
  }
  return part;
}

// The default of a parameter: itself where it is always the same, or else what makes it.
void compile_default(lua_State* L, int table, int values, bool is_single, Parameter& out) {
  if (lua_getfield(L, table, "make_default") != LUA_TFUNCTION) return lua_pop(L, 1);
  lua_pushvalue(L, -1);
  lua_call(L, 0, 1);
  out.is_constant = is_single && !lua_istable(L, -1);
  if (!out.is_constant && !lua_isnil(L, -1)) {
    lua_pop(L, 1);
    out.value = keep(L, values);
    return;
  }
  if (!lua_isnil(L, -1)) {
    out.value = keep(L, values);
    return lua_pop(L, 1);
  }
  lua_pop(L, 2);
}

Parameter compile_parameter(lua_State* L, int table) {
  Parameter out{};
  out.required = flag(L, table, "required");
  out.variadic = flag(L, table, "variadic");
  check(lua_getfield(L, table, "accepts") == LUA_TTABLE, "signature: a parameter without a type");
  const int accepts = lua_gettop(L);
  out.takes_list = flag(L, accepts, "list");
  out.takes_dict = flag(L, accepts, "dict");
  out.fixed = flag(L, accepts, "fixed");
  out.is_any = flag(L, accepts, "any");
  check(lua_getfield(L, accepts, "parts") == LUA_TTABLE, "signature: a type without parts");
  out.count = static_cast<int>(lua_rawlen(L, -1));
  lua_pop(L, 2);
  return out;
}

// Calls f(index of the part's table) for the parts of a parameter's type.
template <class F>
void each_part(lua_State* L, int parameter, F&& f) {
  lua_getfield(L, parameter, "accepts");
  lua_getfield(L, -1, "parts");
  const auto count = static_cast<int>(lua_rawlen(L, -1));
  for (int i = 1; i <= count; ++i) {
    lua_rawgeti(L, -1, i);
    f(lua_gettop(L));
    lua_pop(L, 1);
  }
  lua_pop(L, 2);
}

// Pushes a table of the number of each name; `names` are the first of the values.
void push_positions(lua_State* L, int values, int count) {
  lua_createtable(L, 0, count);
  for (int i = 1; i <= count; ++i) {
    lua_rawgeti(L, values, i);
    lua_pushinteger(L, i);
    lua_rawset(L, -3);
  }
  if (lua_getfield(L, 1, "aliases") == LUA_TTABLE) {
    for (lua_pushnil(L); lua_next(L, -2) != 0; lua_pop(L, 1)) {
      lua_pushvalue(L, -2);
      lua_pushvalue(L, -2);
      lua_rawget(L, -6);
      lua_rawset(L, -6);
    }
  }
  lua_pop(L, 1);
}

size_t parts_of(lua_State* L, int parameters, int count) {
  size_t parts = 0;
  for (int i = 1; i <= count; ++i) {
    check(lua_rawgeti(L, parameters, i) == LUA_TTABLE, "signature: a parameter is no table");
    each_part(L, lua_gettop(L), [&](int) { ++parts; });
    lua_pop(L, 1);
  }
  return parts;
}

// Pushes the userdata of a signature, whose user value is the table of values.
void compile(lua_State* L) {
  check(lua_getfield(L, 1, "parameters") == LUA_TTABLE, "signature: no declaration");
  const int parameters = lua_gettop(L), values = parameters + 1;
  const auto count = static_cast<int>(lua_rawlen(L, parameters));
  const size_t parts = parts_of(L, parameters, count);
  lua_createtable(L, count + 4, 0);
  for (int i = 1; i <= count; ++i) {
    lua_rawgeti(L, parameters, i);
    lua_getfield(L, -1, "name");
    lua_rawseti(L, values, i);
    lua_pop(L, 1);
  }
  const size_t size = sizeof(Signature) + count * sizeof(Parameter) + parts * sizeof(Part);
  auto* const out = static_cast<Signature*>(lua_newuserdatauv(L, size, 1));
  *out = Signature{signature_mark(), count, 0};
  auto* const first = reinterpret_cast<Parameter*>(out + 1);
  auto* const part = reinterpret_cast<Part*>(first + count);
  int next = 0;
  for (int i = 0; i < count; ++i) {
    lua_rawgeti(L, parameters, i + 1);
    const int table = lua_gettop(L);
    first[i] = compile_parameter(L, table);
    first[i].first = next;
    each_part(L, table, [&](int at) { part[next++] = compile_part(L, at, values); });
    const Part* const own = part + first[i].first;
    bool is_single = true;
    for (int j = 0; j < first[i].count; ++j)
      is_single = is_single && own[j].length == Part::kSingle && own[j].kind != Kind::Convert;
    compile_default(L, table, values, is_single, first[i]);
    lua_pop(L, 1);
  }
  push_positions(L, values, count);
  out->positions = keep(L, values);
  lua_pushvalue(L, values);
  lua_setiuservalue(L, -2, 1);
  lua_replace(L, parameters);
  lua_settop(L, parameters);
}

// The signature that is the userdata on top, or null: `debug` can put anything there.
const Signature* signature_on_top(lua_State* L) {
  if (lua_type(L, -1) != LUA_TUSERDATA || lua_rawlen(L, -1) < sizeof(Signature)) return nullptr;
  const auto* found = static_cast<const Signature*>(lua_touserdata(L, -1));
  return found->mark == signature_mark() ? found : nullptr;
}

}  // namespace

const Signature& push_signature(lua_State* L) {
  check(lua_istable(L, 1), "signature: a declaration is expected");
  lua_rawgetp(L, 1, &kCompiled);
  const Signature* found = signature_on_top(L);
  if (found == nullptr) {
    lua_pop(L, 1);
    compile(L);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, 1, &kCompiled);
    found = signature_on_top(L);
  }
  const int type = lua_getiuservalue(L, -1, 1);
  check(type == LUA_TTABLE, "signature: a declaration is expected");
  lua_remove(L, -2);  // the declaration holds it
  return *found;
}

}  // namespace moonlet::binding::declared

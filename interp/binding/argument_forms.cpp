// interp/binding/argument_forms.cpp: other forms of the arguments of einsum and tensordot.
#include "interp/binding/argument_forms.h"

#include <string>

#include "interp/binding/tensor/tensor_userdata.h"
#include "tensor/core/error.h"

namespace moonlet::binding {
namespace {

constexpr int64_t kLetters = 26, kLabels = 2 * kLetters;

// The letter of a label. Capitals come first, so that without a list for the result its dimensions
// are in the order of the labels.
char letter_of(lua_State* L, int index) {
  int is_integer = 0;
  const lua_Integer label = lua_tointegerx(L, index, &is_integer);
  check(is_integer != 0 && label >= 1 && label <= kLabels,
        "einsum: a label is an integer from 1 to ", kLabels, " or \"...\", got ",
        is_integer != 0 ? std::to_string(label) : type_name(L, index));
  return static_cast<char>(label <= kLetters ? 'A' + label - 1 : 'a' + label - 1 - kLetters);
}

// The term of an equation for the list of labels at `index`.
std::string term_of(lua_State* L, int index) {
  check(lua_type(L, index) == LUA_TTABLE && tensor_cell(L, index) == nullptr,
        "einsum: a list of labels is expected after each operand, got ", type_name(L, index));
  std::string out;
  const lua_Integer count = luaL_len(L, index);
  for (lua_Integer i = 1; i <= count; ++i) {
    if (lua_geti(L, index, i) == LUA_TSTRING && std::string_view(lua_tostring(L, -1)) == "...")
      out += "...";
    else
      out += letter_of(L, -1);
    lua_pop(L, 1);
  }
  return out;
}

// Whether the value is a table, and no tensor's, without the named argument `out`.
bool is_plain_list(lua_State* L, int index) {
  if (lua_type(L, index) != LUA_TTABLE) return false;
  const bool named = lua_getfield(L, index, "out") != LUA_TNIL;
  lua_pop(L, 1);
  return !named;
}

// Puts the two items of the list on top of the stack in its place.
void part_pair(lua_State* L, int index) {
  check(luaL_len(L, index) == 2, "tensordot: dims in a table are two lists of dims, or a number");
  lua_geti(L, index, 1);
  lua_geti(L, index, 2);
  lua_remove(L, index);
}

// Whether the value is a table whose first item is one, too.
bool is_list_of_lists(lua_State* L, int index) {
  if (lua_type(L, index) != LUA_TTABLE) return false;
  const bool nested = lua_geti(L, index, 1) == LUA_TTABLE;
  lua_pop(L, 1);
  return nested;
}

}  // namespace

void einsum_lists(lua_State* L) {
  if (lua_gettop(L) < 2 || tensor_cell(L, 1) == nullptr) return;
  luaL_checkstack(L, 4, "too many arguments");
  std::string equation;
  lua_newtable(L);
  const int operands = lua_gettop(L);
  int at = 1, count = 0;
  for (; at < operands && tensor_cell(L, at) != nullptr; at += 2) {
    check(at + 1 < operands, "einsum: a list of labels is expected after each operand");
    if (count > 0) equation += ',';
    equation += term_of(L, at + 1);
    lua_pushvalue(L, at);
    lua_rawseti(L, operands, ++count);
  }
  if (at < operands && is_plain_list(L, at)) equation.append("->").append(term_of(L, at++));
  // The equation and the operands in place of what was read, before what was not.
  lua_pushlstring(L, equation.data(), equation.size());
  lua_insert(L, at);
  lua_rotate(L, at + 1, 1);
  for (int i = 1; i < at; ++i) lua_remove(L, 1);
}

void tensordot_pair(lua_State* L) {
  if (lua_gettop(L) != 3) return;
  if (is_list_of_lists(L, 3)) return part_pair(L, 3);
  if (lua_type(L, 3) != LUA_TTABLE) return;
  lua_getfield(L, 3, "dims");
  if (is_list_of_lists(L, 4) && is_plain_list(L, 3)) {
    lua_remove(L, 3);
    part_pair(L, 3);
  } else {
    lua_pop(L, 1);
  }
}

}  // namespace moonlet::binding

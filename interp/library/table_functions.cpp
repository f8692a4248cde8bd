// interp/library/table_functions.cpp: concat, insert, move, remove and sort of library `table`.
#include <climits>
#include <ctime>
#include <utility>

#include "interp/library/poll.h"
#include "interp/state/state.h"
#include "tensor/runtime/stack.h"

namespace moonlet::library {
namespace {

// --- arguments -----------------------------------------------------------------------------------

// What a function does with an argument that need not be a table, if its metatable can do that.
enum Use : unsigned { kRead = 1, kWrite = 2, kMeasure = 4 };

bool has_field(lua_State* L, int metatable, const char* name) {
  lua_pushstring(L, name);
  const bool has = lua_rawget(L, metatable) != LUA_TNIL;
  lua_pop(L, 1);
  return has;
}

void check_table(lua_State* L, int index, unsigned use) {
  if (lua_type(L, index) == LUA_TTABLE) return;
  if (lua_getmetatable(L, index) != 0) {
    const int metatable = lua_gettop(L);
    const bool can = ((use & kRead) == 0 || has_field(L, metatable, "__index")) &&
                     ((use & kWrite) == 0 || has_field(L, metatable, "__newindex")) &&
                     ((use & kMeasure) == 0 || has_field(L, metatable, "__len"));
    lua_pop(L, 1);
    if (can) return;
  }
  luaL_checktype(L, index, LUA_TTABLE);
}

lua_Integer check_length(lua_State* L, int index, unsigned use) {
  check_table(L, index, use | kMeasure);
  return luaL_len(L, index);
}

lua_Unsigned as_unsigned(lua_Integer i) { return static_cast<lua_Unsigned>(i); }

// Integers that wrap around, as Lua's own do.
lua_Integer plus(lua_Integer a, lua_Integer b) {
  return static_cast<lua_Integer>(as_unsigned(a) + as_unsigned(b));
}

// --- insert and remove ---------------------------------------------------------------------------

int l_insert(lua_State* L) {
  const lua_Integer next = plus(check_length(L, 1, kRead | kWrite), 1);
  const int given = lua_gettop(L);
  if (given != 2 && given != 3) return luaL_error(L, "wrong number of arguments to 'insert'");
  lua_Integer position = next;
  if (given == 3) {
    position = luaL_checkinteger(L, 2);
    luaL_argcheck(L, as_unsigned(position) - 1u < as_unsigned(next), 2, "position out of bounds");
    Poll poll(L);
    for (lua_Integer i = next; i > position; --i) {
      poll.spend(1);
      lua_geti(L, 1, i - 1);
      lua_seti(L, 1, i);
    }
  }
  lua_seti(L, 1, position);
  return 0;
}

int l_remove(lua_State* L) {
  const lua_Integer size = check_length(L, 1, kRead | kWrite);
  lua_Integer position = luaL_optinteger(L, 2, size);
  if (lua_gettop(L) >= 2 && position != size)
    luaL_argcheck(L, as_unsigned(position) - 1u <= as_unsigned(size), 1, "position out of bounds");
  lua_geti(L, 1, position);
  Poll poll(L);
  for (; position < size; ++position) {
    poll.spend(1);
    lua_geti(L, 1, position + 1);
    lua_seti(L, 1, position);
  }
  lua_pushnil(L);
  lua_seti(L, 1, position);
  return 1;
}

// --- move ----------------------------------------------------------------------------------------

int l_move(lua_State* L) {
  const lua_Integer from = luaL_checkinteger(L, 2), last = luaL_checkinteger(L, 3),
                    to = luaL_checkinteger(L, 4);
  const int target = lua_isnoneornil(L, 5) ? 1 : 5;
  check_table(L, 1, kRead);
  check_table(L, target, kWrite);
  if (last >= from) {
    luaL_argcheck(L, from > 0 || last < LUA_MAXINTEGER + from, 3, "too many elements to move");
    const lua_Integer count = last - from + 1;
    luaL_argcheck(L, to <= LUA_MAXINTEGER - count + 1, 4, "destination wrap around");
    Poll poll(L);
    const auto copy = [&](lua_Integer i) {
      poll.spend(1);
      lua_geti(L, 1, from + i);
      lua_seti(L, target, to + i);
    };
    // From the end where what is to be read would be written first.
    const bool apart =
        to > last || to <= from || (target != 1 && lua_compare(L, 1, target, LUA_OPEQ) == 0);
    if (apart)
      for (lua_Integer i = 0; i < count; ++i) copy(i);
    else
      for (lua_Integer i = count - 1; i >= 0; --i) copy(i);
  }
  lua_pushvalue(L, target);
  return 1;
}

// --- concat --------------------------------------------------------------------------------------

void add_item(lua_State* L, luaL_Buffer* out, lua_Integer i) {
  lua_geti(L, 1, i);
  if (lua_isstring(L, -1) == 0)
    luaL_error(L, "invalid value (%s) at index %I in table for 'concat'", luaL_typename(L, -1),
               static_cast<LUAI_UACINT>(i));
  luaL_addvalue(out);
}

int l_concat(lua_State* L) {
  if (stack_is_short()) return luaL_error(L, "C stack overflow");
  lua_Integer last = check_length(L, 1, kRead);
  size_t size = 0;
  const char* separator = luaL_optlstring(L, 2, "", &size);
  lua_Integer i = luaL_optinteger(L, 3, 1);
  last = luaL_optinteger(L, 4, last);
  luaL_Buffer out;
  luaL_buffinit(L, &out);
  Poll poll(L);
  for (; i < last; ++i) {
    poll.spend(1);
    add_item(L, &out, i);
    luaL_addlstring(&out, separator, size);
  }
  if (i == last) add_item(L, &out, i);
  luaL_pushresult(&out);
  return 1;
}

// --- sort ----------------------------------------------------------------------------------------

// Quicksort with the median of three, in place, as in Lua: what compares equal, or an order that is
// none, ends up where it does there. Stack: the table at 1, the order at 2 or nil.
class Sorter {
 public:
  using Index = unsigned;

  explicit Sorter(lua_State* L) : L_(L), poll_(L), ordered_(!lua_isnil(L, 2)) {}

  // Goes on with the larger part, and calls itself for the smaller one.
  void sort(Index low, Index high, unsigned salt = 0) {
    while (low < high) {
      order_pair(low, high);
      if (high - low == 1) return;
      const Index middle = choose_pivot(low, high, salt);
      order_three(low, middle, high);
      if (high - low == 2) return;
      get(middle);
      lua_pushvalue(L_, -1);
      get(high - 1);
      set_two(middle, high - 1);
      const Index split = partition(low, high);
      const bool left_is_smaller = split - low < high - split;
      const Index smaller = left_is_smaller ? split - low : high - split;
      if (left_is_smaller) {
        sort(low, split - 1, salt);
        low = split + 1;
      } else {
        sort(split + 1, high, salt);
        high = split - 1;
      }
      if ((high - low) / 128 > smaller)
        salt = draw_salt();  // badly split: another choice of pivots
    }
  }

 private:
  // From that many elements on, pivots are drawn once parts were split badly.
  static constexpr Index kLarge = 100;

  void get(Index i) { lua_geti(L_, 1, static_cast<lua_Integer>(i)); }
  // Sets element i to the top and j to the value below it.
  void set_two(Index i, Index j) {
    lua_seti(L_, 1, static_cast<lua_Integer>(i));
    lua_seti(L_, 1, static_cast<lua_Integer>(j));
  }

  // Whether the value at a comes before the one at b; both are relative to the top.
  bool less(int a, int b) {
    poll_.spend(1);
    if (!ordered_) return lua_compare(L_, a, b, LUA_OPLT) != 0;
    lua_pushvalue(L_, 2);
    lua_pushvalue(L_, a - 1);
    lua_pushvalue(L_, b - 2);
    lua_call(L_, 2, 1);
    const bool result = lua_toboolean(L_, -1) != 0;
    lua_pop(L_, 1);
    return result;
  }

  void order_pair(Index low, Index high) {
    get(low);
    get(high);
    if (less(-1, -2))
      set_two(low, high);
    else
      lua_pop(L_, 2);
  }

  void order_three(Index low, Index middle, Index high) {
    get(middle);
    get(low);
    if (less(-2, -1)) {
      set_two(middle, low);
      return;
    }
    lua_pop(L_, 1);
    get(high);
    if (less(-1, -2))
      set_two(middle, high);
    else
      lua_pop(L_, 2);
  }

  static Index choose_pivot(Index low, Index high, unsigned salt) {
    if (high - low < kLarge || salt == 0) return low + (high - low) / 2;
    const Index quarter = (high - low) / 4;
    return salt % (quarter * 2) + (low + quarter);
  }

  static unsigned draw_salt() {
    return static_cast<unsigned>(std::clock()) + static_cast<unsigned>(std::time(nullptr));
  }

  // The pivot is on top of the stack and at high - 1; element low comes not after it, high not
  // before. Returns where it ends up, and pops it.
  Index partition(Index low, Index high) {
    Index i = low, j = high - 1;
    for (;;) {
      while (get(++i), less(-1, -2)) {
        if (i == high - 1) luaL_error(L_, "invalid order function for sorting");
        lua_pop(L_, 1);
      }
      while (get(--j), less(-3, -1)) {
        if (j < i) luaL_error(L_, "invalid order function for sorting");
        lua_pop(L_, 1);
      }
      if (j < i) break;
      set_two(i, j);
    }
    lua_pop(L_, 1);
    set_two(high - 1, i);
    return i;
  }

  lua_State* L_;
  Poll poll_;
  const bool ordered_;
};

int l_sort(lua_State* L) {
  const lua_Integer size = check_length(L, 1, kRead | kWrite);
  if (size <= 1) return 0;
  luaL_argcheck(L, size < INT_MAX, 1, "array too big");
  if (!lua_isnoneornil(L, 2)) luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_settop(L, 2);
  Sorter(L).sort(1, static_cast<Sorter::Index>(size));
  return 0;
}

}  // namespace

void replace_table_functions(lua_State* L) {
  if (!push_library(L, LUA_TABLIBNAME)) return;
  static constexpr luaL_Reg kFunctions[] = {{"concat", l_concat}, {"insert", l_insert},
                                            {"move", l_move},     {"remove", l_remove},
                                            {"sort", l_sort},     {nullptr, nullptr}};
  luaL_setfuncs(L, kFunctions, 0);
  lua_pop(L, 1);
}

}  // namespace moonlet::library

// interp/binding/autograd/homes.cpp: the life of Lua functions that the tape holds. Three tables:
//   homes   userdata -> { id = function }, weak keys: what a function refers to is reachable only
//           through its tensor
//   positions  id -> userdata, weak values: finds a function
//   needed  userdata -> boolean: tensors that stay although no script may hold them, because the
//           tape may call their functions; reviewed once in each cycle of the collector. It is
//           false after the first review that finds no need; the second takes the tensor out.
#include "interp/binding/autograd/homes.h"

#include "autograd/tape.h"
#include "interp/binding/autograd/hooks.h"

namespace moonlet::binding {
namespace {

// In `positions`, beside the ids: a value that nothing else refers to, so that it is gone after
// each cycle's marking.
constexpr lua_Integer kToken = 0;

int make_table(lua_State* L, const char* mode) {
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushstring(L, mode);
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  return luaL_ref(L, LUA_REGISTRYINDEX);
}

enum class Need { No, NotNow, Yes };

void set_needed(lua_State* L, int userdata, Need need) {
  userdata = lua_absindex(L, userdata);
  lua_rawgeti(L, LUA_REGISTRYINDEX, binding_state(L).needed_ref);
  lua_pushvalue(L, userdata);
  lua_pushvalue(L, userdata);
  const bool was_needed = lua_rawget(L, -3) == LUA_TBOOLEAN && lua_toboolean(L, -1);
  lua_pop(L, 1);
  if (need == Need::Yes || (need == Need::NotNow && was_needed))
    lua_pushboolean(L, need == Need::Yes);
  else
    lua_pushnil(L);
  lua_rawset(L, -3);
  lua_pop(L, 1);
}

// Whether the tape can reach the functions of a home of which some are alive.
Need need_of(const Tensor& cell) {
  return !cell.defined() || hooks_held_elsewhere(cell) ? Need::Yes : Need::NotNow;
}

// Drops from the table of functions on top of the stack those that no holder is left of. Returns
// how many stay; `lost` when the positions have lost one, as its userdata waits for its finalizer.
int drop_dead(lua_State* L, int userdata, bool& lost) {
  const BindingState& state = binding_state(L);
  lua_rawgeti(L, LUA_REGISTRYINDEX, state.positions_ref);
  const int positions = lua_gettop(L);
  int alive = 0;
  lua_pushnil(L);
  while (lua_next(L, positions - 1) != 0) {
    lua_pop(L, 1);
    const int64_t id = lua_tointeger(L, -1);
    const auto found = state.functions.find(id);
    if (found == state.functions.end() || found->second.expired()) {
      lua_pushnil(L);
      lua_rawseti(L, positions - 1, id);
      continue;
    }
    ++alive;
    lost = lua_rawgeti(L, positions, id) == LUA_TNIL || lost;
    lua_pop(L, 1);
    lua_pushvalue(L, userdata);
    lua_rawseti(L, positions, id);
  }
  lua_settop(L, positions - 1);
  return alive;
}

// Looks at each home, once after each marking: whether its functions are needed decides whether the
// next marking keeps it. A home that is needed and was found dead, since it got a graph only after
// it was taken out, stays; so does every tensor that waits for its finalizer beside it, because its
// functions may refer to that. (Values of other kinds that only they refer to are finalized.)
void review(lua_State* L) {
  BindingState& state = binding_state(L);
  luaL_checkstack(L, 12, "hooks");
  lua_rawgeti(L, LUA_REGISTRYINDEX, state.positions_ref);
  const bool done = lua_rawgeti(L, -1, kToken) != LUA_TNIL;
  lua_pop(L, 1);
  if (!done) {
    lua_newtable(L);
    lua_rawseti(L, -2, kToken);
    state.keep_dead = false;
    lua_rawgeti(L, LUA_REGISTRYINDEX, state.homes_ref);
    const int homes = lua_gettop(L);
    lua_pushnil(L);
    while (lua_next(L, homes) != 0) {
      const Tensor& cell = *tensor_cell(L, homes + 1);
      bool lost = false;
      const Need need = drop_dead(L, homes + 1, lost) > 0 ? need_of(cell) : Need::No;
      set_needed(L, homes + 1, need);
      state.keep_dead = state.keep_dead || (need == Need::Yes && lost);
      lua_pop(L, 1);
    }
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

void mark_again(lua_State* L) {
  lua_getmetatable(L, 1);
  lua_setmetatable(L, 1);
}

// The finalizer of an object that dies in each cycle while there are homes.
int l_review(lua_State* L) {
  if (state_data(L).closing) return 0;
  review(L);
  if (binding_state(L).homes != 0)
    mark_again(L);
  else
    binding_state(L).reviewing = false;
  return 0;
}

void start_reviews(lua_State* L) {
  if (binding_state(L).reviewing) return;
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, guard<l_review>);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  lua_pop(L, 1);
  binding_state(L).reviewing = true;
}

// Pushes what push_home does; false while the userdata waits for its finalizer.
bool push_placed_home(lua_State* L, int64_t id) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, binding_state(L).positions_ref);
  lua_rawgeti(L, -1, id);
  lua_remove(L, -2);
  lua_rawgeti(L, LUA_REGISTRYINDEX, binding_state(L).homes_ref);
  lua_pushvalue(L, -2);
  lua_rawget(L, -2);
  lua_remove(L, -2);
  if (lua_istable(L, -1)) return true;
  lua_pop(L, 2);
  return false;
}

}  // namespace

void add_function(lua_State* L, int tensor, int function, int64_t id,
                  const std::shared_ptr<HeldFunction>& holder) {
  BindingState& state = binding_state(L);
  tensor = lua_absindex(L, tensor);
  function = lua_absindex(L, function);
  luaL_checkstack(L, 8, "too many hooks");
  start_reviews(L);
  lua_rawgeti(L, LUA_REGISTRYINDEX, state.homes_ref);
  lua_pushvalue(L, tensor);
  if (lua_rawget(L, -2) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, tensor);
    lua_pushvalue(L, -2);
    lua_rawset(L, -4);
    ++state.homes;
  }
  lua_pushvalue(L, function);
  lua_rawseti(L, -2, id);
  lua_rawgeti(L, LUA_REGISTRYINDEX, state.positions_ref);
  lua_pushvalue(L, tensor);
  lua_rawseti(L, -2, id);
  lua_pop(L, 3);
  set_needed(L, tensor, Need::Yes);
  state.functions.emplace(id, holder);
}

bool push_home(lua_State* L, int64_t id) {
  luaL_checkstack(L, 6, "too many hooks");
  if (push_placed_home(L, id)) return true;
  lua_rawgeti(L, LUA_REGISTRYINDEX, binding_state(L).homes_ref);
  lua_pushnil(L);
  while (lua_next(L, -2) != 0) {
    const bool found = lua_rawgeti(L, -1, id) != LUA_TNIL;
    lua_pop(L, 1);
    if (found) {
      lua_remove(L, -3);
      return true;
    }
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return false;
}

void forget_function(lua_State* L, int64_t id) {
  binding_state(L).functions.erase(id);
  // What waits for its finalizer drops the function there.
  if (push_placed_home(L, id)) {
    lua_pushnil(L);
    lua_rawseti(L, -2, id);
    lua_pushnil(L);
    if (lua_next(L, -2) == 0)
      set_needed(L, -2, Need::No);
    else
      lua_pop(L, 2);
    lua_pop(L, 2);
  }
  lua_rawgeti(L, LUA_REGISTRYINDEX, binding_state(L).positions_ref);
  lua_pushnil(L);
  lua_rawseti(L, -2, id);
  lua_pop(L, 1);
}

bool keep_tensor(lua_State* L, Tensor& cell) {
  BindingState& state = binding_state(L);
  if (state_data(L).closing) return false;
  review(L);
  lua_rawgeti(L, LUA_REGISTRYINDEX, state.homes_ref);
  lua_pushvalue(L, 1);
  const bool home = lua_rawget(L, -2) == LUA_TTABLE;
  if (!home) {
    if (state.keep_dead) mark_again(L);
    return state.keep_dead;
  }
  // Dropping the last handle on the tensor ends its hooks.
  if (cell.defined() && !state.keep_dead && !hooks_held_elsewhere(cell)) cell = Tensor();
  bool lost = false;
  if (drop_dead(L, 1, lost) > 0) {
    set_needed(L, 1, need_of(cell));
    mark_again(L);
    return true;
  }
  lua_pushvalue(L, 1);
  lua_pushnil(L);
  lua_rawset(L, -4);
  --state.homes;
  return false;
}

void register_homes(lua_State* L) {
  BindingState& state = binding_state(L);
  state.homes_ref = make_table(L, "k");
  state.positions_ref = make_table(L, "v");
  lua_newtable(L);
  state.needed_ref = luaL_ref(L, LUA_REGISTRYINDEX);
}

}  // namespace moonlet::binding

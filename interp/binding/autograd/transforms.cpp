// interp/binding/autograd/transforms.cpp: what the transforms of functions in stdlib/func are made
// of: the levels of vmap and of forward mode, and the tensors inside them.
#include "interp/binding/autograd/transforms.h"

#include <cstring>

#include "autograd/forward_mode.h"
#include "autograd/tape.h"
#include "interp/binding/arg_reader.h"
#include "interp/binding/autograd/mode_guard.h"
#include "interp/binding/uses_transforms.h"
#include "tensor/runtime/batched.h"

namespace moonlet::binding {
namespace {

constexpr const char* kLevelName = "moonlet.vmap_level";

// A level that a function's own rule has to do with, which it does not end.
constexpr const char* kLevelRefName = "moonlet.vmap_level_ref";

BatchLevelRef& level_at(lua_State* L, int index) {
  if (void* level = luaL_testudata(L, index, kLevelRefName))
    return *static_cast<BatchLevelRef*>(level);
  return *static_cast<BatchLevelRef*>(luaL_checkudata(L, index, kLevelName));
}

int l_end_level(lua_State* L) {
  BatchLevelRef& level = level_at(L, 1);
  if (level) leave_batch_level(*level);
  return 0;
}

int l_free_level(lua_State* L) {
  BatchLevelRef& level = level_at(L, 1);
  if (level) leave_batch_level(*level);
  level.reset();
  return 0;
}

Randomness randomness_at(lua_State* L, int index) {
  const char* name = luaL_checkstring(L, index);
  if (std::strcmp(name, "different") == 0) return Randomness::Different;
  if (std::strcmp(name, "same") == 0) return Randomness::Same;
  check(std::strcmp(name, "error") == 0,
        "vmap: randomness is \"error\", \"different\" or \"same\", got \"", name, "\"");
  return Randomness::Error;
}

// `_vmap_level(size, randomness)`: a value for `<close>`.
int l_vmap_level(lua_State* L) {
  const lua_Integer size = luaL_checkinteger(L, 1);
  const Randomness randomness = randomness_at(L, 2);
  void* const cell = lua_newuserdatauv(L, sizeof(BatchLevelRef), 0);
  if (luaL_newmetatable(L, kLevelName)) {
    lua_pushcfunction(L, guard<l_end_level>);
    lua_setfield(L, -2, "__close");
    lua_pushcfunction(L, guard<l_free_level>);
    lua_setfield(L, -2, "__gc");
    lua_pushliteral(L, "vmap level");
    lua_setfield(L, -2, "__metatable");
  }
  auto* const level = new (cell) BatchLevelRef();
  lua_setmetatable(L, -2);
  *level = enter_batch_level(size, randomness);
  return 1;
}

// `_vmap_batch(level, x, dim, units)`: x as one sample, `dim` from 1; nil for a tensor that is the
// same for all samples. `units` says that they are the unit vectors.
int l_vmap_batch(lua_State* L) {
  const BatchLevelRef level = level_at(L, 1);
  const Tensor x = check_tensor(L, 2, "vmap");
  const int dim =
      lua_isnoneornil(L, 3) ? kNotBatched : static_cast<int>(luaL_checkinteger(L, 3)) - 1;
  const Samples what = lua_toboolean(L, 4) != 0 ? Samples::Units : Samples::Any;
  return push_result(L, make_batched(x, dim, level, what));
}

// `_vmap_value(level, y, dim)`: the samples of a result, in dimension `dim` (from 1; negative from
// the end), or with nil a result that is the same for all.
int l_vmap_value(lua_State* L) {
  const BatchLevelRef level = level_at(L, 1);
  const Tensor y = check_tensor(L, 2, "vmap");
  const Batched* b = batched(y);
  const bool mine = b != nullptr && b->level == level;
  if (lua_isnoneornil(L, 3)) {
    check(!mine || b->dim == kNotBatched,
          "vmap: out_dims is nil for a result that differs from sample to sample");
    return push_result(L, mine ? b->value : y);
  }
  const int rank = y.dim() + 1;
  const int64_t given = luaL_checkinteger(L, 3);
  const int64_t dim = given < 0 ? given + rank : given - 1;
  check(given != 0 && dim >= 0 && dim < rank, "vmap: out_dims is ", given, ", of ", rank,
        " dimensions");
  Tensor value = mine ? b->value : y;
  int from = mine ? b->dim : kNotBatched;
  if (from == kNotBatched) {
    Dims sizes = value.sizes();
    sizes.insert(0, level->size);
    value = expand(value, sizes);
    from = 0;
  }
  return push_result(L, movedim(value, {from}, {dim}));
}

int l_free_ref(lua_State* L) {
  static_cast<BatchLevelRef*>(luaL_checkudata(L, 1, kLevelRefName))->reset();
  return 0;
}

const char* name_of(Randomness randomness) {
  if (randomness == Randomness::Error) return "error";
  return randomness == Randomness::Same ? "same" : "different";
}

// `_vmap_enclosing(...)`: the innermost level that an argument belongs to, its size, what it does
// about random numbers, and whether an argument differs from sample to sample; or nothing.
int l_vmap_enclosing(lua_State* L) {
  BatchLevelRef found;
  bool differs = false;
  for (int i = 1; i <= lua_gettop(L); ++i) {
    if (tensor_cell(L, i) == nullptr) continue;
    const Batched* b = batched(check_tensor(L, i, "vmap"));
    if (!b || (found && b->level->depth < found->depth)) continue;
    differs = (found == b->level && differs) || b->dim != kNotBatched;
    found = b->level;
  }
  if (!found) return 0;
  void* const cell = lua_newuserdatauv(L, sizeof(BatchLevelRef), 0);
  if (luaL_newmetatable(L, kLevelRefName)) {
    lua_pushcfunction(L, guard<l_free_ref>);
    lua_setfield(L, -2, "__gc");
    lua_pushliteral(L, "vmap level");
    lua_setfield(L, -2, "__metatable");
  }
  new (cell) BatchLevelRef(found);
  lua_setmetatable(L, -2);
  lua_pushinteger(L, found->size);
  lua_pushstring(L, name_of(found->randomness));
  lua_pushboolean(L, differs);
  return 4;
}

// `_vmap_part(level, x)`: the value that x stands for there, and the dimension (from 1) of its
// samples.
int l_vmap_part(lua_State* L) {
  const BatchLevelRef level = level_at(L, 1);
  const Tensor x = check_tensor(L, 2, "vmap");
  const Batched* b = batched(x);
  if (b == nullptr || b->level != level) return push_result(L, x);
  push_tensor(L, b->value);
  if (b->dim == kNotBatched) return 1;
  lua_pushinteger(L, b->dim + 1);
  return 2;
}

// `_vmap_outside(level, f, ...)`: f(...) as seen from outside of the level.
int l_vmap_outside(lua_State* L) {
  const OutsideBatchLevel outside(*level_at(L, 1));
  lua_call(L, lua_gettop(L) - 2, LUA_MULTRET);
  return lua_gettop(L) - 1;
}

// `_differentiated_outside(level, ...)`: whether one of the arguments is differentiated outside of
// the level.
int l_differentiated_outside(lua_State* L) {
  const BatchLevelRef level = level_at(L, 1);
  for (int i = 2; i <= lua_gettop(L); ++i) {
    if (tensor_cell(L, i) == nullptr) continue;
    const Tensor& x = check_tensor(L, i, "vmap");
    const Batched* b = batched(x);
    if (is_differentiated_anywhere(b && b->level == level ? b->value : x))
      return push_result(L, true);
  }
  return push_result(L, false);
}

// `_forward_level()`: a value for `<close>`.
int l_forward_level(lua_State* L) {
  push_mode_guard(L, std::make_shared<ForwardMode>(), "forward_ad.dual_level");
  return 1;
}

// `_forward_tangents(...)`: the innermost level and the tangents that the arguments have in it, as
// an array; nothing where there is no level that these are to be given to.
int l_forward_tangents(lua_State* L) {
  const int top = lua_gettop(L);
  std::vector<Tensor> tensors(static_cast<size_t>(top));
  for (int i = 1; i <= top; ++i)
    if (tensor_cell(L, i) != nullptr)
      tensors[static_cast<size_t>(i - 1)] = check_tensor(L, i, "jvp");
  const uint64_t level = forward_level_of(tensors);
  if (level == 0) return 0;
  lua_pushinteger(L, static_cast<lua_Integer>(level));
  lua_createtable(L, top, 0);
  bool any = false;
  for (int i = 1; i <= top; ++i) {
    const Tensor tangent = tangent_of(tensors[static_cast<size_t>(i - 1)], level);
    if (!tangent.defined()) continue;
    any = true;
    push_result(L, tangent);
    lua_rawseti(L, -2, i);
  }
  lua_pushboolean(L, any);
  return 3;
}

// `_suspend_forward(level, on)`
int l_suspend_forward(lua_State* L) {
  suspend_forward_level(static_cast<uint64_t>(luaL_checkinteger(L, 1)), lua_toboolean(L, 2) != 0);
  return 0;
}

// `_with_result_tangent(y, tangent, level, changed)`
int l_with_result_tangent(lua_State* L) {
  const Tensor y = check_tensor(L, 1, "jvp"), tangent = check_tensor(L, 2, "jvp");
  const auto level = static_cast<uint64_t>(luaL_checkinteger(L, 3));
  return push_result(L, with_result_tangent(y, tangent, level, lua_toboolean(L, 4) != 0));
}

// A third argument that is true gives the tangent away, instead of a copy.
int l_make_dual(lua_State* L) {
  const Tensor x = check_tensor(L, 1, "make_dual"), tangent = check_tensor(L, 2, "make_dual");
  return push_result(L, make_dual(x, tangent, forward_level(), lua_toboolean(L, 3) != 0));
}

// The primal and the tangent of the innermost level, or nil.
int l_unpack_dual(lua_State* L) {
  const Tensor x = check_tensor(L, 1, "unpack_dual");
  const uint64_t level = forward_level();
  check(level != 0, "unpack_dual: it is used inside of forward_ad.dual_level");
  const Tensor tangent = tangent_of(x, level);
  push_tensor(L, without_tangent(x, level));
  if (tangent.defined())
    push_tensor(L, tangent);
  else
    lua_pushnil(L);
  return 2;
}

// Without the history that x has in the innermost vmap; tangents stay.
int l_without_history(lua_State* L) {
  return push_result(L, without_history(check_tensor(L, 1, "grad")));
}

// The same, without those of the tangents either.
int l_stripped(lua_State* L) { return push_result(L, stripped(check_tensor(L, 1, "grad"))); }

int l_filled_as(lua_State* L) {
  return push_result(L, filled_as(detach(check_tensor(L, 1, "grad")), luaL_checknumber(L, 2)));
}

int l_differentiation_input(lua_State* L) {
  return push_result(L, differentiation_input(check_tensor(L, 1, "grad")));
}

std::vector<Tensor> tensors_at(lua_State* L, int index) {
  luaL_checktype(L, index, LUA_TTABLE);
  std::vector<Tensor> out;
  const lua_Integer count = luaL_len(L, index);
  for (lua_Integer i = 1; i <= count; ++i) {
    lua_geti(L, index, i);
    out.push_back(check_tensor(L, -1, "grad"));
    lua_pop(L, 1);
  }
  return out;
}

// `_needs_graph(outputs, inputs)`
int l_needs_graph(lua_State* L) {
  return push_result(L, needs_graph(tensors_at(L, 1), tensors_at(L, 2)));
}

}  // namespace

void register_transforms(lua_State* L) {
  static const luaL_Reg kModule[] = {{"_vmap_level", guard<l_vmap_level>},
                                     {"_vmap_batch", op_guard<l_vmap_batch>},
                                     {"_vmap_value", op_guard<l_vmap_value>},
                                     {"_vmap_enclosing", guard<l_vmap_enclosing>},
                                     {"_vmap_part", op_guard<l_vmap_part>},
                                     {"_vmap_outside", guard<l_vmap_outside>},
                                     {"_differentiated_outside", guard<l_differentiated_outside>},
                                     {"_forward_level", guard<l_forward_level>},
                                     {"_forward_tangents", op_guard<l_forward_tangents>},
                                     {"_suspend_forward", guard<l_suspend_forward>},
                                     {"_with_result_tangent", op_guard<l_with_result_tangent>},
                                     {"_make_dual", op_guard<l_make_dual>},
                                     {"_unpack_dual", op_guard<l_unpack_dual>},
                                     {"_differentiation_input", op_guard<l_differentiation_input>},
                                     {"_without_history", op_guard<l_without_history>},
                                     {"_stripped", op_guard<l_stripped>},
                                     {"_filled_as", op_guard<l_filled_as>},
                                     {"_needs_graph", guard<l_needs_graph>},
                                     {nullptr, nullptr}};
  set_functions(L, -2, kModule);
}

}  // namespace moonlet::binding

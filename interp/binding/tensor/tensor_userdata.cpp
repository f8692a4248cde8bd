// interp/binding/tensor/tensor_userdata.cpp: making, checking, comparing and dropping tensor
// userdata, and paying the collector for the memory behind them.
#include "interp/binding/tensor/tensor_userdata.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <random>
#include <vector>

#include "interp/binding/autograd/homes.h"
#include "interp/binding/tensor/complex_number.h"
#include "interp/binding/tensor/iterate.h"
#include "interp/binding/tensor/noted.h"
#include "interp/binding/tensor/shape.h"
#include "interp/binding/tensor/tensor_class.h"
#include "interp/embed/host_state.h"
#include "tensor/core/op_info.h"
#include "tensor/io/numbers.h"

namespace moonlet {

using binding::binding_state;
using binding::TensorCell;

namespace {
// The lowest byte is that of no bool and no dtype: values that hold one there leave the others as
// they were, which may be the mark where `debug` has kept a tensor from its finalizer.
uint64_t drawn_mark() {
  std::random_device source;
  return (static_cast<uint64_t>(source()) << 32) | source() | 0x80;
}
}  // namespace
const uint64_t TensorCell::kMark = drawn_mark();

// A state that moves to another thread starts a new count.
void binding::pay_collector(lua_State* L, BindingState& state) {
  const int64_t allocated = thread_allocated_bytes();
  const int64_t fresh = allocated - state.paid_bytes;
  if (fresh == 0) return;
  state.paid_bytes = allocated;
  if (fresh > 0) gc::allocated(L, fresh);
}

namespace {

// Pushes the value of table `seen` for the tensor when it is a userdata that still holds it.
bool push_noted_in(lua_State* L, int seen, const Tensor& tensor) {
  lua_rawgetp(L, seen, tensor.impl());
  const Tensor* cell = binding::tensor_cell(L, -1);
  if (cell != nullptr && cell->is_same(tensor)) return true;
  lua_pop(L, 1);
  return false;
}

// Pushes the userdata of the tensor when the value at `index`, or an item of the list there, is it.
bool push_if_same(lua_State* L, int index, const Tensor& tensor) {
  if (const Tensor* cell = binding::tensor_cell(L, index)) {
    if (!cell->is_same(tensor)) return false;
    lua_pushvalue(L, index);
    return true;
  }
  if (lua_type(L, index) != LUA_TTABLE) return false;
  const auto count = static_cast<lua_Integer>(lua_rawlen(L, index));
  for (lua_Integer i = 1; i <= count; ++i) {
    lua_rawgeti(L, index, i);
    const Tensor* cell = binding::tensor_cell(L, -1);
    if (cell != nullptr && cell->is_same(tensor)) return true;
    lua_pop(L, 1);
  }
  return false;
}

// Pushes the userdata that scripts know a tensor by which others hold too: one that was noted, or
// an argument of the running function.
bool push_known(lua_State* L, const BindingState& state, const Tensor& tensor) {
  const int top = lua_gettop(L);
  luaL_checkstack(L, 4, "too many results");
  lua_rawgeti(L, LUA_REGISTRYINDEX, state.seen_ref);
  bool known = push_noted_in(L, top + 1, tensor);
  for (int i = 1; !known && i <= top; ++i) {
    if (!push_if_same(L, i, tensor)) continue;
    known = true;
    lua_pushvalue(L, -1);
    lua_rawsetp(L, top + 1, tensor.impl());
  }
  lua_remove(L, top + 1);
  return known;
}

// The cells of tensors that finalizers make while the state closes, which Lua finalizes no more. It
// is the value of a userdata that was there before them and is therefore finalized after them.
using LateCells = std::vector<TensorCell*>;
constexpr char kLateCells = 0;  // its address is the key in the registry

LateCells* late_cells(lua_State* L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &kLateCells);
  auto* const cells = static_cast<LateCells*>(lua_touserdata(L, -1));
  lua_pop(L, 1);
  return cells;
}

int drop_late_cells(lua_State* L) {
  LateCells* const cells = late_cells(L);
  if (cells == nullptr || lua_touserdata(L, 1) != cells) return 0;
  for (TensorCell* cell : *cells) cell->end();
  cells->~LateCells();
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &kLateCells);
  return 0;
}

void make_late_cells(lua_State* L) {
  new (lua_newuserdatauv(L, sizeof(LateCells), 0)) LateCells;
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, guard<drop_late_cells>);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &kLateCells);
}

// Whether a state may be closing: nobody says when a host closes its own, so there every finalizer
// may be one of the last.
bool may_close(lua_State* L) {
  return state_data(L).closing || (host_states && lua_gc(L, LUA_GCCOUNT) < 0);
}

void note_late(lua_State* L, TensorCell* cell) {
  if (LateCells* const cells = late_cells(L)) cells->push_back(cell);
}

void forget_late(lua_State* L, const TensorCell* cell) {
  if (LateCells* const cells = late_cells(L)) std::erase(*cells, cell);
}

}  // namespace

void push_tensor(lua_State* L, Tensor tensor) {
  if (!tensor.defined()) {
    lua_pushnil(L);
    return;
  }
  if (host_states) [[unlikely]]
    admit(L);
  BindingState& state = binding_state(L);
  if (state.metatable_ref == 0) {
    luaL_requiref(L, "moonlet", luaopen_moonlet, 0);
    lua_pop(L, 1);
  }
  binding::pay_collector(L, state);
  // A tensor that nobody else holds is new to the script.
  const bool shared = tensor.impl()->references.load(std::memory_order_relaxed) > 1;
  if (shared && push_known(L, state, tensor)) return;
  luaL_checkstack(L, 4, "too many results");
  void* const memory = lua_newuserdatauv(L, sizeof(TensorCell), 0);
  auto* const cell = new (memory) TensorCell{std::move(tensor)};
  lua_rawgeti(L, LUA_REGISTRYINDEX, state.metatable_ref);
  if (binding::tensor_classes_exist.load(std::memory_order_relaxed)) [[unlikely]]
    binding::replace_by_class(L, cell->tensor.dtype());
  lua_setmetatable(L, -2);
  if (may_close(L)) [[unlikely]]
    note_late(L, cell);
  if (shared) [[unlikely]]
    binding::note_seen(L, -1);
}

bool binding::push_noted(lua_State* L, const Tensor& tensor) {
  const BindingState& state = binding_state(L);
  const bool is_new = tensor.impl()->references.load(std::memory_order_relaxed) == 1;
  if (is_new || state.metatable_ref == 0) return false;
  lua_rawgeti(L, LUA_REGISTRYINDEX, state.seen_ref);
  if (!push_noted_in(L, -1, tensor)) {
    lua_pop(L, 1);
    return false;
  }
  lua_replace(L, -2);
  return true;
}

const Tensor* test_tensor(lua_State* L, int index) {
  if (host_states && find_state_data(L) == nullptr) return nullptr;
  const Tensor* cell = binding::tensor_cell(L, index);
  if (cell == nullptr || !cell->defined()) return nullptr;
  binding::note_seen(L, index);
  return cell;
}

namespace binding {
namespace {

// The __name: what Lua's own functions say of a tensor where they want a number.
constexpr char kName[] = "Tensor (x:item() gives the number of one element)";

int l_gc(lua_State* L) {
  TensorCell* cell = marked_cell(L, 1);
  if (cell == nullptr) return 0;
  if (binding_state(L).homes != 0 && keep_tensor(L, cell->tensor)) {
    if (cell->tensor.defined()) note_seen(L, 1);
    return 0;
  }
  if (may_close(L)) [[unlikely]]
    forget_late(L, cell);
  cell->end();
  return 0;
}

int l_close(lua_State* L) {
  if (Tensor* cell = tensor_cell(L, 1)) *cell = Tensor();
  return 0;
}

// Two handles on one tensor are equal; elements are compared by `:eq`.
int l_equal(lua_State* L) {
  const Tensor* a = tensor_cell(L, 1);
  const Tensor* b = tensor_cell(L, 2);
  lua_pushboolean(L, a != nullptr && b != nullptr && a->defined() && a->is_same(*b));
  return 1;
}

int l_length(lua_State* L) {
  const Tensor& x = check_tensor(L, 1, "#");
  check(x.dim() > 0, "#: a tensor of no dimensions has no length");
  lua_pushinteger(L, x.size(0));
  return 1;
}

int l_tostring(lua_State* L) {
  const Tensor* cell = tensor_cell(L, 1);
  check(cell != nullptr, "tostring: Tensor expected, got ", type_name(L, 1));
  const std::string text =
      cell->defined() ? format_tensor(*cell, binding_state(L).print) : "Tensor (freed)";
  lua_pushlstring(L, text.data(), text.size());
  return 1;
}

int l_pairs(lua_State* L) {
  const Tensor& x = check_tensor(L, 1, "pairs");
  check(x.dim() > 0, "pairs: a tensor of no dimensions has no rows; use x:item()");
  return push_positions(L);
}

int l_call(lua_State*) {
  fail("a tensor is not called: x[i] and x[{...}] index it, ipairs(x) goes through its rows");
}

// Pushes the element of a tensor of one as text.
void push_element_text(lua_State* L, int index) {
  const Tensor& x = check_tensor(L, index, "..");
  if (x.numel() != 1)
    fail("..: a tensor of one element is expected, got shape ", x.sizes(), "; use tostring(x)");
  if (is_complex(x.dtype())) {
    const std::string text = format_elements(x, binding_state(L).print);
    lua_pushlstring(L, text.data(), text.size());
  } else {
    lua_getfield(L, index, "item");
    lua_pushvalue(L, index);
    lua_call(L, 1, 1);
    const io::NumericLocaleC numbers;
    luaL_tolstring(L, -1, nullptr);
  }
}

void make_seen_table(lua_State* L) {
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  binding_state(L).seen_ref = luaL_ref(L, LUA_REGISTRYINDEX);
}

}  // namespace

void note_seen(lua_State* L, int index) {
  const Tensor* cell = tensor_cell(L, index);
  if (cell == nullptr || !cell->defined()) return;
  index = lua_absindex(L, index);
  luaL_checkstack(L, 4, "too many tensors");
  lua_rawgeti(L, LUA_REGISTRYINDEX, binding_state(L).seen_ref);
  const int seen = lua_gettop(L);
  if (!push_noted_in(L, seen, *cell)) {
    lua_pushvalue(L, index);
    lua_rawsetp(L, seen, cell->impl());
  }
  lua_settop(L, seen - 1);
}

bool is_freed(lua_State* L, int index) {
  if (const Tensor* cell = tensor_cell(L, index)) return !cell->defined();
  // Another finalizer may have brought back what has ended.
  if (lua_type(L, index) != LUA_TUSERDATA || luaL_getmetafield(L, index, "__name") == LUA_TNIL)
    return false;
  const char* name = lua_tostring(L, -1);
  const bool named = name != nullptr && std::strcmp(name, kName) == 0;
  lua_pop(L, 1);
  return named;
}

Tensor& check_tensor(lua_State* L, int index, const char* op) {
  Tensor* cell = tensor_cell(L, index);
  if (cell != nullptr && cell->defined()) return *cell;
  if (is_freed(L, index)) fail(op, ": the tensor has been freed");
  fail(op, ": a tensor is expected, got ", type_name(L, index));
}

void push_new_metatable(lua_State* L) {
  static const luaL_Reg kMetamethods[] = {
      {"__gc", guard<l_gc>},       {"__close", guard<l_close>},       {"__eq", guard<l_equal>},
      {"__len", guard<l_length>},  {"__pairs", guard<l_pairs>},       {"__call", guard<l_call>},
      {"__concat", guard<concat>}, {"__tostring", guard<l_tostring>}, {nullptr, nullptr}};
  make_seen_table(L);
  make_late_cells(L);
  lua_createtable(L, 0, 40);
  luaL_setfuncs(L, kMetamethods, 0);
  // What Lua's own functions show where they want a number: "number expected, got ...".
  lua_pushstring(L, kName);
  lua_setfield(L, -2, "__name");
  // Scripts cannot reach the metatable, so none can break the type check.
  lua_pushliteral(L, "Tensor");
  lua_setfield(L, -2, "__metatable");
  lua_pushvalue(L, -1);
  binding_state(L).metatable_ref = luaL_ref(L, LUA_REGISTRYINDEX);
}

int push_result(lua_State* L, Tensor tensor) {
  if (!tensor.defined()) [[unlikely]]
    return 0;
  push_tensor(L, std::move(tensor));
  return 1;
}

int push_items(lua_State* L, int index, int count) {
  for (int i = 1; i <= count; ++i) lua_geti(L, index, i);
  return count;
}

int push_result(lua_State* L, std::vector<Tensor> tensors) {
  lua_createtable(L, static_cast<int>(tensors.size()), 0);
  for (size_t i = 0; i < tensors.size(); ++i) {
    push_tensor(L, std::move(tensors[i]));
    lua_rawseti(L, -2, static_cast<lua_Integer>(i + 1));
  }
  return 1;
}

int push_result(lua_State* L, const Scalar& scalar) {
  switch (scalar.kind()) {
    case Scalar::Kind::Bool: lua_pushboolean(L, scalar.to_bool()); break;
    case Scalar::Kind::Int: lua_pushinteger(L, scalar.to_int()); break;
    case Scalar::Kind::Float: lua_pushnumber(L, scalar.to_double()); break;
    default: push_complex(L, scalar.to_complex());
  }
  return 1;
}

int push_result(lua_State* L, bool value) {
  lua_pushboolean(L, value);
  return 1;
}

int push_result(lua_State* L, int64_t value) {
  lua_pushinteger(L, value);
  return 1;
}

int push_result(lua_State* L, double value) {
  lua_pushnumber(L, value);
  return 1;
}

int push_string(lua_State* L, std::string_view text) {
  lua_pushlstring(L, text.data(), text.size());
  return 1;
}

const char* type_name(lua_State* L, int index) {
  if (is_freed(L, index)) return "freed Tensor";
  if (tensor_cell(L, index) != nullptr) return "Tensor";
  if (lua_type(L, index) == LUA_TUSERDATA && luaL_getmetafield(L, index, "__name") != LUA_TNIL) {
    const char* name = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : nullptr;
    lua_pop(L, 1);
    if (name != nullptr) return name;  // the metatable keeps it
  }
  return luaL_typename(L, index);
}

bool is_callable(lua_State* L, int index) {
  if (lua_isfunction(L, index)) return true;
  if (tensor_cell(L, index) != nullptr || is_freed(L, index)) return false;
  if (luaL_getmetafield(L, index, "__call") == LUA_TNIL) return false;
  lua_pop(L, 1);
  return true;
}

int concat(lua_State* L) {
  for (int i = 1; i <= 2; ++i) {
    if (tensor_cell(L, i) != nullptr)
      push_element_text(L, i);
    else if (lua_isstring(L, i) || shape_at(L, i))
      luaL_tolstring(L, i, nullptr);
    else
      fail("..: strings, numbers, shapes and tensors of one element are joined, got ",
           type_name(L, i));
    lua_replace(L, i);
    lua_settop(L, 2);
  }
  lua_concat(L, 2);
  return 1;
}

std::string called_message(const char* message, const char* called) {
  const std::string_view text = message;
  const size_t colon = text.find(": ");
  if (colon == text.npos) return std::string(called) + ": " + message;
  std::string name(text.substr(0, colon));
  if (name == called) return message;
  // An op of a module (`linalg.svd`) has an underscore in its row; one without a plain form
  // (`uniform_`) calls itself by the name of its row.
  std::replace(name.begin(), name.end(), '.', '_');
  if (find_op(name) == nullptr && find_op(name + "_") == nullptr) return message;
  return called + std::string(text.substr(colon));
}

int retry_after_collection(lua_State* L, int top, lua_CFunction f) {
  lua_settop(L, top);
  gc::collect(L);
  // Should it fail again, what the script held dies with the error, and whoever wants memory next,
  // libraries too, is to find it.
  gc::collect_soon(L);
  return f(L);
}

void set_functions(lua_State* L, int index, const luaL_Reg* functions) {
  lua_pushvalue(L, index);
  luaL_setfuncs(L, functions, 0);
  lua_pop(L, 1);
}

}  // namespace binding
}  // namespace moonlet

// interp/binding/tensor/tensor_class.cpp: registered classes of tensors and storages: what makes a
// metatable one, values that cross from one class to another over the same memory, and x[i].
#include "interp/binding/tensor/tensor_class.h"

#include <cmath>
#include <cstdint>
#include <limits>

#include "autograd/tape.h"
#include "interp/binding/arg_reader.h"
#include "interp/binding/tensor/index.h"
#include "interp/binding/tensor/storage.h"
#include "interp/binding/uses_tensor_class.h"
#include "tensor/core/dispatch.h"
#include "tensor/program/captured_call.h"

namespace moonlet::binding {

std::atomic<bool> tensor_classes_exist{false};

namespace {

// Their addresses are keys in the metatables: of the family of a tensor class (its metatables by
// dtype), and of what says that a metatable is one of storages.
constexpr char kFamily = 0;
constexpr char kStorageClass = 0;

// The upvalues of the functions for x[i] and x[i] = v.
constexpr int kMethods = lua_upvalueindex(1);
constexpr int kOther = lua_upvalueindex(2);

// --- positions ---------------------------------------------------------------------------------

// The 0-based position in dimension `dim`; a number with a fraction counts without it.
int64_t position_in(const Tensor& x, int dim, double at) {
  const int64_t size = x.size(dim);
  const double whole = std::trunc(at);
  const double wrapped = whole < 0 ? whole + static_cast<double>(size) + 1 : whole;
  if (!(wrapped >= 1 && wrapped <= static_cast<double>(size)))
    fail("index: position ", at, " is outside 1 to ", size, ", the size of dimension ", dim + 1);
  return static_cast<int64_t>(wrapped) - 1;
}

// Reads the positions of x[i] and x[{i, j}] into `out`; false when the key is something else.
bool read_positions(lua_State* L, const Tensor& x, int key, Dims& out) {
  if (lua_type(L, key) == LUA_TNUMBER) {
    check(x.dim() > 0 && x.numel() > 0, "index: the tensor is empty");
    out.push_back(position_in(x, 0, lua_tonumber(L, key)));
    return true;
  }
  if (lua_type(L, key) != LUA_TTABLE) return false;
  const auto count = static_cast<lua_Integer>(lua_rawlen(L, key));
  if (count == 0 || count > x.dim()) return false;
  for (lua_Integer i = 1; i <= count; ++i) {
    const bool is_number = lua_rawgeti(L, key, i) == LUA_TNUMBER;
    const double at = is_number ? lua_tonumber(L, -1) : 0;
    lua_pop(L, 1);
    if (!is_number) return false;
    out.push_back(position_in(x, static_cast<int>(i - 1), at));
  }
  return true;
}

Tensor part_at(const Tensor& x, const Dims& positions) {
  Tensor part = x;
  for (const int64_t position : positions) part = select(part, 0, position);
  return part;
}

int push_element(lua_State* L, const Tensor& x, const Dims& positions) {
  program::note_values_read("index");
  const Tensor part = part_at(x, positions);
  const Tensor host = on_host(part);
  visit<dtypes::any>(host.dtype(),
                     [&]<class T>() { push_result(L, Scalar::of(*host.elements<T>())); });
  return 1;
}

int l_index(lua_State* L) {
  const Tensor& x = check_tensor(L, 1, "index");
  Dims positions;
  if (!read_positions(L, x, 2, positions)) {
    lua_settop(L, 2);
    lua_pushvalue(L, kOther);
    lua_insert(L, 1);
    lua_call(L, 2, LUA_MULTRET);
    return lua_gettop(L);
  }
  if (positions.size() == x.dim()) return push_element(L, x, positions);
  return push_result(L, part_at(x, positions));
}

// Names, which most keys are, need none of what the guard does.
int l_index_or_method(lua_State* L) {
  if (lua_type(L, 2) != LUA_TSTRING) return op_guard<l_index>(L);
  lua_settop(L, 2);
  lua_gettable(L, kMethods);
  return 1;
}

// A number as C converts it to an integer of T's width: the fraction goes, what is too large wraps.
template <class T>
Scalar converted(lua_State* L, int index) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    if (lua_isinteger(L, index))
      return static_cast<int64_t>(static_cast<T>(lua_tointeger(L, index)));
    const double value = std::trunc(lua_tonumber(L, index));
    const bool fits = value >= -0x1p63 && value < 0x1p63;
    const int64_t whole = fits ? static_cast<int64_t>(value) : std::numeric_limits<int64_t>::min();
    return static_cast<int64_t>(static_cast<T>(whole));
  } else {
    return lua_tonumber(L, index);
  }
}

Scalar number_for(lua_State* L, int index, DType dtype) {
  Scalar out;
  visit<dtypes::any>(dtype, [&]<class T>() { out = converted<T>(L, index); });
  return out;
}

int l_newindex(lua_State* L) {
  const Tensor& x = check_tensor(L, 1, "index");
  Dims positions;
  if (lua_type(L, 3) == LUA_TNUMBER && read_positions(L, x, 2, positions)) {
    Tensor part = part_at(x, positions);
    fill_(part, number_for(L, 3, x.dtype()));
    return 0;
  }
  lua_settop(L, 3);
  lua_pushvalue(L, kOther);
  lua_insert(L, 1);
  lua_call(L, 3, 0);
  return 0;
}

// --- elements of storages ------------------------------------------------------------------------

int64_t position_in(const TypedStorage& s, double at) {
  const double whole = std::trunc(at);
  if (!(whole >= 1 && whole <= static_cast<double>(s.size())))
    fail("Storage: position ", at, " is outside 1 to ", s.size(), ", the size of the storage");
  return static_cast<int64_t>(whole) - 1;
}

int l_storage_index(lua_State* L) {
  if (lua_type(L, 2) != LUA_TNUMBER) {
    lua_settop(L, 2);
    lua_gettable(L, kMethods);
    return 1;
  }
  const TypedStorage& s = check_storage(L, 1, "Storage");
  return push_result(L, s.get(position_in(s, lua_tonumber(L, 2))));
}

int l_storage_newindex(lua_State* L) {
  TypedStorage& s = check_storage(L, 1, "Storage");
  for (const int argument : {2, 3})
    if (lua_type(L, argument) != LUA_TNUMBER)
      fail("Storage: numbers are expected, got ", type_name(L, argument));
  s.set(position_in(s, lua_tonumber(L, 2)), number_for(L, 3, s.dtype()));
  return 0;
}

// --- classes -----------------------------------------------------------------------------------

// Copies the fields of the metatable at `from` that keep userdata safe to the one at `to`.
void copy_finalizers(lua_State* L, int from, int to) {
  for (const char* name : {"__gc", "__close"}) {
    lua_getfield(L, from, name);
    lua_setfield(L, to, name);
  }
}

// register(metatable, family, dtype, index, newindex): makes `metatable` that of a class for
// tensors of `dtype`; results of the others in the table `family` have it. A key that is no number,
// list of numbers or name goes to index(x, key) and newindex(x, key, value).
int l_register(lua_State* L) {
  for (const int table : {1, 2}) luaL_checktype(L, table, LUA_TTABLE);
  for (const int function : {4, 5}) luaL_checktype(L, function, LUA_TFUNCTION);
  const DType dtype = dtype_from_name(luaL_checkstring(L, 3));
  lua_pushvalue(L, 1);
  lua_rawseti(L, 2, static_cast<lua_Integer>(dtype) + 1);
  lua_pushvalue(L, 2);
  lua_rawsetp(L, 1, &kFamily);
  lua_rawgeti(L, LUA_REGISTRYINDEX, binding_state(L).metatable_ref);
  copy_finalizers(L, lua_gettop(L), 1);
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 4);
  lua_pushcclosure(L, l_index_or_method, 2);
  lua_setfield(L, 1, "__index");
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 5);
  lua_pushcclosure(L, op_guard<l_newindex>, 2);
  lua_setfield(L, 1, "__newindex");
  tensor_classes_exist.store(true, std::memory_order_relaxed);
  return 0;
}

// register_storage(metatable): the same for storages.
int l_register_storage(lua_State* L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_pushboolean(L, 1);
  lua_rawsetp(L, 1, &kStorageClass);
  lua_rawgeti(L, LUA_REGISTRYINDEX, binding_state(L).storage_metatable_ref);
  copy_finalizers(L, lua_gettop(L), 1);
  lua_pushvalue(L, 1);
  lua_pushcclosure(L, op_guard<l_storage_index>, 1);
  lua_setfield(L, 1, "__index");
  lua_pushcfunction(L, op_guard<l_storage_newindex>);
  lua_setfield(L, 1, "__newindex");
  tensor_classes_exist.store(true, std::memory_order_relaxed);
  return 0;
}

// Gives the userdata on top the metatable at stack index 2, of a class by the key there.
void set_class(lua_State* L, const void* key, const char* op) {
  luaL_checktype(L, 2, LUA_TTABLE);
  const bool is_class = lua_rawgetp(L, 2, key) != LUA_TNIL;
  lua_pop(L, 1);
  check(is_class, op, ": the metatable is that of no registered class");
  lua_pushvalue(L, 2);
  lua_setmetatable(L, -2);
}

// tensor(x, metatable=nil): a tensor of that class, or a native one, on the memory of x.
int l_tensor(lua_State* L) {
  Tensor other = detach(check_tensor(L, 1, "tensor"));
  const bool native = lua_isnoneornil(L, 2);
  lua_pushnil(L);
  lua_replace(L, 1);  // whose class the result would have
  push_tensor(L, std::move(other));
  if (!native) set_class(L, &kFamily, "tensor");
  return 1;
}

// storage(s, metatable): a handle of that class on the storage of a storage or tensor.
int l_storage(lua_State* L) {
  const Tensor* x = tensor_cell(L, 1);
  TypedStorage storage =
      x != nullptr ? TypedStorage(check_tensor(L, 1, "storage")) : check_storage(L, 1, "storage");
  lua_rawgeti(L, LUA_REGISTRYINDEX, binding_state(L).storage_metatable_ref);
  new (lua_newuserdatauv(L, sizeof(TypedStorage), 0)) TypedStorage(std::move(storage));
  lua_insert(L, -2);
  lua_setmetatable(L, -2);
  if (!lua_isnoneornil(L, 2)) set_class(L, &kStorageClass, "storage");
  return 1;
}

// longs(list, metatable): a storage of that class with the integers of a list.
int l_longs(lua_State* L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  const auto count = static_cast<int64_t>(lua_rawlen(L, 1));
  TypedStorage storage(count, {DType::Int64, Device{}});
  auto* const elements = static_cast<int64_t*>(storage.data());
  for (int64_t i = 0; i < count; ++i) {
    lua_rawgeti(L, 1, i + 1);
    elements[i] = luaL_checkinteger(L, -1);
    lua_pop(L, 1);
  }
  lua_rawgeti(L, LUA_REGISTRYINDEX, binding_state(L).storage_metatable_ref);
  new (lua_newuserdatauv(L, sizeof(TypedStorage), 0)) TypedStorage(std::move(storage));
  lua_insert(L, -2);
  lua_setmetatable(L, -2);
  set_class(L, &kStorageClass, "longs");
  return 1;
}

// part(s, offset, size, metatable): a storage on `size` elements of s behind the first `offset`.
int l_part(lua_State* L) {
  const TypedStorage s = check_storage(L, 1, "Storage");
  const int64_t offset = luaL_checkinteger(L, 2), size = luaL_checkinteger(L, 3);
  check(offset >= 0 && size >= 0 && offset <= s.size() && size <= s.size() - offset,
        "Storage: elements ", offset + 1, " to ", offset + size, " are outside a storage of ",
        s.size());
  const auto width = static_cast<int64_t>(size_of(s.dtype()));
  Storage* part = Storage::foreign(static_cast<char*>(s.data()) + offset * width,
                                   static_cast<size_t>(size * width), s.device(), [s] {});
  const Tensor all = view_of(*part, {size}, {1}, 0, s.dtype(), "Storage");
  part->release();
  lua_settop(L, 4);
  lua_replace(L, 2);
  push_tensor(L, all);
  lua_replace(L, 1);
  lua_settop(L, 2);
  return l_storage(L);
}

// take(x, y): x is what the tensor y was from now on; y has been freed.
int l_take(lua_State* L) {
  Tensor& x = check_tensor(L, 1, "take");
  Tensor& y = check_tensor(L, 2, "take");
  check(x.dtype() == y.dtype(), "take: a tensor of dtype ", x.dtype(), " is expected, got ",
        y.dtype());
  if (&x != &y) x = std::exchange(y, Tensor());
  lua_settop(L, 1);
  return 1;
}

// same_shape(x, y): whether both tensors have the same sizes.
int l_same_shape(lua_State* L) {
  return push_result(
      L, check_tensor(L, 1, "same_shape").sizes() == check_tensor(L, 2, "same_shape").sizes());
}

int push_list(lua_State* L, const Dims& dims) {
  lua_createtable(L, dims.size(), 0);
  for (int i = 0; i < dims.size(); ++i) {
    lua_pushinteger(L, dims[i]);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

// sizes(x), strides(x): as new tables.
int l_sizes(lua_State* L) { return push_list(L, check_tensor(L, 1, "sizes").sizes()); }
int l_strides(lua_State* L) { return push_list(L, check_tensor(L, 1, "strides").strides()); }

// id(x): a number that tells storages apart while they live.
int l_id(lua_State* L) {
  const Tensor* x = tensor_cell(L, 1);
  const Storage* storage =
      x != nullptr ? &check_tensor(L, 1, "id").storage() : &check_storage(L, 1, "id").storage();
  return push_result(L, static_cast<int64_t>(reinterpret_cast<intptr_t>(storage)));
}

// number(v, dtype): v as C converts it to the dtype.
int l_number(lua_State* L) {
  luaL_checknumber(L, 1);
  return push_result(L, number_for(L, 1, dtype_from_name(luaL_checkstring(L, 2))));
}

}  // namespace

void replace_by_class(lua_State* L, DType dtype) {
  const int top = lua_gettop(L);
  if (top < 2 || marked_cell(L, 1) == nullptr || lua_getmetatable(L, 1) == 0) return;
  if (lua_rawequal(L, -1, top)) {
    lua_settop(L, top);
    return;
  }
  const bool found = lua_rawgetp(L, -1, &kFamily) == LUA_TTABLE &&
                     lua_rawgeti(L, -1, static_cast<lua_Integer>(dtype) + 1) == LUA_TTABLE;
  if (found) lua_replace(L, top);
  lua_settop(L, top);
}

bool is_storage_class(lua_State* L, int index) {
  const bool found = lua_rawgetp(L, index, &kStorageClass) != LUA_TNIL;
  lua_pop(L, 1);
  return found;
}

void register_tensor_classes(lua_State* L) {
  static const luaL_Reg kFunctions[] = {{"register", guard<l_register>},
                                        {"register_storage", guard<l_register_storage>},
                                        {"tensor", op_guard<l_tensor>},
                                        {"storage", op_guard<l_storage>},
                                        {"longs", op_guard<l_longs>},
                                        {"part", op_guard<l_part>},
                                        {"take", op_guard<l_take>},
                                        {"id", guard<l_id>},
                                        {"sizes", guard<l_sizes>},
                                        {"strides", guard<l_strides>},
                                        {"same_shape", guard<l_same_shape>},
                                        {"number", guard<l_number>},
                                        {nullptr, nullptr}};
  luaL_newlib(L, kFunctions);
  lua_setfield(L, -3, "_classes");
}

}  // namespace moonlet::binding

// interp/binding/tensor/storage.cpp: storages in scripts: making them, reading and writing
// elements, and their methods and fields.
#include "interp/binding/tensor/storage.h"

#include <algorithm>
#include <iterator>
#include <new>

#include "interp/binding/arg_reader.h"
#include "interp/binding/io.h"
#include "interp/binding/tensor/index.h"
#include "interp/binding/tensor/iterate.h"
#include "interp/binding/tensor/tensor_class.h"
#include "interp/state/nearest.h"
#include "tensor/core/dispatch.h"
#include "tensor/io/bytes.h"
#include "tensor/raw_copy.h"
#include "tensor/runtime/backend.h"
#include "tensor/runtime/execution.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet::binding {
namespace {

// Storages print this many elements; longer ones only their ends.
constexpr int64_t kMaxShown = 20;

enum class Field : int {
  DType,
  Device,
  Nbytes,
  Itemsize,
  IsMapped,
  IsShared,
  IsForeign,
  IsReadOnly,
  Version
};

// In the order of Field.
constexpr const char* kFieldNames[] = {"dtype",      "device",       "nbytes",
                                       "itemsize",   "is_mapped",    "is_shared",
                                       "is_foreign", "is_read_only", "_version"};
static_assert(std::size(kFieldNames) == static_cast<size_t>(Field::Version) + 1);

// The upvalues of l_index.
constexpr int kMethods = lua_upvalueindex(1);
constexpr int kFields = lua_upvalueindex(2);

int push_field(lua_State* L, const TypedStorage& s, Field field) {
  switch (field) {
    case Field::DType: return push_string(L, name(s.dtype()));
    case Field::Device: return push_string(L, name(s.device()));
    case Field::Nbytes: return push_result(L, s.nbytes());
    case Field::Itemsize: return push_result(L, static_cast<int64_t>(size_of(s.dtype())));
    case Field::IsMapped: return push_result(L, s.storage().is_mapped());
    case Field::IsShared: return push_result(L, s.storage().is_shared());
    case Field::IsForeign: return push_result(L, s.storage().is_foreign());
    case Field::IsReadOnly: return push_result(L, s.storage().is_read_only());
    case Field::Version: return push_result(L, static_cast<int64_t>(s.storage().version()));
  }
  return 0;
}

// --- elements ----------------------------------------------------------------------------------

// The 0-based position that the value at `index` names; `s` is only read for its size.
int64_t position_at(lua_State* L, int index, const TypedStorage& s) {
  const std::optional<int64_t> position = whole_number(L, index);
  if (!position) fail("Storage: a position is an integer, got ", type_name(L, index));
  const int64_t size = s.size();
  if (*position < 1 || *position > size)
    fail("Storage: position ", *position, " is outside 1 to ", size, ", the size of the storage");
  return *position - 1;
}

int l_index(lua_State* L) {
  if (lua_type(L, 2) == LUA_TSTRING) {
    lua_pushvalue(L, 2);
    if (lua_rawget(L, kMethods) != LUA_TNIL) return 1;
    const TypedStorage& s = check_storage(L, 1, lua_tostring(L, 2));
    lua_pushvalue(L, 2);
    if (lua_rawget(L, kFields) == LUA_TNIL)
      unknown_member(L, "Storage", lua_tostring(L, 2), kFieldNames, kMethods);
    return push_field(L, s, static_cast<Field>(lua_tointeger(L, -1)));
  }
  const TypedStorage& s = check_storage(L, 1, "Storage");
  if (whole_number(L, 2) == s.size() + 1 && called_by_ipairs(L)) {
    lua_pushnil(L);
    return 1;
  }
  return push_result(L, s.get(position_at(L, 2, s)));
}

int l_newindex(lua_State* L) {
  TypedStorage& s = check_storage(L, 1, "Storage");
  if (lua_type(L, 2) == LUA_TSTRING)
    fail("Storage: only elements can be assigned, not '", lua_tostring(L, 2), "'");
  const std::optional<Scalar> value = scalar_at(L, 3);
  if (!value) fail("Storage: an element is a number or a boolean, got ", type_name(L, 3));
  check_number("Storage", "an element", *value, s.dtype());
  s.set(position_at(L, 2, s), *value);
  return 0;
}

int l_pairs(lua_State* L) {
  check_storage(L, 1, "pairs");
  return push_positions(L);
}

int l_length(lua_State* L) { return push_result(L, check_storage(L, 1, "#").size()); }

int l_equal(lua_State* L) {
  const TypedStorage* a = storage_cell(L, 1);
  const TypedStorage* b = storage_cell(L, 2);
  return push_result(L, a != nullptr && b != nullptr && a->defined() && a->is_same(*b));
}

int l_tostring(lua_State* L) {
  const TypedStorage* cell = storage_cell(L, 1);
  check(cell != nullptr, "tostring: Storage expected, got ", type_name(L, 1));
  if (!cell->defined()) return push_string(L, "Storage (freed)");
  const TypedStorage s = *cell;
  PrintOptions print = binding_state(L).print;
  print.threshold = kMaxShown;
  std::string out = format_elements(s.tensor(), print);
  append(out, text("\nStorage (", s.size(), ") ", s.dtype()));
  if (!s.device().is_cpu()) append(out, text(" ", s.device()));
  if (s.storage().is_mapped()) append(out, " mapped");
  if (s.storage().is_shared()) append(out, " shared");
  if (s.storage().is_read_only()) append(out, " read-only");
  return push_string(L, out);
}

int l_gc(lua_State* L) {
  if (TypedStorage* cell = storage_cell(L, 1)) *cell = TypedStorage();
  return 0;
}

// --- methods -----------------------------------------------------------------------------------

int l_free(lua_State* L) {
  TypedStorage* cell = storage_cell(L, 1);
  check(cell != nullptr, "free: a storage is expected, got ", type_name(L, 1));
  *cell = TypedStorage();
  return 0;
}

int l_size(lua_State* L) { return push_result(L, check_storage(L, 1, "size").size()); }

int l_data_ptr(lua_State* L) {
  return push_result(
      L, static_cast<int64_t>(reinterpret_cast<intptr_t>(check_storage(L, 1, "data_ptr").data())));
}

int l_fill(lua_State* L) {
  TypedStorage& s = check_storage(L, 1, "fill");
  const std::optional<Scalar> value = scalar_at(L, 2);
  if (!value) fail("fill: a number or a boolean is expected, got ", type_name(L, 2));
  check_number("fill", "the value", *value, s.dtype());
  s.fill(*value);
  lua_settop(L, 1);
  return 1;
}

int l_copy(lua_State* L) {
  TypedStorage s = check_storage(L, 1, "copy");
  if (storage_cell(L, 2) != nullptr) {
    s.copy(check_storage(L, 2, "copy"));
  } else {
    check(lua_istable(L, 2) || tensor_cell(L, 2) != nullptr,
          "copy: a storage, a tensor or a table of numbers is expected, got ", type_name(L, 2));
    std::optional<DType> as;
    if (lua_istable(L, 2)) as = s.dtype();
    const Tensor source = tensor_from_value(L, 2, as, s.device(), "copy");
    check(source.dim() == 1 && source.numel() == s.size(), "copy: the source has shape ",
          source.sizes(), " and the storage ", s.size(), " elements");
    Tensor all = s.tensor();
    raw::copy_(all, source);
  }
  lua_settop(L, 1);
  return 1;
}

int l_resize(lua_State* L) {
  TypedStorage& s = check_storage(L, 1, "resize");
  const std::optional<int64_t> size = whole_number(L, 2);
  if (!size) fail("resize: a number of elements is expected, got ", type_name(L, 2));
  s.resize(*size);
  lua_settop(L, 1);
  return 1;
}

int l_tolist(lua_State* L) {
  const TypedStorage s = check_storage(L, 1, "tolist");
  const TypedStorage here(on_host(s.tensor()));
  lua_createtable(L, static_cast<int>(std::min<int64_t>(here.size(), 1 << 24)), 0);
  for (int64_t i = 0; i < here.size(); ++i) {
    if (i % kStopBlock == 0) stop_if_requested();
    push_result(L, here.get(i));
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

// --- making ------------------------------------------------------------------------------------

constexpr ArgSpec kStorageArgs[] = {{"value", ArgType::Any, false},
                                    {"dtype", ArgType::DType, false, false, true},
                                    {"device", ArgType::Device, false, false, true},
                                    {"file", ArgType::String, false, false, true},
                                    {"shared", ArgType::Bool, false, false, true},
                                    {"read_only", ArgType::Bool, false, false, true},
                                    {"size", ArgType::Int, false, false, true}};
enum StorageArg { kValue, kDType, kDevice, kFile, kShared, kReadOnly, kSize };
static_assert(std::size(kStorageArgs) == kSize + 1);
const Signature kStorageSignature = {
    "Storage",
    "Storage(size or table, {dtype, device}) or Storage{file=, dtype, shared, read_only, size}",
    kStorageArgs, std::size(kStorageArgs)};

// `Storage{1, 2, dtype = ...}`: the elements and the options in one table become two.
void split_options(lua_State* L) {
  if (lua_gettop(L) != 1 || lua_type(L, 1) != LUA_TTABLE || lua_rawlen(L, 1) == 0) return;
  lua_newtable(L);
  lua_pushnil(L);
  while (lua_next(L, 1) != 0) {
    if (is_item(L, -2, static_cast<lua_Integer>(lua_rawlen(L, 1)))) {
      lua_pop(L, 1);
    } else {
      lua_pushvalue(L, -2);
      lua_insert(L, -2);
      lua_rawset(L, 2);
    }
  }
}

TypedStorage mapped_storage(lua_State* L, ArgReader& args, DType dtype) {
  check(!args.has(kValue), "Storage: elements come from 'file' or from 'value', not both");
  const Device device = args.has(kDevice) ? args.device(kDevice) : Device{};
  check(device.is_cpu(), "Storage: a file is mapped on the CPU, got device ", device);
  const std::string path = path_argument(L, args.slot(kFile), "Storage");
  const bool shared = args.has(kShared) && args.boolean(kShared);
  const bool read_only = args.has(kReadOnly) && args.boolean(kReadOnly);
  check(!shared || !read_only, "Storage: a file is mapped shared or read_only, not both");
  std::optional<int64_t> size;
  if (args.has(kSize)) size = args.integer(kSize);
  const Mapping mapping = shared      ? Mapping::Shared
                          : read_only ? Mapping::ReadOnly
                                      : Mapping::Private;
  TypedStorage out = TypedStorage::map_file(path, dtype, mapping, size);
  io::check_bool_bytes(out.tensor(), "Storage: '" + path + "'");
  return out;
}

TypedStorage storage_from(lua_State* L, ArgReader& args, std::optional<DType> dtype,
                          Device device) {
  if (!args.has(kValue)) return {0, {dtype.value_or(execution.default_dtype), device}};
  const int value = args.slot(kValue);
  if (const std::optional<int64_t> size = whole_number(L, value)) {
    require_device(device, "Storage");
    return {*size, {dtype.value_or(execution.default_dtype), device}};
  }
  if (lua_type(L, value) != LUA_TTABLE)
    fail("Storage: a size or a table of numbers is expected, got ", type_name(L, value),
         tensor_cell(L, value) != nullptr ? "; x:storage() gives a tensor's" : "");
  const Tensor elements = tensor_from_value(L, value, dtype, device, "Storage");
  check(elements.dim() == 1, "Storage: a flat table of numbers is expected, got shape ",
        elements.sizes());
  return TypedStorage(elements);
}

int l_storage(lua_State* L) {
  split_options(L);
  ArgReader args(L, kStorageSignature);
  std::optional<DType> dtype;
  if (args.has(kDType)) dtype = args.dtype(kDType);
  if (args.has(kFile))
    return push_storage(L, mapped_storage(L, args, dtype.value_or(execution.default_dtype)));
  for (const int i : {kShared, kReadOnly, kSize})
    check(!args.has(i), "Storage: option '", kStorageArgs[i].name, "' is for a mapped 'file'");
  return push_storage(
      L, storage_from(L, args, dtype, args.has(kDevice) ? args.device(kDevice) : Device{}));
}

int l_is_storage(lua_State* L) { return push_result(L, storage_cell(L, 1) != nullptr); }

// --- the type ----------------------------------------------------------------------------------

// The table of the storages that scripts hold, weak so that it holds none itself.
void make_registry(lua_State* L, BindingState& state) {
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  state.storages_ref = luaL_ref(L, LUA_REGISTRYINDEX);
}

// Makes the metatable; leaves the tables of methods and of fields on the stack.
void push_methods_with_metatable(lua_State* L, BindingState& state) {
  static const luaL_Reg kMetamethods[] = {{"__gc", guard<l_gc>},
                                          {"__close", guard<l_gc>},
                                          {"__eq", guard<l_equal>},
                                          {"__len", guard<l_length>},
                                          {"__newindex", op_guard<l_newindex>},
                                          {"__pairs", guard<l_pairs>},
                                          {"__tostring", op_guard<l_tostring>},
                                          {nullptr, nullptr}};
  static const luaL_Reg kList[] = {{"free", guard<l_free>},
                                   {"size", guard<l_size>},
                                   {"data_ptr", guard<l_data_ptr>},
                                   {"fill", op_guard<l_fill>},
                                   {"copy", op_guard<l_copy>},
                                   {"resize", op_guard<l_resize>},
                                   {"tolist", op_guard<l_tolist>},
                                   {"totable", op_guard<l_tolist>},
                                   {nullptr, nullptr}};
  luaL_newlib(L, kList);
  lua_createtable(L, 0, 10);
  luaL_setfuncs(L, kMetamethods, 0);
  lua_pushvalue(L, -2);
  lua_createtable(L, 0, static_cast<int>(std::size(kFieldNames)));
  for (size_t i = 0; i < std::size(kFieldNames); ++i) {
    lua_pushinteger(L, static_cast<lua_Integer>(i));
    lua_setfield(L, -2, kFieldNames[i]);
  }
  lua_pushvalue(L, -1);
  lua_insert(L, -4);  // methods, fields, metatable, methods, fields
  lua_pushcclosure(L, op_guard<l_index>, 2);
  lua_setfield(L, -2, "__index");
  lua_pushliteral(L, "Storage");
  lua_setfield(L, -2, "__name");
  lua_pushliteral(L, "Storage");
  lua_setfield(L, -2, "__metatable");
  state.storage_metatable = lua_topointer(L, -1);
  state.storage_metatable_ref = luaL_ref(L, LUA_REGISTRYINDEX);
}

// _rebind(x, y): the Lua value `x` is the tensor `y` from now on, wherever it is held.
int l_rebind(lua_State* L) {
  Tensor& cell = check_tensor(L, 1, "rebind");
  cell = check_tensor(L, 2, "rebind");
  return 0;
}

// What stands for memory that was given back while tensors are on it.
class GivenBack final : public DeferredContents {
 public:
  void fill(Storage&) override {
    fail(
        "the memory of this tensor has been given back: it is the whole of a parameter that "
        "fully_shard has sharded, which is there while its module runs; module:unshard() "
        "gathers it");
  }
  void drop(Storage&) noexcept override {}
};

// Never destroyed, since storages may outlive static objects.
void give_back(Storage& storage) {
  static GivenBack& given_back = *new GivenBack;
  storage.settle(Storage::allocate(0, storage.device()));
  storage.settle(Storage::deferred(0, storage.device(), given_back));
}

// _give_back_memory(x): frees the memory that `x` is on, though others may be on it: to use it is
// an error from now on. The tensors, what the tape has saved of them, and the version stay.
int l_give_back_memory(lua_State* L) {
  Storage& storage = check_tensor(L, 1, "give_back_memory").storage();
  check(!storage.is_foreign() && !storage.is_mapped() && !storage.has_other_writers(),
        "give_back_memory: memory that is the library's own, and of one interpreter, is expected");
  if (!storage.is_deferred()) give_back(storage);
  return 0;
}

// _take_memory(x, y): `x`, whose memory has been given back, is on that of `y`, which has none
// then.
int l_take_memory(lua_State* L) {
  Storage& to = check_tensor(L, 1, "take_memory").storage();
  Storage& from = check_tensor(L, 2, "take_memory").storage();
  check(to.is_deferred() && !from.is_deferred() && !from.is_foreign() && !from.is_mapped() &&
            to.bytes() == from.bytes() && to.device() == from.device(),
        "take_memory: a tensor without memory and one with as much are expected");
  Storage* const between = Storage::allocate(0, from.device());
  between->retain();
  from.settle(between);
  give_back(from);
  to.settle(between);
  return 0;
}

}  // namespace

TypedStorage* storage_cell(lua_State* L, int index) {
  index = lua_absindex(L, index);
  if (lua_type(L, index) != LUA_TUSERDATA || !lua_getmetatable(L, index)) return nullptr;
  const bool is_storage = lua_topointer(L, -1) == binding_state(L).storage_metatable ||
                          (tensor_classes_exist.load(std::memory_order_relaxed) &&
                           is_storage_class(L, -1) && lua_rawlen(L, index) == sizeof(TypedStorage));
  lua_pop(L, 1);
  return is_storage ? static_cast<TypedStorage*>(lua_touserdata(L, index)) : nullptr;
}

TypedStorage& check_storage(lua_State* L, int index, const char* op) {
  TypedStorage* cell = storage_cell(L, index);
  if (cell == nullptr) fail(op, ": a storage is expected, got ", type_name(L, index));
  if (!cell->defined()) fail(op, ": the storage has been freed");
  return *cell;
}

int push_storage(lua_State* L, TypedStorage storage) {
  BindingState& state = binding_state(L);
  pay_collector(L, state);
  luaL_checkstack(L, 4, "too many results");
  lua_rawgeti(L, LUA_REGISTRYINDEX, state.storages_ref);
  // One value for each storage and dtype: headers lie farther apart than there are dtypes.
  static_assert(sizeof(Storage) > kDTypeCount);
  const void* key =
      reinterpret_cast<const char*>(&storage.storage()) + static_cast<int>(storage.dtype());
  lua_rawgetp(L, -1, key);
  const TypedStorage* known = storage_cell(L, -1);
  if (known == nullptr || !known->defined()) {
    lua_pop(L, 1);
    new (lua_newuserdatauv(L, sizeof(TypedStorage), 0)) TypedStorage(std::move(storage));
    lua_rawgeti(L, LUA_REGISTRYINDEX, state.storage_metatable_ref);
    lua_setmetatable(L, -2);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, -3, key);
  }
  lua_remove(L, -2);
  return 1;
}

void register_storage(lua_State* L) {
  static const luaL_Reg kModule[] = {
      {"Storage", op_guard<l_storage>},       {"is_storage", guard<l_is_storage>},
      {"_rebind", guard<l_rebind>},           {"_give_back_memory", guard<l_give_back_memory>},
      {"_take_memory", guard<l_take_memory>}, {nullptr, nullptr}};
  BindingState& state = binding_state(L);
  make_registry(L, state);
  push_methods_with_metatable(L, state);
  lua_setfield(L, -4, "_storage_fields");
  lua_setfield(L, -3, "_storage_methods");
  set_functions(L, -2, kModule);
}

}  // namespace moonlet::binding

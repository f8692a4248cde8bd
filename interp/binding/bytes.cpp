// interp/binding/bytes.cpp: tensors from and to strings of bytes, and module moonlet.bytes, which
// the standard library reads and writes files with.
#include "interp/binding/bytes.h"

#include <bit>
#include <cstring>

#include "interp/binding/args.h"
#include "interp/entry.h"
#include "tensor/raw_copy.h"

static_assert(std::endian::native == std::endian::little,
              "the byte formats are little-endian, as all supported machines are");

namespace moonlet::binding {
namespace {

Dims shape_argument(lua_State* L, int index, const char* op) {
  Dims out;
  if (lua_type(L, index) != LUA_TTABLE)
    fail(op, ": the shape must be a table of sizes, got ", type_name(L, index));
  const int64_t count = luaL_len(L, index);
  for (int64_t i = 1; i <= count; ++i) {
    lua_geti(L, index, i);
    const auto size = whole_number(L, -1);
    if (!size || *size < 0) fail(op, ": size ", i, " of the shape is no size");
    out.push_back(*size);
    lua_pop(L, 1);
  }
  return out;
}

// from_bytes(bytes, dtype, shape?) -> tensor; without a shape, one dimension.
int l_from_bytes(lua_State* L) {
  constexpr const char* kOp = "from_bytes";
  if (lua_type(L, 1) != LUA_TSTRING) fail(kOp, ": a string is wanted, got ", type_name(L, 1));
  if (lua_type(L, 2) != LUA_TSTRING) fail(kOp, ": a dtype is wanted, got ", type_name(L, 2));
  size_t size = 0;
  const char* bytes = lua_tolstring(L, 1, &size);
  const DType dtype = dtype_from_name(lua_tostring(L, 2));
  Dims shape{static_cast<int64_t>(size / size_of(dtype))};
  if (!lua_isnoneornil(L, 3)) shape = shape_argument(L, 3, kOp);
  const int64_t count = numel_of(shape, kOp);
  if (static_cast<uint64_t>(count) * size_of(dtype) != size)
    fail(kOp, ": ", size, " bytes do not fill shape ", shape, " of ", name(dtype));
  Tensor out = empty_plain(shape, {dtype, {}}, kOp);
  if (size > 0) std::memcpy(out.raw(), bytes, size);
  check_bool_bytes(out, kOp);
  return push_result(L, out);
}

// to_bytes(x) -> string, little-endian, in row order.
int l_to_bytes(lua_State* L) {
  const Tensor rows = host_rows(check_tensor(L, 1, "to_bytes"));
  lua_pushlstring(L, rows.numel() > 0 ? rows.raw() : "",
                  static_cast<size_t>(rows.numel()) * size_of(rows.dtype()));
  return 1;
}

// rebind(x, y): the Lua value `x` is the tensor `y` from now on, wherever it is held.
int l_rebind(lua_State* L) {
  Tensor& cell = check_tensor(L, 1, "rebind");
  cell = check_tensor(L, 2, "rebind");
  return 0;
}

int open_bytes(lua_State* L) {
  static const luaL_Reg kFunctions[] = {{"from_bytes", op_guard<l_from_bytes>},
                                        {"to_bytes", op_guard<l_to_bytes>},
                                        {"rebind", guard<l_rebind>},
                                        {nullptr, nullptr}};
  // The tensor type has to exist before the first tensor is made here.
  luaL_requiref(L, "moonlet", luaopen_moonlet, 0);
  lua_pop(L, 1);
  lua_newtable(L);
  set_functions(L, -1, kFunctions);
  register_table_files(L);
  register_safetensors(L);
  return 1;
}

}  // namespace

void register_bytes(lua_State* L) {
  static const luaL_Reg kModule[] = {{"from_bytes", op_guard<l_from_bytes>}, {nullptr, nullptr}};
  static const luaL_Reg kMethods[] = {{"to_bytes", op_guard<l_to_bytes>}, {nullptr, nullptr}};
  set_functions(L, -2, kModule);
  set_functions(L, -1, kMethods);
}

std::string path_argument(lua_State* L, int index, const char* op) {
  if (lua_type(L, index) != LUA_TSTRING) fail(op, ": a path is wanted, got ", type_name(L, index));
  size_t size = 0;
  const char* text = lua_tolstring(L, index, &size);
  const std::string path(text, size);
  if (path.find('\0') != path.npos) fail(op, ": a path holds no zero byte");
  check_files_allowed(op, path);
  return path;
}

Tensor host_rows(const Tensor& x) {
  if (x.device() == Device{} && x.is_contiguous()) return x;
  Tensor out = empty_plain(x.sizes(), {x.dtype(), {}}, "to_bytes");
  raw::copy_(out, x);
  return out;
}

void check_bool_bytes(const Tensor& x, const std::string& what) {
  if (x.dtype() != DType::Bool) return;
  const char* bytes = x.raw();
  for (int64_t i = 0; i < x.numel(); ++i)
    if (static_cast<unsigned char>(bytes[i]) > 1)
      fail(what, ": byte ", i + 1, " of bool data is neither 0 nor 1");
}

}  // namespace moonlet::binding

int luaopen_moonlet_bytes(lua_State* L) { return moonlet::guard<moonlet::binding::open_bytes>(L); }

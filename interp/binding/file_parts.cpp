// interp/binding/file_parts.cpp: parts of files, for the formats that stdlib/files/ reads and
// writes: bytes as strings and tensors, and the checksums and compression of zip archives.
#include "interp/binding/file_parts.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "interp/binding/io.h"
#include "interp/binding/tensor/tensor_userdata.h"
#include "interp/state/guard.h"
#include "tensor/io/bytes.h"
#include "tensor/io/deflate.h"
#include "tensor/io/file_system.h"
#include "tensor/io/files.h"
#include "tensor/io/read_budget.h"
#include "tensor/memory/live_bound.h"

namespace moonlet::binding {
namespace {

// The part of a file that a caller names: `count` bytes from position `at`.
struct Part {
  uint64_t at;
  size_t count;
};

Part part_argument(lua_State* L, int index, const io::InputFile& file) {
  const lua_Integer at = luaL_checkinteger(L, index), count = luaL_checkinteger(L, index + 1);
  const auto size = static_cast<lua_Integer>(file.size());
  if (at < 0 || at > size || count < 0)
    file.refuse(text("it has no position ", int64_t{at}, " for ", int64_t{count}, " bytes"));
  return {static_cast<uint64_t>(at), static_cast<size_t>(std::min(count, size - at))};
}

void read_part(const io::InputFile& file, Part part, char* out) {
  try {
    file.read(part.at, out, part.count);
  } catch (const Error& e) {
    file.refuse(e.what());
  }
}

// read_bytes(path, at, count, caller) -> the bytes of a file from position `at`, fewer where it
// ends, and the file's size
int l_read_bytes(lua_State* L) {
  const char* op = luaL_optstring(L, 4, "load");
  const io::InputFile file(path_argument(L, 1, op), op);
  const Part part = part_argument(L, 2, file);
  luaL_Buffer buffer;
  read_part(file, part, luaL_buffinitsize(L, &buffer, part.count));
  luaL_pushresultsize(&buffer, part.count);
  lua_pushinteger(L, static_cast<lua_Integer>(file.size()));
  return 2;
}

// read_tensor(path, at, count, dtype, caller) -> those bytes of a file as a tensor of one dimension
int l_read_tensor(lua_State* L) {
  const char* op = luaL_checkstring(L, 5);
  const io::InputFile file(path_argument(L, 1, op), op);
  const Part part = part_argument(L, 2, file);
  if (static_cast<lua_Integer>(part.count) < lua_tointeger(L, 3))
    file.refuse("the file is cut off");
  const DType dtype = dtype_from_name(luaL_checkstring(L, 4));
  if (part.count % size_of(dtype) != 0)
    file.refuse(text(part.count, " bytes are no whole number of ", name(dtype)));
  Tensor out = empty_plain({static_cast<int64_t>(part.count / size_of(dtype))}, {dtype, {}}, op);
  if (part.count > 0) read_part(file, part, out.raw());
  io::check_bool_bytes(out, text(op, ": '", lua_tostring(L, 1), "'"));
  return push_result(L, out);
}

// The bytes of a string or of a tensor's elements in row order; `rows` holds what has to be copied.
std::string_view bytes_argument(lua_State* L, int index, std::vector<Tensor>& rows,
                                const char* op) {
  if (lua_type(L, index) == LUA_TSTRING) {
    size_t size = 0;
    const char* bytes = lua_tolstring(L, index, &size);
    return {bytes, size};
  }
  rows.push_back(io::host_rows(check_tensor(L, index, op), op));
  return io::bytes_of(rows.back());
}

// The strings and tensors of the list at `index`, which keeps the strings alive.
std::vector<std::string_view> parts_argument(lua_State* L, int index, std::vector<Tensor>& rows,
                                             const char* op) {
  luaL_checktype(L, index, LUA_TTABLE);
  std::vector<std::string_view> parts;
  const lua_Integer count = static_cast<lua_Integer>(lua_rawlen(L, index));
  for (lua_Integer i = 1; i <= count; ++i) {
    lua_rawgeti(L, index, i);
    parts.push_back(bytes_argument(L, -1, rows, op));
    lua_pop(L, 1);
  }
  return parts;
}

// write_parts(path, { string or tensor, .. }, caller): a file of these, whole or not at all
int l_write_parts(lua_State* L) {
  const char* op = luaL_checkstring(L, 3);
  const std::string path = path_argument(L, 1, op);
  std::vector<Tensor> rows;
  io::write_file(path, parts_argument(L, 2, rows, op), op);
  return 0;
}

// with_memory_file(path, bytes or nil, f, ...) -> the bytes of the file afterwards, or nil, and the
// results of f(...), for which the file of that path is in memory
int l_with_memory_file(lua_State* L) {
  size_t size = 0;
  const char* bytes = luaL_optlstring(L, 2, nullptr, &size);
  io::MemoryFile file(luaL_checkstring(L, 1), bytes != nullptr
                                                  ? std::optional<std::string_view>({bytes, size})
                                                  : std::nullopt);
  {
    const io::FileSystemScope scope(&file);
    lua_call(L, lua_gettop(L) - 3, LUA_MULTRET);
  }
  if (file.bytes())
    push_string(L, *file.bytes());
  else
    lua_pushnil(L);
  lua_replace(L, 2);  // no longer read
  return lua_gettop(L) - 1;
}

// checksum({ string or tensor, .. }) -> the CRC-32 of their bytes
int l_checksum(lua_State* L) {
  std::vector<Tensor> rows;
  uint32_t sum = 0;
  for (const std::string_view part : parts_argument(L, 1, rows, "checksum"))
    sum = io::checksum(part, sum);
  lua_pushinteger(L, lua_Integer{sum});
  return 1;
}

// deflate({ string or tensor, .. }) -> their bytes as a raw deflate stream
int l_deflate(lua_State* L) {
  std::vector<Tensor> rows;
  return push_string(L, io::deflate(parts_argument(L, 1, rows, "deflate")));
}

// inflate(bytes, size) -> the `size` bytes of a raw deflate stream as a uint8 tensor
int l_inflate(lua_State* L) {
  size_t stored = 0;
  const char* bytes = luaL_checklstring(L, 1, &stored);
  const lua_Integer size = luaL_checkinteger(L, 2);
  check(size >= 0 && io::may_inflate_to(stored, static_cast<uint64_t>(size)), int64_t{size},
        " bytes cannot come from ", stored, " compressed ones");
  Tensor out = empty_plain({size}, {DType::UInt8, {}}, "inflate");
  io::inflate({bytes, stored}, out.raw(), static_cast<size_t>(size));
  return push_result(L, out);
}

// read_limit(size, max_bytes) -> how many bytes a reader may make of a file of that size
int l_read_limit(lua_State* L) {
  const auto size = static_cast<uint64_t>(std::max<lua_Integer>(luaL_checkinteger(L, 1), 0));
  lua_pushinteger(L, io::read_limit(size, luaL_optinteger(L, 2, 0)));
  return 1;
}

// with_tensor_limit(bytes, f, ...) -> the results of f(...), in which tensors take no more than so
// many bytes at once beside those that there were, those that the tape keeps included
int l_with_tensor_limit(lua_State* L) {
  const memory::LiveBound bound(std::max<lua_Integer>(luaL_checkinteger(L, 1), 0));
  lua_call(L, lua_gettop(L) - 2, LUA_MULTRET);
  return lua_gettop(L) - 1;
}

}  // namespace

void register_file_parts(lua_State* L) {
  static const luaL_Reg kFunctions[] = {{"checksum", op_guard<l_checksum>},
                                        {"deflate", op_guard<l_deflate>},
                                        {"inflate", op_guard<l_inflate>},
                                        {"read_bytes", op_guard<l_read_bytes>},
                                        {"read_limit", op_guard<l_read_limit>},
                                        {"read_tensor", op_guard<l_read_tensor>},
                                        {"with_memory_file", guard<l_with_memory_file>},
                                        {"with_tensor_limit", guard<l_with_tensor_limit>},
                                        {"write_parts", op_guard<l_write_parts>},
                                        {nullptr, nullptr}};
  set_functions(L, -1, kFunctions);
}

}  // namespace moonlet::binding

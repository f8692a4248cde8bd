// interp/binding/safetensors.cpp: reads and writes safetensors files: 8 bytes of header length, a
// JSON header, the tensors' bytes. Reading maps the file; writing replaces it whole or not at all.
#include <algorithm>
#include <cstring>

#include "interp/binding/args.h"
#include "interp/binding/bytes.h"
#include "interp/binding/safetensors_header.h"
#include "interp/system.h"

namespace moonlet::binding {
namespace {

constexpr uint64_t kMostHeaderBytes = 100'000'000;

// Holds the one reference of a fresh storage.
struct StorageHolder {
  Storage* storage;
  explicit StorageHolder(Storage* s) : storage(s) {}
  StorageHolder(const StorageHolder&) = delete;
  StorageHolder& operator=(const StorageHolder&) = delete;
  ~StorageHolder() { storage->release(); }
};

SafetensorsHeader read_header(const Storage& file, int64_t& data_begin) {
  if (file.bytes() < 8) fail("the file is too short to hold a header");
  uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);
  if (length > kMostHeaderBytes)
    fail("the header would be more than ", static_cast<int64_t>(kMostHeaderBytes), " bytes long");
  if (length > file.bytes() - 8)
    fail("the header of ", static_cast<int64_t>(length), " bytes is longer than the file");
  data_begin = 8 + static_cast<int64_t>(length);
  return parse_safetensors_header({file.data() + 8, static_cast<size_t>(length)},
                                  static_cast<int64_t>(file.bytes()) - data_begin);
}

Storage* map_file(const std::string& path) {
  check_files_allowed("load", path);
  try {
    return Storage::map_file(path);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& e) {
    fail("load: ", e.what());
  }
}

// A view of the mapped file where its elements are aligned, else a copy.
Tensor entry_tensor(Storage& file, const SafetensorsEntry& entry, int64_t data_begin) {
  const int64_t at = data_begin + entry.begin, width = static_cast<int64_t>(size_of(entry.dtype));
  const bool aligned =
      reinterpret_cast<uintptr_t>(file.data() + at) % static_cast<size_t>(width) == 0;
  Tensor out;
  if (entry.end > entry.begin && aligned && at % width == 0) {
    out = view_of(file, entry.shape, contiguous_strides(entry.shape), at / width, entry.dtype,
                  "load");
  } else {
    out = empty(entry.shape, {entry.dtype, {}}, "load");
    if (entry.end > entry.begin)
      std::memcpy(out.raw(), file.data() + at, static_cast<size_t>(entry.end - entry.begin));
  }
  check_bool_bytes(out, text("'", entry.name, "'"));
  return out;
}

// read_safetensors(path) -> { name = tensor }, { name = metadata string }
int l_read(lua_State* L) {
  const std::string path = path_argument(L, 1, "load");
  const StorageHolder file(map_file(path));
  int64_t data_begin = 0;
  std::vector<std::pair<std::string, Tensor>> tensors;
  SafetensorsHeader header;
  try {
    header = read_header(*file.storage, data_begin);
    for (const SafetensorsEntry& entry : header.tensors)
      tensors.emplace_back(entry.name, entry_tensor(*file.storage, entry, data_begin));
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& e) {
    fail("load: '", path, "': ", e.what());
  }
  lua_createtable(L, 0, static_cast<int>(tensors.size()));
  for (auto& [name, tensor] : tensors) {
    lua_pushlstring(L, name.data(), name.size());
    push_result(L, std::move(tensor));
    lua_rawset(L, -3);
  }
  lua_createtable(L, 0, static_cast<int>(header.metadata.size()));
  for (const auto& [name, value] : header.metadata) {
    lua_pushlstring(L, name.data(), name.size());
    lua_pushlstring(L, value.data(), value.size());
    lua_rawset(L, -3);
  }
  return 2;
}

std::string checked_text(lua_State* L, int index, const char* what) {
  size_t size = 0;
  if (lua_type(L, index) != LUA_TSTRING) fail("save: ", what, " must be a string");
  const char* bytes = lua_tolstring(L, index, &size);
  return {bytes, size};
}

void collect_tensors(lua_State* L, int index, SafetensorsHeader& header,
                     std::vector<Tensor>& tensors) {
  std::vector<std::pair<std::string, Tensor>> found;
  lua_pushnil(L);
  while (lua_next(L, index) != 0) {
    std::string name = checked_text(L, -2, "a tensor's name");
    if (name == "__metadata__") fail("save: '__metadata__' cannot be the name of a tensor");
    found.emplace_back(std::move(name), check_tensor(L, -1, "save"));
    lua_pop(L, 1);
  }
  // The widest dtypes first keeps all data aligned.
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    const size_t left = size_of(a.second.dtype()), right = size_of(b.second.dtype());
    return left != right ? left > right : a.first < b.first;
  });
  int64_t at = 0;
  for (auto& [name, tensor] : found) {
    const int64_t bytes = tensor.numel() * static_cast<int64_t>(size_of(tensor.dtype()));
    header.tensors.push_back({std::move(name), tensor.dtype(), tensor.sizes(), at, at + bytes});
    at += bytes;
    tensors.push_back(host_rows(tensor));
  }
}

// write_safetensors(path, { name = tensor }, { name = metadata string })
int l_write(lua_State* L) {
  const std::string path = path_argument(L, 1, "save");
  SafetensorsHeader header;
  std::vector<Tensor> tensors;
  collect_tensors(L, 2, header, tensors);
  lua_pushnil(L);
  while (lua_next(L, 3) != 0) {
    std::string name = checked_text(L, -2, "metadata's name");
    header.metadata.emplace_back(std::move(name), checked_text(L, -1, "metadata"));
    lua_pop(L, 1);
  }
  std::sort(header.metadata.begin(), header.metadata.end());
  std::string text;
  try {
    text = format_safetensors_header(header);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& e) {
    fail("save: ", e.what());
  }
  const uint64_t length = text.size();
  char prefix[8];
  std::memcpy(prefix, &length, 8);
  std::vector<std::string_view> parts{{prefix, 8}, text};
  for (const Tensor& x : tensors)
    if (x.numel() > 0)
      parts.emplace_back(x.raw(), static_cast<size_t>(x.numel()) * size_of(x.dtype()));
  write_file(path, parts);
  return 0;
}

}  // namespace

void register_safetensors(lua_State* L) {
  static const luaL_Reg kFunctions[] = {{"read_safetensors", op_guard<l_read>},
                                        {"write_safetensors", op_guard<l_write>},
                                        {nullptr, nullptr}};
  set_functions(L, -1, kFunctions);
}

}  // namespace moonlet::binding

// interp/binding/safetensors.cpp: reads and writes safetensors files: 8 bytes of header length, a
// JSON header, the tensors' bytes. Reading copies or maps; writing replaces it whole or not at all.
#include <algorithm>
#include <cstring>
#include <memory>

#include "interp/binding/args.h"
#include "interp/binding/bytes.h"
#include "interp/binding/safetensors_header.h"
#include "tensor/io/files.h"

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

// The file's bytes, from a mapping or by reading.
class Source {
 public:
  virtual ~Source() = default;
  virtual uint64_t size() const = 0;
  virtual void read(uint64_t at, void* out, size_t count) const = 0;
  // The tensor of an entry, `at` bytes into the file.
  virtual Tensor tensor(const SafetensorsEntry& entry, int64_t at) const {
    Tensor out = empty_plain(entry.shape, {entry.dtype, {}}, "load");
    if (entry.end > entry.begin)
      read(static_cast<uint64_t>(at), out.raw(), static_cast<size_t>(entry.end - entry.begin));
    return out;
  }
};

// What is loaded is a copy: nothing that happens to the file later reaches it.
class ReadSource : public Source {
 public:
  explicit ReadSource(const std::string& path) : file_(path, "load") {}
  uint64_t size() const override { return file_.size(); }
  void read(uint64_t at, void* out, size_t count) const override { file_.read(at, out, count); }

 private:
  io::InputFile file_;
};

Storage* map_file(const std::string& path) {
  try {
    return Storage::map_file(path);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& e) {
    fail("load: ", e.what());
  }
}

// Tensors are views of the mapped file where their elements are aligned, else copies.
class MappedSource : public Source {
 public:
  explicit MappedSource(const std::string& path) : file_(map_file(path)) {}
  uint64_t size() const override { return file_.storage->bytes(); }
  void read(uint64_t at, void* out, size_t count) const override {
    std::memcpy(out, file_.storage->data() + at, count);
  }
  Tensor tensor(const SafetensorsEntry& entry, int64_t at) const override {
    const int64_t width = static_cast<int64_t>(size_of(entry.dtype));
    const auto address = reinterpret_cast<uintptr_t>(file_.storage->data() + at);
    const bool aligned = at % width == 0 && address % static_cast<size_t>(width) == 0;
    if (entry.end == entry.begin || !aligned) return Source::tensor(entry, at);
    return view_of(*file_.storage, entry.shape, contiguous_strides(entry.shape), at / width,
                   entry.dtype, "load");
  }

 private:
  StorageHolder file_;
};

SafetensorsHeader read_header(const Source& file, int64_t& data_begin) {
  if (file.size() < 8) fail("the file is too short to hold a header");
  uint64_t length = 0;
  file.read(0, &length, 8);
  if (length > kMostHeaderBytes)
    fail("the header would be more than ", static_cast<int64_t>(kMostHeaderBytes), " bytes long");
  if (length > file.size() - 8)
    fail("the header of ", static_cast<int64_t>(length), " bytes is longer than the file");
  data_begin = 8 + static_cast<int64_t>(length);
  std::string text(static_cast<size_t>(length), '\0');
  file.read(8, text.data(), text.size());
  return parse_safetensors_header(text, static_cast<int64_t>(file.size()) - data_begin);
}

// read_safetensors(path, mmap) -> { name = tensor }, { name = metadata string }
int l_read(lua_State* L) {
  const std::string path = path_argument(L, 1, "load");
  std::unique_ptr<const Source> file;
  if (lua_toboolean(L, 2) != 0)
    file = std::make_unique<MappedSource>(path);
  else
    file = std::make_unique<ReadSource>(path);
  int64_t data_begin = 0;
  std::vector<std::pair<std::string, Tensor>> tensors;
  SafetensorsHeader header;
  try {
    header = read_header(*file, data_begin);
    for (const SafetensorsEntry& entry : header.tensors) {
      tensors.emplace_back(entry.name, file->tensor(entry, data_begin + entry.begin));
      check_bool_bytes(tensors.back().second, text("'", entry.name, "'"));
    }
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
  io::write_file(path, parts, "save");
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

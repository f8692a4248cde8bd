// tensor/io/safetensors.cpp: reads and writes safetensors files: 8 bytes of header length, a
// JSON header, the tensors' bytes. Reading copies or maps; writing replaces a file whole or not at
// all.
#include "tensor/io/safetensors.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "tensor/io/bytes.h"
#include "tensor/io/file_system.h"
#include "tensor/io/files.h"
#include "tensor/io/read_budget.h"
#include "tensor/io/safetensors_header.h"

namespace moonlet::io {
namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;

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
  explicit Source(const char* op) : op_(op) {}
  virtual ~Source() = default;
  virtual uint64_t size() const = 0;
  virtual void read(uint64_t at, void* out, size_t count) const = 0;
  // The tensor of an entry, `at` bytes into the file.
  virtual Tensor tensor(const SafetensorsEntry& entry, int64_t at) const {
    Tensor out = empty_plain(entry.shape, {entry.dtype, {}}, op_);
    if (entry.end > entry.begin)
      read(static_cast<uint64_t>(at), out.raw(), static_cast<size_t>(entry.end - entry.begin));
    return out;
  }

 protected:
  const char* const op_;
};

// What is loaded is a copy: nothing that happens to the file later reaches it.
class ReadSource : public Source {
 public:
  ReadSource(const std::string& path, const char* op) : Source(op), file_(path, op) {}
  uint64_t size() const override { return file_.size(); }
  void read(uint64_t at, void* out, size_t count) const override { file_.read(at, out, count); }

 private:
  InputFile file_;
};

Storage* map_file(const std::string& path, const char* op) {
  try {
    return Storage::map_file(path);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& e) {
    fail(op, ": ", e.what());
  }
}

// Tensors are views of the mapped file where their elements are aligned, else copies.
class MappedSource : public Source {
 public:
  MappedSource(const std::string& path, const char* op) : Source(op), file_(map_file(path, op)) {}
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
                   entry.dtype, op_);
  }

 private:
  StorageHolder file_;
};

SafetensorsHeader read_header(const Source& file, int64_t& data_begin, ReadBudget& budget) {
  if (file.size() < 8) fail("the file is too short to hold a header");
  uint64_t length = 0;
  file.read(0, &length, 8);
  if (length > kMaxHeaderBytes)
    fail("the header would be more than ", static_cast<int64_t>(kMaxHeaderBytes), " bytes long");
  if (length > file.size() - 8)
    fail("the header of ", static_cast<int64_t>(length), " bytes is longer than the file");
  data_begin = 8 + static_cast<int64_t>(length);
  std::string text(static_cast<size_t>(length), '\0');
  file.read(8, text.data(), text.size());
  return parse_safetensors_header(text, static_cast<int64_t>(file.size()) - data_begin, budget);
}

std::unique_ptr<const Source> open(const std::string& path, LoadOptions options, const char* op) {
  // What never changes needs no copy.
  if (options.mmap || mappable_part(path)) return std::make_unique<MappedSource>(path, op);
  return std::make_unique<ReadSource>(path, op);
}

// What a file's header says of these tensors, whose elements come to the host for it.
SafetensorsHeader lay_out(const NamedTensors& named, std::vector<Tensor>& rows, const char* op) {
  std::vector<const NamedTensors::value_type*> order;
  for (const auto& entry : named) {
    check(entry.first != "__metadata__", op, ": '__metadata__' cannot be the name of a tensor");
    check(entry.second.defined(), op, ": the tensor '", entry.first, "' is undefined");
    order.push_back(&entry);
  }
  // The widest dtypes first keeps all data aligned.
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return size_of(a->second.dtype()) > size_of(b->second.dtype());
  });
  SafetensorsHeader header;
  int64_t at = 0;
  for (const auto* entry : order) {
    const Tensor& tensor = entry->second;
    const int64_t bytes = tensor.numel() * static_cast<int64_t>(size_of(tensor.dtype()));
    header.tensors.push_back({entry->first, tensor.dtype(), {}, 0, tensor.sizes(), at, at + bytes});
    at += bytes;
    rows.push_back(host_rows(tensor, op));
  }
  return header;
}

std::string format_header(const SafetensorsHeader& header, const char* op) {
  try {
    return format_safetensors_header(header);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& e) {
    fail(op, ": ", e.what());
  }
}

}  // namespace

Safetensors load_safetensors(const std::string& path, LoadOptions options, const char* op) {
  const std::unique_ptr<const Source> file = open(path, options, op);
  Safetensors out;
  try {
    int64_t data_begin = 0;
    ReadBudget budget(file->size(), options.max_bytes);
    // The elements, and the header's text; each byte belongs to one.
    budget.take(file->size());
    SafetensorsHeader header = read_header(*file, data_begin, budget);
    for (const SafetensorsEntry& entry : header.tensors) {
      if (!entry.foreign.empty()) {
        out.left_out.emplace(entry.name, entry.foreign);
        continue;
      }
      Tensor tensor = file->tensor(entry, data_begin + entry.begin);
      check_bool_bytes(tensor, text("'", entry.name, "'"));
      out.tensors.emplace(entry.name, std::move(tensor));
    }
    out.metadata = std::move(header.metadata);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& e) {
    fail(op, ": '", path, "': ", e.what());
  }
  return out;
}

void save_safetensors(const std::string& path, const NamedTensors& tensors,
                      const Metadata& metadata, const char* op) {
  std::vector<Tensor> rows;
  SafetensorsHeader header = lay_out(tensors, rows, op);
  header.metadata = metadata;
  const std::string head = format_header(header, op);
  const uint64_t length = head.size();
  char prefix[8];
  std::memcpy(prefix, &length, 8);
  std::vector<std::string_view> parts{{prefix, 8}, head};
  for (const Tensor& x : rows) parts.push_back(bytes_of(x));
  write_file(path, parts, op);
}

}  // namespace moonlet::io

// tensor/io/idx.cpp: IDX files: two zero bytes, a type, a rank, big-endian sizes and elements.
#include "tensor/io/idx.h"

#include "tensor/io/files.h"
#include "tensor/io/read_budget.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet::io {
namespace {

DType dtype_of_code(const std::string& path, unsigned char code, const char* op) {
  switch (code) {
    case 0x08: return DType::UInt8;
    case 0x09: return DType::Int8;
    case 0x0B: return DType::Int16;
    case 0x0C: return DType::Int32;
    case 0x0D: return DType::Float32;
    case 0x0E: return DType::Float64;
    default: fail(op, ": '", path, "' has the unknown type code ", static_cast<int>(code));
  }
}

int64_t big_endian_32(const char* bytes) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

void swap_into(char* out, const char* in, int64_t count, size_t width) {
  for (int64_t i = 0; i < count; ++i, in += width, out += width) {
    if (i % kStopBlock == 0) stop_if_requested();
    for (size_t b = 0; b < width; ++b) out[b] = in[width - 1 - b];
  }
}

}  // namespace

Tensor read_idx(const std::string& path, const char* op, int64_t max_bytes) {
  InputFile file(path, op);
  ReadBudget budget(file.size(), max_bytes);
  // The tensor has as many bytes as the file.
  const std::string data = read_for(file, budget, 2);
  if (data.size() < 4 || data[0] != 0 || data[1] != 0)
    fail(op, ": '", path, "' is no IDX file: it does not start with two zero bytes and a type");
  const DType dtype = dtype_of_code(path, static_cast<unsigned char>(data[2]), op);
  const int rank = static_cast<unsigned char>(data[3]);
  if (rank > kMaxDims)
    fail(op, ": '", path, "' has ", rank, " dimensions; at most ", kMaxDims, " are read");
  const size_t header = 4 + 4 * static_cast<size_t>(rank);
  if (data.size() < header) fail(op, ": '", path, "' is cut short inside its header");
  Dims sizes;
  for (int i = 0; i < rank; ++i) sizes.push_back(big_endian_32(data.data() + 4 + 4 * i));
  const int64_t count = numel_of(sizes, op);
  const uint64_t wanted = static_cast<uint64_t>(count) * size_of(dtype);
  if (data.size() - header != wanted)
    fail(op, ": '", path, "' has ", data.size() - header, " bytes of data; its shape ", sizes,
         " of ", name(dtype), " wants ", static_cast<int64_t>(wanted),
         data.size() - header < wanted ? "; the file is cut short" : "");
  Tensor out = empty_plain(sizes, {dtype, {}}, op);
  if (count > 0) swap_into(out.raw(), data.data() + header, count, size_of(dtype));
  return out;
}

}  // namespace moonlet::io

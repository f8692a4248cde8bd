// tensor/io/safetensors_header.h: the header of a safetensors file: read strictly, because a
// file may come from anybody, and written.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/io/safetensors.h"

namespace moonlet::io {

class ReadBudget;

struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::Float32;
  std::string_view foreign;  // the format's name of a type that has no dtype here, else empty
  int bits = 0;              // of an element; 0 where it is written
  Dims shape;
  int64_t begin = 0, end = 0;  // bytes, from the end of the header
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;
  Metadata metadata;
};

// Reads the JSON text of a header for `data_bytes` bytes of data. Throws Error for anything that is
// not exactly the format: other JSON, repeated names, unknown types, and offsets that overlap,
// leave holes, or do not fit the shapes; also where its entries pass the budget.
SafetensorsHeader parse_safetensors_header(std::string_view text, int64_t data_bytes,
                                           ReadBudget& budget);

// The JSON text, padded with spaces so that data after it and its 8 bytes of length is aligned.
// Throws Error when a name or metadata is not UTF-8.
std::string format_safetensors_header(const SafetensorsHeader& header);

}  // namespace moonlet::io

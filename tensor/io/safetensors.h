// tensor/io/safetensors.h: named tensors in safetensors files, which PyTorch and others share.
#pragma once

#include <map>
#include <string>

#include "tensor/core/tensor.h"

namespace moonlet::io {

using NamedTensors = std::map<std::string, Tensor>;
// Texts that a file has beside its tensors.
using Metadata = std::map<std::string, std::string>;

struct Safetensors {
  NamedTensors tensors;
  Metadata metadata;
  // The types by name of those tensors that are not read, since no dtype here is theirs.
  std::map<std::string, std::string> left_out;
};

struct LoadOptions {
  // Tensors are views of the mapped file, which is read as they are used, rather than copies. Who
  // writes into the file then changes them, and reading what was cut off it ends the process; what
  // this process writes to them stays in it.
  bool mmap = false;
  // What reading may take; 0: 512 MiB, or 256 times the file's size where that is more.
  int64_t max_bytes = 0;
};

// The tensors of a file, on the CPU and without a history. Throws Error "OP: 'PATH': reason" for a
// file that cannot be read or is not exactly of the format, which may come from anybody.
Safetensors load_safetensors(const std::string& path, LoadOptions options = {},
                             const char* op = "load_safetensors");

// Writes tensors of any layout and device, the file whole or not at all: also safe where one is
// loaded that is mapped from `path`. Throws Error naming `op` when it cannot be written, a tensor
// is undefined, or a name or metadata is not UTF-8.
void save_safetensors(const std::string& path, const NamedTensors& tensors,
                      const Metadata& metadata = {}, const char* op = "save_safetensors");

}  // namespace moonlet::io
